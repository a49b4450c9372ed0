// Package traceout writes timelines in the formats of other tools: pprof profiles, folded stacks for flame
// graphs, and Chrome traces that Perfetto opens.
//
// It takes a timeline and returns bytes on an io.Writer. Profiles show what was alive at the peak by stack; traces show the curve of memory in use
// and held, thinned to what a screen can show, with steps and failures marked. Nothing else is computed here.
package traceout

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Format is a format of another tool.
type Format struct {
	Flag  string                                    // of plimsoll explain
	Help  string                                    // of that flag
	Write func(io.Writer, *timeline.Timeline) error //
	Open  string                                    // how to look at a file, %s standing for its name; empty for formats that are printed
}

// Formats are all there are. A new one is an entry here and the function that writes it.
var Formats = []Format{
	{"pprof", "write what was alive at the peak as a pprof profile to this file", Profile, "go tool pprof -http=: %s"},
	{"perfetto", "write the timeline as a Chrome/Perfetto trace to this file", Trace, "open it at ui.perfetto.dev or chrome://tracing"},
	{"speedscope", "write what was alive at the peak for speedscope to this file", Speedscope, "drop it on speedscope.app"},
	{"folded", "print what was alive at the peak as folded stacks for a flame graph", Folded, ""},
	{"pprof-holders", "write who holds what is alive at the end as a pprof profile to this file", HolderProfile, "go tool pprof -http=: %s"},
	{"folded-holders", "print who holds what is alive at the end as folded lines for a flame graph", HolderFolded, ""},
}

// Profile writes what was alive at the peak as a gzipped pprof profile with bytes and counts by stack.
func Profile(w io.Writer, t *timeline.Timeline) error {
	p := &profile.Profile{
		SampleType:        []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		DefaultSampleType: "inuse_space",
	}
	b := profiler{p: p, stacks: &t.Snapshot.Stacks, locations: map[snapshot.FrameID]*profile.Location{}, functions: map[[2]string]*profile.Function{}}
	for _, g := range t.ByStack(t.Peak.Event) {
		s := &profile.Sample{
			Value: []int64{int64(g.Count), int64(g.Bytes)},
			Label: map[string][]string{"category": {g.Category.String()}},
		}
		for _, id := range t.Snapshot.Stacks.Stack(g.Stack) {
			s.Location = append(s.Location, b.location(id))
		}
		if len(s.Location) == 0 {
			s.Location = []*profile.Location{b.unknown()}
		}
		p.Sample = append(p.Sample, s)
	}
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("build pprof profile: %w", err)
	}
	return p.Write(w)
}

type profiler struct {
	p         *profile.Profile
	stacks    *snapshot.Stacks
	locations map[snapshot.FrameID]*profile.Location
	functions map[[2]string]*profile.Function
	none      *profile.Location
}

func (b *profiler) location(id snapshot.FrameID) *profile.Location {
	if l := b.locations[id]; l != nil {
		return l
	}
	l := b.add(b.stacks.Frames[id])
	b.locations[id] = l
	return l
}

func (b *profiler) unknown() *profile.Location {
	if b.none == nil {
		b.none = b.add(snapshot.Frame{Function: "(no Python frames: autograd engine or unrecorded)"})
	}
	return b.none
}

func (b *profiler) add(f snapshot.Frame) *profile.Location {
	key := [2]string{f.Function, f.File}
	fn := b.functions[key]
	if fn == nil {
		fn = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: f.Function, SystemName: f.Function, Filename: f.File}
		b.functions[key] = fn
		b.p.Function = append(b.p.Function, fn)
	}
	l := &profile.Location{ID: uint64(len(b.p.Location) + 1), Line: []profile.Line{{Function: fn, Line: int64(f.Line)}}}
	b.p.Location = append(b.p.Location, l)
	return l
}

// Folded writes what was alive at the peak as lines of "outermost;…;innermost bytes".
func Folded(w io.Writer, t *timeline.Timeline) error {
	out := bufio.NewWriter(w)
	for _, g := range t.ByStack(t.Peak.Event) {
		ids := t.Snapshot.Stacks.Stack(g.Stack)
		parts := make([]string, 0, len(ids)+1)
		parts = append(parts, g.Category.String())
		for i := len(ids) - 1; i >= 0; i-- {
			f := t.Snapshot.Stacks.Frames[ids[i]]
			parts = append(parts, foldedName(fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line)))
		}
		fmt.Fprintf(out, "%s %d\n", strings.Join(parts, ";"), g.Bytes)
	}
	return out.Flush()
}

