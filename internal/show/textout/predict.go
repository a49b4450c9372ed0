package textout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Predict prints the answer of plimsoll predict for one job.
func Predict(s *screen.Screen, r *report.Prediction) {
	if r.Run != nil {
		predictRun(s, r)
		return
	}
	card := fmt.Sprintf("%s (%s)", r.Card, r.Capacity.Short())
	if r.NoCard {
		card = "no card named"
	}
	s.Paragraph(0, screen.Clean(fmt.Sprintf("%s · %s parameters · %s", r.Title, shortCount(r.Params), card)))
	s.Blank()
	verdict, ink := predictVerdict(r)
	for _, line := range screen.Wrap(verdict, s.Width()) {
		s.Line(s.Ink(ink, line))
	}
	if r.AtLeast != "" {
		s.Hanging("  at least: ", screen.Plain, screen.Clean(r.AtLeast))
	}
	if r.Sharded != nil {
		s.Line("  ", s.Ink(screen.Faint, "for comparison, the whole job on a single card:"))
	}
	s.Blank()
	s.Paragraph(2, screen.Clean(peakSentence(r)))
	predictedCategories(s, r)
	s.Blank()
	s.Hanging("  ", screen.Plain, phasesLine(r))
	s.Paragraph(2, fmt.Sprintf("%s allocated · %s reserved · %s seen by the driver", r.Peak.Allocated.Short(), r.Peak.Reserved.Short(), r.Peak.Device.Short()))
	largestLine(s, r)
	if r.Range != nil {
		s.Hanging("  ", screen.Plain, screen.Clean(fmt.Sprintf("between %s and %s allocated: %s", r.Range.Low.Short(), r.Range.High.Short(), r.Range.Why)))
	}
	assumptions := r.Assumptions
	if r.Sharded != nil {
		assumptions = slices.Concat(r.Sharded.Assumptions, assumptions)
	}
	for i, a := range assumptions {
		if i == 0 {
			s.Blank()
		}
		s.Hanging("  assumed  ", screen.Faint, screen.Clean(a))
	}
	next(s, r.Next)
}

// PredictHeadline is the answer in a sentence, for any kind of page.
func PredictHeadline(r *report.Prediction) string {
	text, _ := predictVerdict(r)
	return text
}

func predictVerdict(r *report.Prediction) (string, screen.Ink) {
	if r.Sharded != nil {
		return shardedVerdict(r)
	}
	if r.Run != nil {
		return runVerdict(r)
	}
	safe := r.Safe + r.ByCategory["context"]
	if r.AtLeast != "" && r.NoCard {
		return fmt.Sprintf("Needs at least %s. Name a card with --gpu, or its memory with --memory, to see whether that fits.", r.Peak.Device.Short()), screen.Plain
	}
	if r.NoCard {
		return fmt.Sprintf("Needs %s (at most %s). Name a card with --gpu, or its memory with --memory, to see whether it fits.", r.Peak.Device.Short(), safe.Short()), screen.Plain
	}
	text := fmt.Sprintf("%s needed (at most %s), %s available.", r.Peak.Device.Short(), safe.Short(), r.Capacity.Short())
	switch r.Verdict {
	case report.Fits:
		return "Fits: " + text, screen.Green
	case report.Tight:
		return "Tight: " + tightSentence(r), screen.Yellow
	case report.Unknown:
		return fmt.Sprintf("Not known: at least %s needed, %s available.", r.Peak.Device.Short(), r.Capacity.Short()), screen.Yellow
	}
	return "Does not fit: " + text, screen.Red
}

// tightSentence says how a job gets through that has no room to spare.
func tightSentence(r *report.Prediction) string {
	safe := r.Safe + r.ByCategory["context"]
	text := fmt.Sprintf("completes in the %s available, where %s (at most %s) would be reserved on a larger card", r.Capacity.Short(), r.Peak.Device.Short(), safe.Short())
	if l := r.Limited; l != nil && l.Retries > 0 {
		text += fmt.Sprintf("; the allocator has to release its cache %s, and each time the card waits", times(l.Retries))
		if l.Declined > 0 {
			text += fmt.Sprintf("; %s of cuDNN %s refused, and slower kernels run", counted(l.Declined, "workspace"), wasWere(l.Declined))
		}
		return text + "."
	}
	return text + "; the margin is smaller than the possible error of the prediction."
}

func wasWere(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%s times", units.Count(n))
}

