package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/document"
	"github.com/plimsoll/plimsoll/internal/show/page"
	"github.com/plimsoll/plimsoll/internal/show/textout"
)

// answerSchema finds the answers of predict and fit by their first field.
var answerSchema = regexp.MustCompile(`^\s*\{\s*"schema"\s*:\s*"(plimsoll\.(?:predict|fit)/1)"`)

// What is looked at and read of an answer. Its schema stands at its beginning; a prediction with as many instants as predict gives is
// smaller than this.
const (
	answerStart = 256
)

// shownMoments is how many instants the curve of a job predicted for the page has: about as many as a screen has columns.
const shownMoments = 1200

// readAnswer predicts the job asked for, or reads an answer of predict or fit; nil: the arguments are something else. What was looked at of
// standard input is put back.
func readAnswer(env *Env, o viewOptions, args []string) (*page.Summary, error) {
	if o.job != "" {
		return predictForPage(*env, o)
	}
	if len(args) != 1 {
		return nil, nil
	}
	var r *bufio.Reader
	if args[0] == "-" {
		r = bufio.NewReader(env.Stdin)
		env.Stdin = r
	} else {
		info, err := os.Stat(args[0])
		if err != nil || !info.Mode().IsRegular() {
			return nil, nil // told by the reader of evidence
		}
		f, err := os.Open(args[0])
		if err != nil {
			return nil, unreadable(err)
		}
		defer f.Close()
		r = bufio.NewReader(f)
	}
	start, _ := r.Peek(answerStart)
	schema := answerSchema.FindSubmatch(start)
	if schema == nil {
		return nil, nil
	}
	s, err := decodeAnswer(r, string(schema[1]))
	if err != nil {
		return nil, unreadable(fmt.Errorf("%s: %w", args[0], err))
	}
	return s, nil
}

func decodeAnswer(r io.Reader, schema string) (*page.Summary, error) {
	text, err := document.Read(r, document.Answer)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var s page.Summary
	if schema == report.FitSchema {
		s = page.Summary{Kind: page.Planned, Fit: &report.Fit{}}
		err = d.Decode(s.Fit)
		s.Headline = textout.FitHeadline(s.Fit)
	} else {
		s = page.Summary{Kind: page.Predicted, Prediction: &report.Prediction{}}
		err = d.Decode(s.Prediction)
		s.Headline = textout.PredictHeadline(s.Prediction)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a whole answer of %s: %w", schema, document.Where(err, 0))
	case s.Prediction != nil && s.Prediction.Error != "":
		return nil, fmt.Errorf("this job could not be predicted: %s", s.Prediction.Error)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one answer in it; a page shows one: put it into a file of its own")
	}
	return &s, nil
}

// predictForPage predicts a job with what a page shows of it.
func predictForPage(env Env, o viewOptions) (*page.Summary, error) {
	m, err := o.machine()
	if err != nil {
		return nil, err
	}
	j, err := readJobFile(env, o.job)
	if err != nil {
		return nil, err
	}
	src, err := newModelFiles(env, "").source(&j)
	if err != nil {
		return nil, err
	}
	res, err := predict.Run(j.Job, src, m)
	if err != nil {
		return nil, cannotPredict(&j, err)
	}
	r := &res.Report
	r.Largest = predict.Largest(j.Job, src, m, res)
	r.Timeline = predict.Moments(res.Tape, shownMoments)
	r.Batches = predict.Batches(j.Job, src, m, r.Largest)
	return &page.Summary{Kind: page.Predicted, Headline: textout.PredictHeadline(r), Prediction: r}, nil
}
