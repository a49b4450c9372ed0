package fuzz

import (
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
)

// fuzzer is what a target asks of Go's fuzzer, so that one process can also carry it out many times in a row.
type fuzzer interface {
	Add(args ...any)
	Fuzz(target any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// targets are the answers by name.
var targets = map[string]func(fuzzer){
	"diff": comparing, "explain": explaining, "explain-log": explainingLogs, "graph": predictingGraphs, "holders": matchingHolders, "jobs": readingJobs, "lint": linting,
	"messages": readingMessages, "notes": readingNotes, "predict": predicting, "replay": replaying, "snapshot": readingSnapshots, "view": viewing,
}

func FuzzDiff(f *testing.F)       { comparing(f) }
func FuzzExplain(f *testing.F)    { explaining(f) }
func FuzzExplainLog(f *testing.F) { explainingLogs(f) }
func FuzzGraph(f *testing.F)      { predictingGraphs(f) }
func FuzzHolders(f *testing.F)    { matchingHolders(f) }
func FuzzJobs(f *testing.F)       { readingJobs(f) }
func FuzzLint(f *testing.F)       { linting(f) }
func FuzzMessages(f *testing.F)   { readingMessages(f) }
func FuzzNotes(f *testing.F)      { readingNotes(f) }
func FuzzPredict(f *testing.F)    { predicting(f) }
func FuzzReplay(f *testing.F)     { replaying(f) }
func FuzzSnapshot(f *testing.F)   { readingSnapshots(f) }
func FuzzView(f *testing.F)       { viewing(f) }

// TestAnswersOverMutations gives every answer documents that nearly make sense, in this process. PLIMSOLL_ANSWERS sets how many each gets,
// PLIMSOLL_MUTATION_SEED where they begin.
func TestAnswersOverMutations(t *testing.T) {
	n, seed := number(t, "PLIMSOLL_ANSWERS", 40), number(t, "PLIMSOLL_MUTATION_SEED", 1)
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &drawing{T: t, Rand: rand.New(rand.NewPCG(uint64(seed), 1))}
			targets[name](d)
			d.run(n)
		})
	}
}

// drawing is a fuzzer that draws its choices from a seed.
type drawing struct {
	*testing.T
	*rand.Rand
	target any
}

func (d *drawing) Add(...any)      {}
func (d *drawing) Fuzz(target any) { d.target = target }

func (d *drawing) run(n int) {
	var choices, more []byte
	done := 0
	defer func() {
		if problem := recover(); problem != nil {
			d.Errorf("panic: %v\n%s", problem, debug.Stack())
		}
		if d.Failed() {
			d.Logf("choices %q, %q", choices, more)
		}
		d.Logf("%d executions", done)
	}()
	for ; done < n; done++ {
		choices, more = d.bytes(28), d.bytes(12)
		switch target := d.target.(type) {
		case func(*testing.T, []byte):
			target(d.T, choices)
		case func(*testing.T, []byte, []byte):
			target(d.T, choices, more)
		case func(*testing.T, []byte, uint8):
			target(d.T, choices, uint8(d.Uint32()))
		default:
			d.Fatalf("a target of another kind: %T", d.target)
		}
	}
}

// bytes draws fewer than n bytes.
func (d *drawing) bytes(n int) []byte {
	b := make([]byte, d.IntN(n))
	for i := range b {
		b[i] = byte(d.Uint32())
	}
	return b
}
