package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/compare"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
)

// maxPrediction is more than the JSON of a prediction has, with a timeline.
const maxPrediction = 64 << 20

// readPrediction reads what predict --json wrote; false where the file is something else.
func readPrediction(name string) (*report.Prediction, bool) {
	f, err := os.Open(name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	head := make([]byte, 64)
	n, _ := io.ReadFull(f, head)
	if !strings.Contains(string(head[:n]), report.PredictSchema) {
		return nil, false
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, false
	}
	var p report.Prediction
	if err := json.NewDecoder(io.LimitReader(f, maxPrediction)).Decode(&p); err != nil || p.Error != "" {
		return nil, false
	}
	return &p, true
}

// diffPredictions compares two files of predict --json; false where they are something else.
func diffPredictions(env Env, o diffOptions, before, after string) (bool, error) {
	a, isOne := readPrediction(before)
	b, isOther := readPrediction(after)
	switch {
	case !isOne && !isOther:
		return false, nil
	case !isOne:
		return true, unreadable(fmt.Errorf("%s is a prediction, %s is not: compare two predictions, or two snapshots", after, before))
	case !isOther:
		return true, unreadable(fmt.Errorf("%s is a prediction, %s is not: compare two predictions, or two snapshots", before, after))
	}
	d := compare.Predictions(a, b)
	if err := o.printPredictions(env, d); err != nil {
		return true, err
	}
	if !d.Fits {
		return true, findingExit()
	}
	return true, nil
}

func (o diffOptions) printPredictions(env Env, d *report.PredictDiff) error {
	switch {
	case o.JSON:
		return printJSON(env.Stdout, d)
	case o.Markdown:
		return textout.PredictDiffMarkdown(env.Stdout, d)
	}
	s := screen.New(env.Stdout, env.Style)
	textout.PredictDiff(s, d)
	return s.Err()
}