func shardedVerdict(r *report.Prediction) (string, screen.Ink) {
	sh := r.Sharded
	how := []string{}
	if sh.Ranks > 1 {
		how = append(how, fmt.Sprintf("%s over %d", sh.Kind, sh.Ranks))
	}
	if sh.Tensor > 1 {
		how = append(how, fmt.Sprintf("tensor parallel %d", sh.Tensor))
	}
	if sh.Stages > 1 {
		how = append(how, fmt.Sprintf("%d stages", sh.Stages))
	}
	text := fmt.Sprintf("each card needs %s (at most %s) of %s, %s.", (sh.Needs() + r.ByCategory["context"]).Short(),
		(sh.Safe + r.ByCategory["context"]).Short(), r.Capacity.Short(), strings.Join(how, ", "))
	if r.NoCard {
		return fmt.Sprintf("Each card needs %s (at most %s), %s. Name the card with --gpu to see whether it fits.", (sh.Needs() + r.ByCategory["context"]).Short(),
			(sh.Safe + r.ByCategory["context"]).Short(), strings.Join(how, ", ")), screen.Plain
	}
	if sh.Fits {
		return "Fits: " + text, screen.Green
	}
	return "Does not fit: " + text, screen.Red
}

func peakSentence(r *report.Prediction) string {
	text := fmt.Sprintf("peak in the %s pass of step %d", r.Phase, r.Step)
	switch r.Phase {
	case torch.PhaseOptimizer:
		text = fmt.Sprintf("peak in the optimizer of step %d", r.Step)
	case torch.PhaseEval:
		text = fmt.Sprintf("peak in evaluation, after %s", counted(r.Step-1, "step"))
	case torch.PhaseOther, torch.PhaseLoad:
		text = fmt.Sprintf("peak outside of the model, after %s", counted(max(r.Step-1, 0), "step"))
	}
	if r.Where != "" {
		text += ", at " + r.Where
	}
	return text
}

// phasesLine is the highest level of each phase.
func phasesLine(r *report.Prediction) string {
	parts := []string{"forward " + r.Phases["forward"].Short(), "backward " + r.Phases["backward"].Short(), "optimizer " + r.Phases["optimizer"].Short()}
	if eval := r.Phases[torch.PhaseEval]; eval > 0 {
		parts = append(parts, "evaluation "+eval.Short())
	}
	return strings.Join(append(parts, "loaded "+r.AfterLoad.Short()), " · ")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

const stepTemporaries = "optimizer's step"

// withTemporaries are the categories of the peak, with the temporaries of an optimizer's step apart from its state. They belong to no parameter.
func withTemporaries(r *report.Prediction) map[string]units.Bytes {
	parts := maps.Clone(r.ByCategory)
	for _, o := range r.Top {
		if r.Phase == torch.PhaseOptimizer && o.Category == "optimizer" && o.Module == "" && o.Bytes < parts["optimizer"] {
			parts["optimizer"] -= o.Bytes
			parts[stepTemporaries] += o.Bytes
		}
	}
	return parts
}

// predictedCategories draws what the peak consists of, largest first.
func predictedCategories(s *screen.Screen, r *report.Prediction) {
	names := []string{"parameters", "gradients", "optimizer", stepTemporaries, "activations", "inputs", "workspace", "other", "context"}
	parts := withTemporaries(r)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(parts[b], parts[a]) })
	labels := map[string]string{"optimizer": "optimizer state", "workspace": "library workspaces", "other": "rounding and other", "context": "CUDA context"}
	var rest units.Bytes
	for _, name := range names {
		bytes := parts[name]
		if bytes < r.Peak.Device/100 {
			rest += bytes
			continue
		}
		label := name
		if l, ok := labels[name]; ok {
			label = l
		}
		categoryLine(s, r, label, bytes)
	}
	if rest > 0 {
		categoryLine(s, r, "everything else", rest)
	}
	if idle := r.Peak.Reserved - r.Peak.Allocated; idle >= r.Peak.Device/100 {
		categoryLine(s, r, "held but not in use", idle)
	}
	mostly(s, r)
}

func categoryLine(s *screen.Screen, r *report.Prediction, label string, bytes units.Bytes) {
	s.Line("  ", s.Bar(float64(bytes), float64(r.Peak.Device), min(32, s.Width()-40)), " ", screen.Pad(label, 20), screen.PadLeft(bytes.Short(), 10), screen.PadLeft(units.Percent(bytes, r.Peak.Device), 7))
}

// mostly names the modules that hold most of the activations.
func mostly(s *screen.Screen, r *report.Prediction) {
	var parts []string
	for _, o := range r.Top {
		if o.Category != "activations" || o.Bytes < r.Peak.Device/50 || len(parts) == 3 {
			continue
		}
		name := o.Module
		if name == "" {
			name = "top level (loss)"
		}
		parts = append(parts, name+" "+o.Bytes.Short())
	}
	if len(parts) > 0 {
		s.Blank()
		s.Hanging("  activations of  ", screen.Plain, screen.Clean(strings.Join(parts, " · ")))
	}
}

