package timeline

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/units"
)

// held matches a recording with holders and the frames of its last allocation as those that ran.
func held(t *testing.T, name string, hs ...holders.Holder) *Timeline {
	t.Helper()
	s := recordtest.Snapshot(t, name)
	line := New(recording.New(s, 0), callsite.NewTable(&s.Stacks))
	f := &holders.File{Schema: holders.Schema, Phase: "forward", Holders: hs}
	for i := len(line.Tape.Events) - 1; i >= 0 && len(f.Running) == 0; i-- {
		e := &line.Tape.Events[i]
		if e.Kind == tape.Alloc && line.Stack[e.ID] != 0 {
			for _, id := range line.Origins.Stacks.Stack(line.Stack[e.ID]) {
				frame := line.Origins.Stacks.Frames[id]
				f.Running = append(f.Running, holders.Place{File: frame.File, Line: frame.Line, Function: frame.Function})
			}
		}
	}
	line.Adopt(f)
	return line
}

func TestEveryByteHasOneHolder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"leak-oom", "oom-batch", "exception-holds", "cudagraph", "mlp-adam"} {
		line := held(t, name)
		var sum units.Bytes
		seen := map[int]bool{}
		for _, h := range line.ByHolder() {
			for _, id := range h.IDs {
				if seen[id] {
					t.Fatalf("%s: allocation %d is held twice", name, id)
				}
				seen[id] = true
				sum += line.Size(id)
			}
		}
		if sum != line.Holders.Alive {
			t.Errorf("%s: %d bytes have a holder, %d are alive", name, sum, line.Holders.Alive)
		}
	}
}

func TestALineThatRunsAgainIsNotTheOneThatKeeps(t *testing.T) {
	t.Parallel()
	line := held(t, "leak-oom") // one line leaves tensors behind in every turn of its loop, and runs when memory ends
	for _, h := range line.ByHolder() {
		if h.Holder.Role == holders.Temporary && 10*h.Bytes > line.Holders.Alive {
			t.Errorf("%s: %s", h.Holder.Title(), h.Bytes)
		}
	}
}

func TestWhatARoleTellsReplacesWhatWasConcluded(t *testing.T) {
	t.Parallel()
	plain := held(t, "leak-oom")
	id := len(plain.Died) - 1
	for plain.Died[id] != recording.NeverFreed || plain.Category[id] == tape.Optimizer {
		id--
	}
	line := held(t, "leak-oom", holders.Holder{Role: holders.Optimizer, Kind: "exp_avg", Name: holders.Name{Name: "model"}, Count: 1, Names: []string{"fc.weight"},
		Addresses: []int64{int64(plain.Addr[id])}, Sizes: []int64{int64(plain.Size(id))}})
	if line.Category[id] != tape.Optimizer || line.Holders.Names[id] != "fc.weight" {
		t.Errorf("category %s, name %q", line.Category[id], line.Holders.Names[id])
	}
}
