package predict

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/traced"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Followed predicts a script from a trace of all it did: its peak is the highest over every phase the trace saw.
func Followed(t *traced.Trace, title string, m Machine) (*Result, error) {
	m.placed = true
	var conv convolutions
	written := t.Tape(traced.NewLibrary(m.device(), conv.see), false)
	played, err := play(written, m)
	if err != nil {
		return nil, err
	}
	r := report.Prediction{
		Schema: report.PredictSchema, ID: title, Title: title, Card: m.name(), Params: t.Params, AfterLoad: played.afterLoad,
		Peak:  report.PredictedPeak{Allocated: played.peak, Reserved: played.reserved, Device: played.reserved + m.context()},
		Phase: played.phase, Step: played.step, Where: played.where,
		Phases:     allPhases(played),
		ByCategory: played.categories, Top: played.top, Capacity: m.capacity(),
	}
	r.ByCategory["context"] = m.context()
	conv.tries = t.Benchmark()
	r.Safe = safeBound(max(played.reserved, played.upward), conv)
	if conv.any {
		if r.Range, err = followedPlans(&r, t, m, conv); err != nil {
			return nil, err
		}
		if r.Safe, err = withoutWorkspaces(r.Safe, written, m); err != nil {
			return nil, err
		}
	}
	if err := judged(&r, written, m); err != nil {
		return nil, err
	}
	r.Assumptions = []string{"every operator of the script was followed on the CPU on tensors without data; CUDA's kernels may take more for their own use than is known"}
	if m.Assumed {
		r.Assumptions = append(r.Assumptions, "no card was named: workspaces are those of an H200")
	}
	if t.Benchmark() {
		if r.Safe, err = withTrials(r.Safe, t.Tape(traced.NewLibrary(m.device(), nil).Most(), false), m, conv); err != nil {
			return nil, err
		}
		if err := tried(&r, t.Tape(traced.NewLibrary(m.device(), nil).Settled(), false), m); err != nil {
			return nil, err
		}
	}
	r.Assumptions = append(r.Assumptions, followed(t)...)
	r.Assumptions = append(r.Assumptions, t.Notes...)
	if t.Bounded() {
		byData, err := between(t, m, played.peak)
		if err != nil {
			return nil, err
		}
		if byData != nil {
			r.Range = byData
		}
	}
	if t.Steps == 1 && t.Ended != traced.AtEnd && t.Ended != traced.Repeats {
		later(&r, t, played.first())
	}
	if t.Routed > 0 {
		routed(&r, t)
	}
	if t.Compiled {
		compiled(&r)
	}
	if why := unreached(t); why != "" {
		AtLeast(&r, why, t.Ended == traced.Repeats)
	}
	return &Result{Report: r, Tape: written}, nil
}

// followedPlans plays what a script did once more with other plans of cuDNN's: with the most they are known to take for the bound, and with the least and the most that measured neighbours took for a range, where
// the table of workspaces is not sure and that would decide the answer.
func followedPlans(r *report.Prediction, t *traced.Trace, m Machine, conv convolutions) (*report.Range, error) {
	var with [3]*played
	for i, plans := range []eager.Plans{eager.BoundPlans, eager.LeastPlans, eager.MostPlans} {
		var err error
		if with[i], err = play(t.Tape(traced.NewLibrary(m.device(), nil).With(plans), false), m); err != nil {
			return nil, err
		}
	}
	bound, low, high := with[0], min(with[1].peak, r.Peak.Allocated), max(with[2].peak, r.Peak.Allocated)
	r.Safe = max(r.Safe, safeBound(max(bound.reserved, bound.upward), convolutions{})) + workspaceSegments*oneSegment
	if conv.unmeasured {
		return conv.uncounted(r.Peak.Allocated, m), nil
	}
	return byPlans(low, high), nil
}

// AtLeast marks a prediction as one of a part of the run. Whether the run fits is then not known, unless the part does not: or unless its steps repeat, which is
// all that most scripts do.
func AtLeast(r *report.Prediction, why string, repeats bool) {
	r.AtLeast = why
	if r.Verdict.Runs() && !repeats {
		r.Verdict, r.Fits = report.Unknown, false
	}
}

// tried adds to a prediction with the trials of cudnn.benchmark what is needed after them.
func tried(r *report.Prediction, settled *tape.Tape, m Machine) error {
	after, err := play(settled, m)
	if err != nil {
		return err
	}
	r.Trials = &report.Trials{First: r.Peak.Allocated, Needed: min(r.Peak.Allocated, after.peak)}
	r.Safe = max(r.Safe, safeBound(max(after.reserved, after.upward), convolutions{}))
	if r.Trials.Needed < r.Capacity {
		r.Safe = min(r.Safe, r.Capacity) // what finds no room is not tried
	}
	r.Assumptions = append(r.Assumptions, trials(r.Trials))
	return nil
}