func largestLine(s *screen.Screen, r *report.Prediction) {
	if r.Largest == nil {
		return
	}
	s.Blank()
	text := "A batch of 1 does not fit with these settings."
	switch {
	case r.Largest.Batch == 0 && r.Largest.Tight > 0:
		text = "No batch fits with room to spare."
	case r.Largest.Batch == 0 && r.Largest.Seq > 0:
		text = "A batch of 1 does not fit at this sequence length."
	case r.Largest.Batch >= report.LargestBatch:
		text = "Largest batch that fits with these settings: " + units.Count(r.Largest.Batch) + " or more."
	case r.Largest.Batch > 0:
		text = "Largest batch that fits with these settings: " + units.Count(r.Largest.Batch) + "."
	}
	if n := r.Largest.Tight; n > 0 {
		text += " Up to " + units.Count(n) + " would run without room to spare: the allocator has to release its cache, or cuDNN has to do with less workspace."
	}
	if r.AtLeast != "" {
		text = "Of the training step alone: " + strings.ToLower(text[:1]) + text[1:]
	}
	if r.Largest.Seq > 0 {
		text += " Longest sequence at this batch: " + units.Count(r.Largest.Seq) + "."
	}
	s.Paragraph(0, text)
}

// PredictionTable prints one line a job as results come. It waits for the first few to see how wide their names are.
type PredictionTable struct {
	s       *screen.Screen
	waiting []report.Prediction
	width   int // of the names; 0: not known yet
}

const (
	tableWaits           = 16
	minName, maxName     = 12, 28
	predictionTableTitle = "  allocated   reserved       safe  peak in    fits"
	narrowTableTitle     = "  allocated       safe  peak in    fits"
)

// NewPredictionTable begins a table.
func NewPredictionTable(s *screen.Screen) *PredictionTable { return &PredictionTable{s: s} }

// Add prints a line, or keeps it until there are enough.
func (t *PredictionTable) Add(r report.Prediction) error {
	if t.width > 0 {
		t.line(&r)
		return t.s.Err()
	}
	if t.waiting = append(t.waiting, r); len(t.waiting) < tableWaits {
		return nil
	}
	return t.Close()
}

// Close prints what is waiting.
func (t *PredictionTable) Close() error {
	if t.width == 0 {
		t.width = minName
		for i := range t.waiting {
			t.width = max(t.width, min(screen.Columns(t.waiting[i].ID), maxName))
		}
		title := predictionTableTitle
		if t.narrow() {
			title = narrowTableTitle
			t.width = min(t.width, max(minName, t.s.Width()-len(title)))
		}
		t.s.Line(screen.Pad("job", t.width), title)
	}
	for i := range t.waiting {
		t.line(&t.waiting[i])
	}
	t.waiting = nil
	return t.s.Err()
}

// narrow tells a terminal without room for the reserved bytes, of which the safe bound says more.
func (t *PredictionTable) narrow() bool { return t.s.Width() < 80 }

func (t *PredictionTable) line(r *report.Prediction) {
	s := t.s
	name := screen.Pad(screen.Fit(screen.Clean(r.ID), t.width), t.width)
	if r.Error != "" {
		why := r.Error
		if _, after, found := strings.Cut(why, r.ID+": "); found { // the row is named already
			why = after
		}
		s.Line(name, "  ", s.Ink(screen.Yellow, screen.Fit(screen.Clean(why), s.Width()-t.width-2)))
		return
	}
	reserved := screen.PadLeft(r.Peak.Reserved.Short(), 11)
	if t.narrow() {
		reserved = ""
	}
	s.Line(name, screen.PadLeft(r.Peak.Allocated.Short(), 11), reserved, screen.PadLeft(r.Safe.Short(), 11), "  ", screen.Pad(r.Phase, 10), " ", yesNo(s, r.Fits))
}

// Sweep prints one line a combination, after what they have in common.
func Sweep(s *screen.Screen, rs []report.Prediction) {
	if i := slices.IndexFunc(rs, func(r report.Prediction) bool { return r.Error == "" }); i >= 0 {
		r := &rs[i]
		name, _, _ := strings.Cut(r.Title, " · ")
		s.Line(screen.Clean(fmt.Sprintf("%s · %s parameters · %s, %s available", name, shortCount(r.Params), r.Card, r.Capacity.Short())))
		s.Blank()
	}
	t := PredictionTable{s: s, waiting: rs}
	t.Close()
}

func yesNo(s *screen.Screen, yes bool) string {
	if yes {
		return s.Ink(screen.Green, "yes")
	}
	return s.Ink(screen.Red, "no")
}

// shortCount prints a number of parameters as people say it: "1.24 B", "124 M".
func shortCount(n int64) string {
	switch v := float64(n); {
	case n >= 1e9:
		return fmt.Sprintf("%.2f B", v/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f M", v/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f k", v/1e3)
	}
	return fmt.Sprint(n)
}
