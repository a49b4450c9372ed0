package job

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/document"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/spelling"
)

// maxLine is what a line of a file of jobs may have.
var maxLine = int(document.Job.Most)

// Parse reads one job. A member that looks like a misspelt field is refused; other members that mean nothing
// here (measurements, notes) are listed in Ignored.
func Parse(data []byte) (Job, error) {
	var j Job
	if err := document.Job.Check(len(data)); err != nil {
		return j, err
	}
	data = hfconfig.StandardJSON(data)
	var members map[string]json.RawMessage
	if err := document.Decode(data, &members); err != nil {
		return j, fmt.Errorf("job is not a JSON object: %w", err)
	}
	known := fields()
	for name := range members {
		if slices.Contains(known, name) {
			continue
		}
		if near := spelling.Nearest(name, known); near != "" && len(name) > 3 && members[near] == nil {
			return j, fmt.Errorf("job: unknown field %.40q (did you mean %s?)", name, near)
		}
		j.Ignored = append(j.Ignored, name)
	}
	slices.Sort(j.Ignored)
	if err := document.Decode(data, &j); err != nil {
		return j, fmt.Errorf("job: %w", err)
	}
	return j, j.Check()
}

// Read reads one job from a file.
func Read(r io.Reader) (Job, error) {
	data, err := document.Read(r, document.Job)
	if err != nil {
		return Job{}, err
	}
	return Parse(data)
}

// Line is one line of a file of jobs: the job, or what is wrong with the line.
type Line struct {
	Number int // from 1
	Job    Job
	Err    error // names the line
}

// Lines reads a JSONL file, one job a line, as far as it is asked to. Empty lines are skipped; a bad line costs that line.
func Lines(r io.Reader) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for number := 1; ; number++ {
			text, err := readLine(in)
			l := Line{Number: number}
			switch {
			case err == io.EOF:
				return
			case err != nil:
				yield(Line{Number: number, Err: fmt.Errorf("line %d: %w", number, err)})
				return
			case len(text) > maxLine:
				l.Err = fmt.Errorf("line %d: it has more than %d bytes", number, maxLine)
			case len(text) == 0:
				continue
			default:
				if l.Job, err = Parse(text); err != nil {
					l.Err = fmt.Errorf("line %d: %w", number, err)
				}
			}
			if !yield(l) {
				return
			}
		}
	}
}

// readLine reads to the end of a line and keeps no more than is needed to see that it is too long. io.EOF: there is no further line.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(line) > 0:
			return bytes.TrimSpace(line), nil
		}
		return bytes.TrimSpace(line), err
	}
}

// fields lists the names of a job's members.
func fields() []string {
	t := reflect.TypeFor[Job]()
	var names []string
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	return names
}