// foldedName keeps the characters that separate frames and lines out of a name.
func foldedName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == ';' || r == '\n' || r == '\r' {
			return '_'
		}
		return r
	}, name)
}

// traceEvent is an event of the Chrome trace format, which Perfetto reads.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Time  float64        `json:"ts"` // microseconds
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// Trace writes the curve of memory as counters of a Chrome trace. A counter is written when it has moved by a
// two-thousandth of the peak, at the peak itself and at failures, so that a million events stay openable.
func Trace(w io.Writer, t *timeline.Timeline) error {
	out := bufio.NewWriter(w)
	out.WriteString(`{"displayTimeUnit":"ms","traceEvents":[`)
	tr := &tracer{out: out, t: t, step: max(1, t.Peak.Requested/2000)}
	tr.meta()
	tr.curve()
	if tr.err != nil {
		return fmt.Errorf("write trace: %w", tr.err)
	}
	out.WriteString("]}\n")
	return out.Flush()
}

type tracer struct {
	out   *bufio.Writer
	t     *timeline.Timeline
	step  units.Bytes
	shown units.Bytes
	any   bool
	err   error
}

func (tr *tracer) write(e traceEvent) {
	b, err := json.Marshal(e)
	if err != nil && tr.err == nil {
		tr.err = err
	}
	if tr.any {
		tr.out.WriteByte(',')
	}
	tr.any = true
	tr.out.WriteByte('\n')
	tr.out.Write(b)
}

func (tr *tracer) meta() {
	tr.write(traceEvent{Name: "process_name", Phase: "M", PID: tr.t.Device, Args: map[string]any{"name": fmt.Sprintf("GPU %d", tr.t.Device)}})
}

func (tr *tracer) curve() {
	now := tr.t.Tape.Before()
	steps := 0
	for i := range tr.t.Tape.Events {
		e := &tr.t.Tape.Events[i]
		now += e.Change()
		if e.Kind == tape.OOM {
			tr.counter(i, now)
			tr.write(traceEvent{Name: "out of memory: " + e.Size.String(), Phase: "i", Time: tr.time(i), PID: tr.t.Device, Scope: "p"})
		}
		if d := now - tr.shown; d >= tr.step || -d >= tr.step || i == tr.t.Peak.Event {
			tr.counter(i, now)
		}
		for steps < len(tr.t.Steps) && tr.t.Steps[steps] == i {
			steps++
			tr.write(traceEvent{Name: fmt.Sprintf("end of step %d", steps), Phase: "i", Time: tr.time(i), PID: tr.t.Device, Scope: "p"})
		}
	}
	tr.reserved()
}

func (tr *tracer) counter(event int, now units.Bytes) {
	tr.shown = now
	tr.write(traceEvent{Name: "memory in use (bytes)", Phase: "C", Time: tr.time(event), PID: tr.t.Device, Args: map[string]any{"requested": now}})
}

func (tr *tracer) reserved() {
	held := tr.t.Reserved
	for i, a := range tr.t.Trace.Action {
		switch a {
		case snapshot.ActionSegmentAlloc, snapshot.ActionSegmentMap:
			held += units.Bytes(tr.t.Trace.Size[i])
		case snapshot.ActionSegmentFree, snapshot.ActionSegmentUnmap:
			held -= units.Bytes(tr.t.Trace.Size[i])
		default:
			continue
		}
		tr.write(traceEvent{Name: "reserved by PyTorch (bytes)", Phase: "C", Time: tr.traceTime(i), PID: tr.t.Device, Args: map[string]any{"reserved": held}})
	}
}

func (tr *tracer) time(event int) float64 { return tr.traceTime(int(tr.t.Event[event])) }

// traceTime is the time of a recorded event in microseconds since the first, or its number where times were not recorded.
func (tr *tracer) traceTime(i int) float64 {
	if tr.t.Trace.TimeUS == nil {
		return float64(i)
	}
	return float64(tr.t.Trace.TimeUS[i] - tr.t.Trace.TimeUS[0])
}
