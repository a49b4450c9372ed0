package repair_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/code/repair"
	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// changesTraining are the rules whose repair is meant to change what is learned.
var changesTraining = map[string]bool{"LM004": true, "LM010": true, "LM011": true, "LM017": true, "LM022": true}

// outcome is what a program came to.
type outcome struct {
	Values map[string]any
	Error  string
}

// Programs are run before and after each repair, in one process with PyTorch on the CPU: none fails that did not fail before, and all but those
// whose training was wrong compute what they computed.
func TestRepairedProgramsComputeTheSame(t *testing.T) {
	t.Parallel()
	python := probetest.Python(t)
	var names []string
	var sources [][2]string
	for _, program := range programs(t) {
		title, code, _ := strings.Cut(program, "\n")
		id, _, _ := strings.Cut(title, " ")
		src := []byte(strings.TrimRight(code, "\n") + "\n")
		if bytes.Contains(src, []byte("while step")) { // it never ends
			continue
		}
		for _, f := range checked(src).Findings {
			if f.Rule == id && f.Repair != nil {
				names = append(names, title)
				sources = append(sources, [2]string{title, string(src)}, [2]string{title, string(pysource.Apply(src, f.Repair.Edits))})
			}
		}
	}
	input, err := json.Marshal(sources)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(python, filepath.Join("testdata", "run.py"))
	command.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var outcomes []outcome
	if err := json.Unmarshal(output, &outcomes); err != nil || len(outcomes) != len(sources) {
		t.Fatalf("%v: %s", err, output)
	}
	ran := map[string]int{}
	for i, name := range names {
		id, _, _ := strings.Cut(name, " ")
		before, after := outcomes[2*i], outcomes[2*i+1]
		switch {
		case after.Error != "" && before.Error == "":
			t.Errorf("%s: fails once it is repaired: %s\n%s", name, after.Error, sources[2*i+1][1])
		case after.Error != "":
			t.Logf("%s needs more than this: %s", name, after.Error)
		case before.Error == "" && !changesTraining[id] && !same(before.Values, after.Values):
			t.Errorf("%s: computes something else once it is repaired:\n%v\n%v\n%s", name, before.Values, after.Values, sources[2*i+1][1])
		default:
			ran[id]++
		}
	}
	for _, id := range repair.Rules() {
		if ran[id] == 0 {
			t.Errorf("%s: none of its repaired programs ran", id)
		}
	}
}

// same compares what both programs left behind: a repair may remove a name, and lists keep numbers where they kept tensors of one number.
func same(before, after map[string]any) bool {
	for name, v := range after {
		if w, ok := before[name]; ok && !reflect.DeepEqual(flat(v, nil), flat(w, nil)) {
			return false
		}
	}
	return true
}

// flat lists the numbers and texts of a value.
func flat(v any, out []any) []any {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			out = flat(item, out)
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			out = flat(v[key], out)
		}
	case float64:
		out = append(out, float32(v))
	default:
		out = append(out, v)
	}
	return out
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
