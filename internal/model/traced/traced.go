// Package traced reads what following a script left behind: every storage it would have had on its GPU, in order.
//
// It takes the two files of a trace (trace.json, and the events as gzipped little-endian numbers) as the probe writes them and returns a tape, with what
// cuBLAS and cuDNN take for their own use added by the rules of package eager for a given card. Refused: files that are no
// trace, events that contradict each other, sizes no machine has.
package traced

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/plimsoll/plimsoll/internal/document"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Schema names the form of trace.json.
const Schema = "plimsoll.trace/1"

// How a trace ended.
const (
	AtEnd   = "end"     // with the script
	Repeats = "repeats" // its loops did what they had done before
	AtLimit = "time"    // the time was over
	TooMany = "events"  // the events were too many
	Failed  = "failed"  // the script failed, or what it does cannot be followed
)

// RepeatedLoop is why a trace ended that saw steps repeat and no end of their loop: what comes every so many steps may be behind it.
const RepeatedLoop = "loop"

// Trace is one followed run.
type Trace struct {
	Schema  string  `json:"schema"`
	Torch   string  `json:"torch"`
	Ended   string  `json:"ended"`
	Why     string  `json:"why"`  // of a script that failed; RepeatedLoop
	File    string  `json:"file"` // where the script was
	Line    int     `json:"line"`
	Steps   int     `json:"steps"` // of optimizers
	Seconds float64 `json:"seconds"`
	Skipped int     `json:"skipped_batches"`

	Owners  []Owner     `json:"owners"`
	Moments []Moment    `json:"moments"`
	Works   []Work      `json:"works"`
	Depends []string    `json:"depends_on_data"` // lines of the script whose results' sizes depend on data
	Routed  units.Bytes `json:"routed"`          // the most that shares of experts held at once, were the shares equal
	Routes  []string    `json:"routed_at"`       // lines of the script that choose them
	Notes   []string    `json:"notes"`
	// Compiled says that something ran under torch.compile, of which the operators were followed as they are.
	Compiled bool `json:"compiled"`
	// Cut says that a loop which keeps something of every batch was not followed to its end.
	Cut    bool  `json:"cut"`
	Params int64 `json:"params"`

	events []event
}

// Owner says what a storage is for.
type Owner struct {
	Category string `json:"category"`
	Module   string `json:"module"`
	Op       string `json:"op"`
	Depends  bool   `json:"depends"` // its size depends on data: it is the largest there can be
}

// Moment is the beginning of a phase; steps count from 1.
type Moment struct {
	Step  int    `json:"step"`
	Phase string `json:"phase"`
}

// event is an entry of the history: what it does, and three numbers whose meaning depends on that.
type event struct {
	kind    int64
	a, b, c int64
}

const (
	began  = iota // number, bytes, owner
	ended         // number
	marked        // moment
	worked        // work
)

// reserveOp is the owner's operator of a storage whose size the work before it tells.
const reserveOp = "cudnn reserve"

// Bounds of a believable trace.
const (
	maxEvents = 8 << 20
	maxBytes  = 1 << 50
	maxSteps  = 1 << 20
)

// Read reads a trace from its two files.
func Read(header, events io.Reader) (*Trace, error) {
	var t Trace
	text, err := document.Read(header, document.Trace)
	if err != nil {
		return nil, err
	}
	if err := document.Decode(text, &t); err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	if t.Schema != Schema {
		return nil, fmt.Errorf("read the trace: its schema is %.40q, not %q", t.Schema, Schema)
	}
	plain, err := gzip.NewReader(events)
	if err != nil {
		return nil, fmt.Errorf("read the trace's events: %w", err)
	}
	in := bufio.NewReaderSize(plain, 1<<16)
	for {
		var raw [32]byte
		switch _, err := io.ReadFull(in, raw[:]); {
		case errors.Is(err, io.EOF):
			return &t, t.check()
		case err != nil:
			return nil, fmt.Errorf("read the trace's events: %w", err)
		case len(t.events) == maxEvents:
			return nil, fmt.Errorf("read the trace's events: more than %d", maxEvents)
		}
		number := func(i int) int64 { return int64(binary.LittleEndian.Uint64(raw[8*i:])) }
		t.events = append(t.events, event{number(0), number(1), number(2), number(3)})
	}
}

// check refuses events that contradict each other or name what there is not.
func (t *Trace) check() error {
	var begun int64
	alive := map[int64]bool{}
	for i, e := range t.events {
		ok := false
		switch e.kind {
		case began:
			ok = e.a == begun && e.b > 0 && e.b < maxBytes && e.c >= 0 && e.c < int64(len(t.Owners))
			alive[e.a] = true
			begun++
		case ended:
			ok = alive[e.a]
			delete(alive, e.a)
		case marked:
			ok = e.a >= 0 && e.a < int64(len(t.Moments)) && t.Moments[e.a].Step >= 0 && t.Moments[e.a].Step <= maxSteps
		case worked:
			ok = e.a >= 0 && e.a < int64(len(t.Works))
		}
		if !ok {
			return fmt.Errorf("read the trace's events: number %d makes no sense (%d %d %d %d)", i, e.kind, e.a, e.b, e.c)
		}
	}
	return nil
}

// Followed tells whether the trace saw enough to speak of: something on a GPU, and the script's end or a whole training step.
func (t *Trace) Followed() bool {
	return len(t.events) > 0 && (t.Steps > 0 || t.Ended == AtEnd)
}

// Settled tells whether the trace saw the script's steps become what they stay: three of every optimizer, and then its end or nothing new. PyTorch's own autograd ran in it, with all that the script's
// names keep alive and with what came before a step in the allocator's cache; a captured step has neither.
func (t *Trace) Settled(optimizers int) bool {
	return t.Steps >= 3*max(optimizers, 1) && (t.Ended == AtEnd || t.Ended == Repeats || optimizers > 1)
}

