package job

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/spelling"
)

const maxLine = 8 << 20

// Parse reads one job. A member that looks like a misspelt field is refused; other members that mean nothing
// here (measurements, notes) are listed in Ignored.
func Parse(data []byte) (Job, error) {
	var j Job
	if len(data) > maxLine {
		return j, fmt.Errorf("job has more than %d bytes", maxLine)
	}
	data = hfconfig.StandardJSON(data)
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
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
	if err := json.Unmarshal(data, &j); err != nil {
		return j, fmt.Errorf("job: %w", err)
	}
	return j, j.Check()
}

// Read reads one job from a file.
func Read(r io.Reader) (Job, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxLine+1))
	if err != nil {
		return Job{}, fmt.Errorf("read job: %w", err)
	}
	return Parse(data)
}

// ReadLines reads a JSONL file, one job a line, and calls each in order with the job or with what is wrong with its line. Empty lines are
// skipped.
func ReadLines(r io.Reader, each func(Job, error)) error {
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, 1<<16), maxLine)
	for line := 1; scan.Scan(); line++ {
		text := bytes.TrimSpace(scan.Bytes())
		if len(text) == 0 {
			continue
		}
		j, err := Parse(text)
		if err != nil {
			err = fmt.Errorf("line %d: %w", line, err)
		}
		each(j, err)
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("read jobs: %w", err)
	}
	return nil
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
