package plan

import (
	"fmt"
	"sync"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// What a question without further flags takes for granted.
const (
	usualSeq    = 2048
	usualSource = 512 // of models that read one text and write another
	usualTarget = 128
	usualImage  = 224 // pixels, of models that take any
	usualBatch  = 16
	usualRank   = 16
)

// Sample is what a model's samples are.
type Sample struct {
	Task      string
	Positions int  // of tokens; 0: there is no limit
	AnyImage  bool // its configuration names no size of images
}

// Usual fills in what a question about a model leaves open: tokens of a sample and of its target, where the task has any, the size of images that the configuration does not name, and the effective
// batch over all cards. It returns what was assumed.
func Usual(j *job.Job, of Sample, cards int) []string {
	var said []string
	fill := func(field *int, usual int, format string) {
		if *field == 0 {
			if *field = usual; of.Positions > 0 {
				*field = min(usual, of.Positions)
			}
			said = append(said, fmt.Sprintf(format, *field))
		}
	}
	switch of.Task {
	case "seq2seq-lm":
		fill(&j.Seq, usualSource, "samples of %d tokens (--seq)")
		fill(&j.TargetSeq, usualTarget, "targets of %d tokens (--target-seq)")
	case "speech-seq2seq":
		fill(&j.TargetSeq, usualTarget, "targets of %d tokens (--target-seq)")
	case "image-cls":
		if of.AnyImage {
			fill(&j.Image, usualImage, "images of %[1]d × %[1]d pixels (--image)")
		}
	default:
		fill(&j.Seq, usualSeq, "samples of %d tokens (--seq)")
	}
	if j.Batch == 0 {
		j.Batch = max(1, usualBatch/max(1, cards))
		said = append(said, fmt.Sprintf("an effective batch of %d samples (--effective-batch)", j.Batch*max(1, cards)))
	}
	return said
}

// methods are the ways to fine-tune that are compared, the least change first.
var methods = []struct {
	adapters setup.Adapters
	changes  string
}{
	{setup.Adapters{}, "all weights are trained"},
	{setup.Adapters{LoRARank: usualRank, LoRATargets: "all-linear"}, "adapters of rank 16 in every linear layer are trained, the model is frozen"},
	{setup.Adapters{LoRARank: usualRank, LoRATargets: "all-linear", BaseBits: 4}, "as LoRA, and the frozen model is stored in 4 bits and unpacked for every matrix product"},
}

// Compare answers for full fine-tuning, LoRA and QLoRA. It returns the answer for the first of them that fits, or for full fine-tuning.
func Compare(r Request) (*report.Fit, Request, error) {
	asked := make([]compared, len(methods))
	each(len(methods), func(i int) { asked[i] = r.compare(methods[i].adapters, methods[i].changes) })
	var all []report.Method
	chosen := 0
	for i, c := range asked {
		if c.err != nil {
			return nil, r, c.err
		}
		all = append(all, c.method)
		if c.method.Fits && !asked[chosen].method.Fits {
			chosen = i
		}
	}
	best := asked[chosen].search
	best.foresees = true
	best.find(best.wanted()) // of the others the first plan is enough
	fit, err := best.answer()
	if err != nil {
		return nil, r, err
	}
	fit.Methods = all
	return fit, asked[chosen].asked, nil
}

// compared is one way to fine-tune, searched.
type compared struct {
	asked  Request
	search *search
	method report.Method
	err    error
}

// compare searches for one way to fine-tune. Further questions about it find its notes in the request that was asked.
func (r Request) compare(a setup.Adapters, changes string) compared {
	setAdapters(&r.Job, a)
	r.Notes = NewNotes(r.Source, r.Machine)
	m := report.Method{Name: a.Method(), Changes: changes, Adapters: a}
	var wait sync.WaitGroup
	wait.Go(func() { r.reach(&m) }) // needs nothing of the search but the answers of needs, which are shared
	s, err := newSearch(r)
	if err == nil {
		err = s.begin()
	}
	if err == nil {
		s.find(1)
	}
	wait.Wait()
	if err != nil {
		return compared{err: err}
	}
	plans := s.ordered()
	if m.Fits = len(plans) > 0; m.Fits {
		m.TokensPerSecond = float64(s.r.Effective*r.Job.Seq) / plans[0].took.total
	}
	return compared{r, s, m, nil}
}

func setAdapters(j *job.Job, a setup.Adapters) { *j = j.With(withAdapters(*j, a)) }

func withAdapters(j job.Job, a setup.Adapters) setup.Setup {
	s := j.Setup()
	s.Adapters = a
	return s
}

// Bounds of the batches and sequences that are tried.
const (
	mostSamples = 1 << 12
	mostTokens  = 1 << 17
)

// reach finds what a method needs at least, the largest batch of the asked sequences, and the longest sequence.
func (r Request) reach(m *report.Method) {
	j := r.Job
	j.Batch, j.Accumulate, j.Checkpointing, j.Layers = 1, r.accumulated(1), true, 0
	if fused, ok := j.Optimizer.With(torch.Fused); ok {
		j.Optimizer = fused
	}
	room := predict.Room(r.Machine)
	margin := func(safe units.Bytes, err error) units.Bytes {
		if err != nil {
			return room + 1
		}
		if j.LoRARank > 0 {
			safe += units.Bytes(adaptersMargin * float64(safe))
		}
		return safe
	}
	need := func(j job.Job) units.Bytes {
		n, err := r.Notes.needs.Need(j, r.Machine.Conf, predict.Spread{})
		return margin(n.Safe, err)
	}
	bound := func(j job.Job) units.Bytes { return margin(r.Notes.needs.AtLeast(j, predict.Spread{})) }
	samples := func(n int) job.Job { k := j; k.Batch, k.Accumulate = n, r.accumulated(n); return k }
	tokens := func(n int) job.Job { k := j; k.Seq = 64 * n; return k }
	of := func(vary func(int) job.Job) sized {
		return sized{room, func(n int) units.Bytes { return bound(vary(n)) }, func(n int) units.Bytes { return need(vary(n)) }, fine}
	}
	m.Needs = need(j) + predict.Context(r.Machine)
	m.LargestBatch = of(samples).largest(1, mostSamples)
	m.LongestSeq = 64 * of(tokens).largest(j.Seq/64, mostTokens/64)
}

// accumulated is how many micro-batches of so many samples a step has; memory does not tell more than two apart.
func (r Request) accumulated(n int) int {
	effective := max(r.Effective, r.Job.Batch*max(r.Job.Accumulate, 1))
	return min(2, max(1, effective/max(1, n)))
}

// sized is something that needs more the larger it is: how much there is room for, what it needs at least, which is found fast, and what it needs.
type sized struct {
	room        units.Bytes
	bound, need func(int) units.Bytes
	part        int // of a size that need not be told
}

// How far below the true one an edge may be: a 64th, and an eighth where what is usual does not fit.
const (
	fine   = 64
	coarse = 8
)

// step is how far apart two sizes are that need not be told apart.
func (s sized) step(n int) int { return max(1, n/s.part) }

// extent is a size, what it needs at least and what it needs: the same where that is too much already.
type extent struct {
	n           int
	bound, need units.Bytes
}

// slack is what the allocator holds beyond what is asked for.
func (e extent) slack() float64 { return float64(e.need - e.bound) }

// at asks the bound first.
func (s sized) at(n int) extent {
	e := extent{n: n, bound: s.bound(n)}
	if e.need = e.bound; e.bound <= s.room {
		e.need = s.need(n)
	}
	return e
}

// largest is the largest number up to a limit that fits, as far as it is told; 0 where none does. It sets out from a usual number.
func (s sized) largest(usual, limit int) int {
	usual = min(max(usual, 1), limit)
	low, high := s.at(usual), extent{n: limit + 1}
	if low.need > s.room {
		if usual == 1 {
			return 0
		}
		high, low, s.part = low, s.at(1), coarse
		if low.need > s.room {
			return 0
		}
	}
	return s.edge(low, high)
}

// edge is the largest number that fits, from one that does up to one that does not, whose need is 0 where it is not known.
func (s sized) edge(low, high extent) int {
	before := extent{} // the last one but one that fits
	for try := 0; high.n-low.n > s.step(low.n); try++ {
		guess := (low.n + high.n) / 2
		if try < aimed { // then by halves: the worst case stays logarithmic
			guess = max(s.aim(before, low, high), low.n+s.step(low.n))
		}
		at := s.at(min(guess, high.n-1))
		if at.need > s.room {
			high = at
		} else {
			before, low = low, at
		}
	}
	return low.n
}

// aimed is how many guesses are aimed, and aims how often the bound is asked for one.
const (
	aimed = 6
	aims  = 4
)

// aim is where the room should end. The bound tells what is asked for; what the allocator holds beyond that is drawn through the two nearest that are known, from nothing at zero where one is.
func (s sized) aim(before, low, high extent) int {
	other := before
	if high.need > high.bound {
		other = high
	}
	steep := (low.slack() - other.slack()) / float64(low.n-other.n)
	needed := func(e extent) float64 { return float64(e.bound) + low.slack() + steep*float64(e.n-low.n) }
	from, to, room := low, high, float64(s.room)
	for range aims {
		guess := 2 * low.n
		switch {
		case to.bound > 0:
			guess = from.n + drawn(float64(to.n-from.n), room-needed(from), needed(to)-needed(from))
		case from.n > low.n:
			guess = from.n + drawn(float64(from.n-low.n), room-needed(from), needed(from)-needed(low))
		}
		if to.n-from.n < 2 || guess == from.n {
			break
		}
		at := extent{n: min(max(guess, from.n+1), to.n-1)}
		if at.bound = s.bound(at.n); needed(at) > room {
			to = at
		} else {
			from = at
		}
	}
	return from.n
}

// drawn is how far a line that rises so much over a distance goes until it has risen as much as is wanted.
func drawn(distance, wanted, rise float64) int {
	if rise <= 0 {
		return int(distance)
	}
	return int(min(distance*wanted/rise, mostTokens))
}
