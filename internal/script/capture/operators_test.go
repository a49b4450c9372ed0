package capture

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/traced"
	"github.com/plimsoll/plimsoll/internal/units"
)

// firstMark is how large testdata/operators.py makes its first mark; each pass has one a byte larger than the one before.
const firstMark = 7_000_001

// apart are passes that are known to differ, and why.
var apart = map[string]string{
	"index_rows backward": "zeros that rows are added to are counted twice",
}

// pass is by how much the bytes in use rise at most, and how many more there are at its end.
type pass [2]units.Bytes

// What kernels take for their own use, what autograd keeps and where it writes in place: operator by operator, as an H200 allocated it (PyTorch 2.11, the second time each one ran).
func TestOperatorsAllocateWhatACardDoes(t *testing.T) {
	t.Parallel()
	trace, _ := followed(t, "operators.py")
	data, err := os.ReadFile(filepath.Join("testdata", "operators.json"))
	if err != nil {
		t.Fatal(err)
	}
	var measured []struct {
		Name              string
		Forward, Backward pass
	}
	if err := json.Unmarshal(data, &measured); err != nil {
		t.Fatal(err)
	}
	passes := between(trace.Tape(traced.NewLibrary(eager.H200(), nil), false))
	for i, m := range measured {
		for offset, want := range map[int]pass{4: m.Forward, 6: m.Backward} {
			which := map[int]string{4: "forward", 6: "backward"}[offset]
			if apart[m.Name+" "+which] != "" {
				continue
			}
			got, ok := passes[8*i+offset]
			if !ok {
				t.Errorf("%s: not in the trace", m.Name)
				continue
			}
			for j, what := range []string{"highest", "end"} {
				if off := got[j] - want[j]; max(off, -off) > max(64*units.KiB, want[0]/50) {
					t.Errorf("%s, %s, %s: %d, measured %d", m.Name, which, what, got[j], want[j])
				}
			}
		}
	}
}

// between cuts a tape at its marks.
func between(tp *tape.Tape) map[int]pass {
	out := map[int]pass{}
	now, level, marks := -1, units.Bytes(0), map[uint32]bool{}
	for i := range tp.Events {
		e := &tp.Events[i]
		if e.Kind == tape.Alloc && e.Size >= firstMark && e.Size < firstMark+4096 {
			now, level, marks[e.ID] = int(e.Size-firstMark), 0, true
			out[now] = pass{}
			continue
		}
		if now < 0 || marks[e.ID] || e.Kind == tape.Mark {
			continue
		}
		level += e.Change()
		out[now] = pass{max(out[now][0], level), level}
	}
	return out
}