// trials says what the trials of cudnn.benchmark take.
func trials(t *report.Trials) string {
	return fmt.Sprintf("cudnn.benchmark is on: the first steps touch about %s while algorithms are tried where there is room, up to what safe says; about %s are needed after that", t.First.Short(), t.Needed.Short())
}

// allPhases are the highest bytes of each phase, evaluation and what lies between steps too.
func allPhases(p *played) map[string]units.Bytes {
	out := p.phases()
	for _, s := range p.steps {
		for _, name := range []string{torch.PhaseEval, torch.PhaseOther} {
			if s[name] > 0 {
				out[name] = max(out[name], s[name])
			}
		}
	}
	return out
}

// between is the range of a peak in which some sizes depend on data: without what depends on it, and with the largest there can be.
func between(t *traced.Trace, m Machine, high units.Bytes) (*report.Range, error) {
	least, err := play(t.Tape(traced.NewLibrary(m.device(), nil), true), m)
	if err != nil {
		return nil, err
	}
	why := "sizes depend on data"
	if len(t.Depends) > 0 {
		lines := t.Depends[:min(len(t.Depends), 3)]
		why = fmt.Sprintf("sizes depend on data at %s: the peak is with everything kept", strings.Join(lines, ", "))
		if more := len(t.Depends) - len(lines); more > 0 {
			why += fmt.Sprintf(" (and %d more lines)", more)
		}
	}
	if high-least.peak < high/certain {
		return nil, nil // what depends on data is not what decides
	}
	return &report.Range{Low: min(least.peak, high), High: high, Why: why}, nil
}

// workspaceSegments are what workspaces of many sizes may leave in segments of their own in a whole run: a pix2pix of two optimizers reserved 794 MiB on an H200 where one segment of room made 764.
const workspaceSegments = 2

// certain is the part of a peak below which a range is none.
const certain = 100

// later adds to a prediction from one step what the next ones run beside: the optimizer's state, and to the bound all that the first step left. Where the time limit came so late in the second step that its peak was
// seen beside that state, the peak has it already.
func later(r *report.Prediction, t *traced.Trace, first units.Bytes) {
	state, all := t.Later()
	if state == 0 || r.Phase == torch.PhaseOptimizer || r.Phase == torch.PhaseOther {
		return
	}
	more := max(first+state-r.Peak.Allocated, 0)
	r.Peak.Allocated += more
	r.Peak.Reserved += more
	r.Peak.Device += more
	r.Safe += all
	r.ByCategory[tape.Optimizer.String()] += more
	if r.Range != nil {
		r.Range.High += more
	}
	context := r.Peak.Device - r.Peak.Reserved
	switch {
	case r.Verdict == report.Fits && r.Peak.Device > r.Capacity:
		r.Verdict, r.Fits = report.DoesNotFit, false
	case r.Verdict == report.Fits && r.Safe+context > r.Capacity:
		r.Verdict = report.Tight
	}
}

// routed widens a range by what uneven routing may add. Whatever the shares, as much is kept for backward; in one piece it needs at most as much again for what is let
// go at once.
func routed(r *report.Prediction, t *traced.Trace) {
	why := fmt.Sprintf("experts are assumed to get equal shares of the tokens (%s); the most is with all of them on one", strings.Join(t.Routes[:min(len(t.Routes), 3)], ", "))
	low, high := r.Peak.Allocated, r.Peak.Allocated
	if r.Range != nil {
		low, high, why = r.Range.Low, r.Range.High, r.Range.Why+"; "+why
	}
	more := min(t.Routed, maxRouted)
	r.Range = &report.Range{Low: low, High: high + more, Why: why}
	r.Safe += more
}

// maxRouted bounds what a file may say.
const maxRouted = 1 << 50

// unreached says why a script was not followed to its end, and how far it was; empty: it was, or its loops did what they had done before.
func unreached(t *traced.Trace) string {
	at := ""
	if t.File != "" {
		at = fmt.Sprintf(" at %s:%d", filepath.Base(t.File), t.Line)
	}
	steps := fmt.Sprintf("%d optimizer steps", t.Steps)
	switch {
	case t.Steps == 0:
		steps = "no optimizer step"
	case t.Steps == 1:
		steps = "1 optimizer step"
	}
	switch t.Ended {
	case traced.AtLimit:
		return fmt.Sprintf("followed for %.0f seconds and %s, until the time limit%s: what comes later is not known (--follow 10m follows further)", t.Seconds, steps, at)
	case traced.TooMany:
		return fmt.Sprintf("followed for %s%s: what comes later is not known", steps, at)
	case traced.Failed:
		return fmt.Sprintf("followed for %s, until the script failed%s: %s", steps, at, t.Why)
	case traced.Repeats:
		if t.Why == traced.RepeatedLoop {
			return fmt.Sprintf("followed for %s, which repeat: what the script does only after more of them is not known (--follow 10m follows further)", steps)
		}
	}
	if t.Cut {
		return fmt.Sprintf("followed for %s; a loop over batches keeps something of each one, and time was over before its end (--follow 10m follows further)", steps)
	}
	return ""
}

