package observe

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/blame"
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
)

func TestACauseIsTiedToTheLineThatMadeIt(t *testing.T) {
	t.Parallel()
	script := filepath.Join("..", "probe", "testdata", "gpu", "leak_list.py")
	died := func(line int) []probenotes.Process {
		return []probenotes.Process{{OOMs: []probenotes.OOM{{Stack: []probenotes.Frame{{File: script, Line: line, Function: "<module>"}}}}}}
	}
	found := blame.OnStack(stackOf(died(11)), readScript) // the model's call, inside the loop that keeps the losses
	if !slices.ContainsFunc(found, func(f lint.Finding) bool { return f.Rule == "LM001" && f.Line == 15 }) {
		t.Errorf("found %+v", found)
	}
	if found := blame.OnStack([]lint.Frame{{File: "no/such/file.py", Line: 3}}, readScript); len(found) != 0 {
		t.Errorf("found %+v in a file that is not there", found)
	}
}