// Held tells whether anything was on a GPU.
func (t *Trace) Held() bool { return len(t.events) > 0 }

// Later is what lies on the card when a second step begins beyond what did when the first began: the optimizer's state alone, and all of it.
func (t *Trace) Later() (state, all units.Bytes) {
	type held struct {
		size  units.Bytes
		owner int64
	}
	live, level, before := map[int64]held{}, units.Bytes(0), units.Bytes(-1)
	for _, e := range t.events {
		switch e.kind {
		case began:
			live[e.a] = held{units.Bytes(e.b), e.c}
			level += units.Bytes(e.b)
		case ended:
			level -= live[e.a].size
			delete(live, e.a)
		case marked:
			m := t.Moments[e.a]
			if before < 0 && m.Phase == torch.PhaseForward {
				before = level
			}
			if m.Step < 2 || before < 0 {
				continue
			}
			for _, h := range live {
				if t.Owners[h.owner].Category == "optimizer" {
					state += h.size
				}
			}
			return state, max(level-before, state)
		}
	}
	return 0, 0
}

// Benchmark tells whether convolutions were tried out (torch.backends.cudnn.benchmark).
func (t *Trace) Benchmark() bool {
	return slices.ContainsFunc(t.Works, func(w Work) bool { return w.Benchmark })
}

// Convolved is what the operands of the largest convolution have together.
func (t *Trace) Convolved() units.Bytes {
	var most units.Bytes
	for i := range t.Works {
		w := &t.Works[i]
		if !w.elastic() {
			continue
		}
		dtype, ok := types[w.DType]
		if !ok {
			dtype = tensor.Float32
		}
		var all units.Bytes
		for _, sizes := range [][]int{w.X, w.W, w.Y} {
			count := units.Bytes(1)
			for _, n := range sizes {
				count = min(count*units.Bytes(max(n, 1)), maxBytes)
			}
			all += count * dtype.Width()
		}
		most = max(most, all)
	}
	return most
}

// Bounded tells whether some size is only bounded: it depends on data.
func (t *Trace) Bounded() bool {
	for _, o := range t.Owners {
		if o.Depends {
			return true
		}
	}
	return false
}

var categories = map[string]tape.Category{
	"parameters": tape.Parameters, "gradients": tape.Gradients, "optimizer": tape.Optimizer, "activations": tape.Activations,
	"inputs": tape.Inputs, "workspace": tape.Workspace,
}

// Tape is the history with every size as it was bounded; with least, without what depends on data at all.
func (t *Trace) Tape(l Library, least bool) *tape.Tape {
	w := writer{trace: t, library: l, ids: map[int64]uint32{}, sizes: map[int64]units.Bytes{}}
	w.out = &tape.Tape{Streams: []uint64{0}, Pools: make([][2]uint64, 1), Owners: make([]tape.Owner, 1, len(t.Owners)+2)}
	for _, m := range t.Moments {
		w.out.Moments = append(w.out.Moments, tape.Moment{Step: m.Step, Phase: m.Phase})
	}
	for _, o := range t.Owners {
		w.out.Owners = append(w.out.Owners, tape.Owner{Category: categories[o.Category], Module: o.Module, Op: o.Op})
	}
	w.out.Owners = append(w.out.Owners, tape.Owner{Category: tape.Workspace, Op: "cuBLAS and cuDNN"})
	for _, e := range t.events {
		w.write(e, least)
	}
	return w.out
}

// writer makes a tape of events.
type writer struct {
	trace   *Trace
	library Library
	out     *tape.Tape
	ids     map[int64]uint32
	sizes   map[int64]units.Bytes
}

func (w *writer) write(e event, least bool) {
	switch e.kind {
	case began:
		if least && w.trace.Owners[e.c].Depends {
			return
		}
		size := units.Bytes(e.b)
		if w.trace.Owners[e.c].Op == reserveOp && w.library.reserve > 0 {
			size, w.library.reserve = w.library.reserve, 0
		}
		w.ids[e.a], w.sizes[e.a] = w.alloc(size, uint32(e.c)+1), size
	case ended:
		if id, ok := w.ids[e.a]; ok {
			w.free(id, w.sizes[e.a])
			delete(w.ids, e.a)
			delete(w.sizes, e.a)
		}
	case marked:
		w.out.Events = append(w.out.Events, tape.Event{Kind: tape.Mark, Owner: uint32(e.a)})
		w.library.backward = w.trace.Moments[e.a].Phase == torch.PhaseBackward
	case worked:
		work, plans := &w.trace.Works[e.a], w.library.plans
		if e.b != 0 { // its sizes depend on data and are the largest there can be: the most that plans take comes on top of what is seldom reached
			w.library.plans = eager.LikelyPlans
		}
		kept, scratch := w.library.take(work)
		w.library.plans = plans
		library := uint32(len(w.out.Owners) - 1)
		for _, size := range kept {
			w.alloc(size, library)
		}
		if least && e.b != 0 { // its sizes depend on data
			return
		}
		for _, size := range scratch {
			id := w.alloc(size, library)
			w.out.Events[len(w.out.Events)-1].Elastic = work.elastic()
			w.free(id, size)
		}
	}
}

func (w *writer) alloc(size units.Bytes, owner uint32) uint32 {
	id := uint32(w.out.Allocs)
	w.out.Allocs++
	w.out.Events = append(w.out.Events, tape.Event{Kind: tape.Alloc, ID: id, Size: size, Owner: owner})
	return id
}

func (w *writer) free(id uint32, size units.Bytes) {
	w.out.Events = append(w.out.Events, tape.Event{Kind: tape.Free, ID: id, Size: size})
}