// followed says what of a script was left out on the way.
func followed(t *traced.Trace) []string {
	var said []string
	if t.Steps == 1 && unreached(t) != "" {
		said = append(said, "only one step was followed to its end: the optimizer's state, which later ones run beside, is counted")
	}
	if t.Skipped > 0 {
		said = append(said, fmt.Sprintf("of each pass over a DataLoader the first and last batches were followed; the %d between them were not", t.Skipped))
	}
	return said
}

// WithPhases lets a prediction of the training step speak for the whole script: where a trace of the script goes higher, in
// another phase or in a step the capture did not see, that is the peak. Where several optimizers step in an iteration, the captured step is
// one of theirs beside what the others keep, and a trace that saw a few iterations knows better.
func WithPhases(step *Result, optimizers int, t *traced.Trace, m Machine) (*Result, error) {
	whole, err := Followed(t, step.Report.Title, m)
	if err != nil {
		return nil, err
	}
	r, w := &step.Report, &whole.Report
	r.Assumptions = append(r.Assumptions, followed(t)...)
	if w.AtLeast != "" {
		AtLeast(r, w.AtLeast, t.Ended == traced.Repeats)
	}
	own := r.Range // of workspaces, not of data
	if !t.Compiled && (t.Bounded() || t.Routed > 0) {
		r.Range = w.Range
	}
	for _, phase := range []string{torch.PhaseEval, torch.PhaseOther} {
		if w.Phases[phase] > 0 {
			r.Phases[phase] = w.Phases[phase]
		}
	}
	settled := t.Settled(optimizers) && (optimizers > 1 || r.Peak.Allocated-w.Peak.Allocated <= r.Peak.Allocated/differ)
	if !settled && !higher(w, r) && !lower(w, r, t) {
		// What ran before the step left the allocator's cache in another order, and tensors that only names of the script keep alive are in the trace alone.
		r.Safe = max(r.Safe+max(w.Peak.Allocated-r.Peak.Allocated, 0), w.Safe)
		if r.Range != nil && !t.Compiled && r.Range.Low < r.Peak.Allocated {
			r.Range = own // the captured step is the peak
		}
		return step, nil
	}
	w.Safe = max(w.Safe, r.Safe)
	w.ID, w.Trainable, w.Steps, w.Unknown = r.ID, r.Trainable, r.Steps, r.Unknown
	for _, said := range r.Assumptions[:len(r.Assumptions)-len(followed(t))] {
		if w.Trials == nil || r.Trials == nil || said != trials(r.Trials) { // the trace has its own
			w.Assumptions = append(w.Assumptions, said)
		}
	}
	return whole, nil
}

// higher tells whether the trace's peak is above that of the step by more than the two ways of counting differ.
func higher(whole, step *report.Prediction) bool {
	training := max(whole.Phases[eager.PhaseForward], whole.Phases[eager.PhaseBackward], whole.Phases[eager.PhaseOptimizer])
	if whole.Peak.Allocated > training && whole.Peak.Allocated > step.Peak.Allocated {
		return true // in a phase of its own
	}
	return whole.Peak.Allocated > step.Peak.Allocated+step.Peak.Allocated/differ
}

// lower tells whether the captured step counts so much that the script as it was followed, through two steps at least, does not have: more than the two ways of counting differ, and more than
// the copies that a convolution makes of its operands, which only the captured step has. PyTorch's own autograd is right then.
func lower(whole, step *report.Prediction, t *traced.Trace) bool {
	less := step.Peak.Allocated - whole.Peak.Allocated
	return t.Steps >= 2 && less > step.Peak.Allocated/differ && less > t.Convolved() && step.Range == nil
}

// differ is the part of a peak by which a captured step and a trace may differ: tensors that only names of the script keep alive, blocks that were not split (0.7 % in nanoGPT on an H200).
const differ = 50

// Alone marks a prediction of a script that could not be followed past its first step, and gives its bound room for what only a trace sees.
func Alone(r *report.Prediction, why string) {
	r.Safe += r.Peak.Allocated / differ
	AtLeast(r, why, false)
}
