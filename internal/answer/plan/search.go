package plan

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// point is one configuration of the grid; how many layers a selective one checkpoints is found out.
type point = setup.Setup

// groupOf is what a person would call one plan: points of a group differ in what costs no time.
func groupOf(p point) point {
	p.Layers, p.Accumulate, p.Loop, p.Conf, p.Optimizer = 0, 0, "", "", p.Optimizer.Kind()
	return p
}

// before puts points that are equal otherwise into an order, so that runs repeat.
func before(p, o point) bool {
	return cmp.Or(
		cmp.Compare(o.MicroBatch, p.MicroBatch), cmp.Compare(p.Checkpointing, o.Checkpointing), cmp.Compare(p.Precision, o.Precision), cmp.Compare(p.Optimizer, o.Optimizer),
		cmp.Compare(p.Attn, o.Attn), cmp.Compare(p.Sharding, o.Sharding), cmp.Compare(p.Offload, o.Offload),
		cmp.Compare(p.Tensor, o.Tensor), cmp.Compare(p.Stages, o.Stages), cmp.Compare(p.Context, o.Context),
	) < 0
}

// candidate is a group in the queue, at the point that is tried next. Unsolved ones carry a time they cannot beat.
type candidate struct {
	point
	took    duration
	changes int
	solved  bool
	bounded bool // selective: its layers are a bound, not a guess
	need    memory
	others  []candidate // the group's further points, in the order they are worth trying
}

// points are those of a candidate's group that are still to be tried.
func (c candidate) points() []candidate { return append([]candidate{c}, c.others...) }

// search is one run of Find.
type search struct {
	r      Request
	room   units.Bytes // what may be reserved
	layers int         // that can be checkpointed

	order       []int     // the layers, those a selective plan checkpoints first in front; nil: as they run
	kept, spent []float64 // shares of memory and time of the first of these

	parts  map[setup.Cut]predict.Source
	passes map[point]timed
	*Notes

	foresees    bool // the next candidate is solved beside the first: nothing else keeps the processors busy
	queue       queue
	considered  int
	predictions int
	found       []candidate // in the order of their times
	waiting     []candidate // for a plan that needs no memory of the host
	refused     []candidate // known not to fit
	bounded     bool        // some point was left out by a bound
	failed      error       // why the last point that was left out otherwise could not be computed
}

// smallGrid is the number of groups up to which everything is computed.
const smallGrid = 96

// Ties: differences in time below what the model can tell apart are decided by memory. Two plans of one model share most of its error; measured
// steps that wait for the host scatter by ten percent from run to run.
const (
	tie     = 0.02
	tieHost = 0.05
	// leaning is what the host's memory has to buy over allocator settings, and those over nothing: less than the model's uncertainty is not worth leaning on them.
	leaning = measuredError
)

// tie is how much slower than a plan another one may be to count as equal. Of other cards than the measured one times are known less well.
func (s *search) tie(d duration) float64 {
	if d.hostBound || s.r.Machine.Card.Name != measuredCard {
		return tieHost
	}
	return tie
}

// measuredCard is the card whose times and workspaces were measured.
const measuredCard = "h200"

func newSearch(r Request) (*search, error) {
	s := &search{r: r, parts: map[setup.Cut]predict.Source{}, passes: map[point]timed{}, Notes: r.Notes}
	if s.Notes == nil {
		s.Notes = NewNotes(r.Source, r.Machine)
	}
	// One stream tells how many layers can be checkpointed, and refuses what has no code path.
	first := r.Job.Setup().Checkpointed(0)
	if r.Source.Graph == nil || len(r.Job.CheckpointModules) > 0 {
		first = first.Checkpointed(-1)
	}
	t := s.unchecked(first, s.streamed(first))
	if t.err != nil {
		return nil, t.err
	}
	s.layers = t.facts.Layers
	if err := s.r.fill(s.layers); err != nil {
		return nil, err
	}
	if err := s.orderLayers(asFloats(t.facts.Kept)); err != nil {
		return nil, err
	}
	s.room = predict.Room(r.Machine) - shard.NCCL(s.r.GPUs, r.Machine.Card.NVLink > 0)
	if s.room <= 0 {
		return nil, fmt.Errorf("%s of memory is less than the CUDA context alone takes", predict.Capacity(r.Machine).Short())
	}
	return s, nil
}

// unchecked is what is asked first without checkpointing, where the model's code has none: no layer counts then, unless nothing else was asked for.
func (s *search) unchecked(first point, with timed) timed {
	asked := s.r.Axes.Checkpointing
	if with.err == nil || first.Checkpointing == setup.None || len(asked) > 0 && !slices.Contains(asked, setup.None) {
		return with
	}
	plain := s.streamed(first.Checkpointed(0))
	plain.facts.Layers = 0
	return plain
}

// run fills the queue and finds as many plans as are wanted.
func (s *search) run() error {
	if err := s.begin(); err != nil {
		return err
	}
	s.foresees = true
	s.find(s.wanted())
	return nil
}

// begin fills the queue.
func (s *search) begin() error {
	s.enumerate()
	if len(s.queue) == 0 && !s.bounded {
		return fmt.Errorf("no configuration is left: %w", s.failed)
	}
	return nil
}

// wanted is how many plans the request asks for.
func (s *search) wanted() int {
	switch {
	case s.r.Plans > 0:
		return s.r.Plans
	case s.groups() <= smallGrid:
		return s.considered
	}
	return 5
}

// find takes the fastest point again and again until so many plans are known, the first of all among them. A further call goes on where the last one ended.
func (s *search) find(want int) {
	s.drain(want)
	if slices.ContainsFunc(s.found, func(c candidate) bool { return c.Offload == "" }) {
		return
	}
	if s.squeezeRefused(); s.onTheCard() {
		s.readmit()
		s.drain(want)
	}
}

func (s *search) drain(want int) {
	for len(s.queue) > 0 && !s.enough(want, s.queue[0].took.total) {
		c := heap.Pop(&s.queue).(candidate)
		switch {
		case s.needless(c):
		case s.waits(c):
			s.waiting = append(s.waiting, c)
		case c.solved:
			s.take(c)
		default:
			wait := s.beside()
			s.solve(c)
			wait()
		}
	}
}

// waits tells that a plan moves something to the host without being asked to, and none that does not was found yet: where there is none, it is one of the ways out, not a plan.
func (s *search) waits(c candidate) bool {
	return c.Offload != "" && s.r.within == 0 && !s.onTheCard()
}

// take adds a plan to those found, which are in the order of their times.
func (s *search) take(c candidate) {
	after, _ := slices.BinarySearchFunc(s.found, c, func(f, c candidate) int {
		if f.took.total <= c.took.total {
			return -1
		}
		return 1
	})
	if s.found = slices.Insert(s.found, after, c); s.onTheCard() {
		s.readmit()
	}
}

// readmit puts plans that waited back into the queue.
func (s *search) readmit() {
	for _, c := range s.waiting {
		heap.Push(&s.queue, c)
	}
	s.waiting = nil
}

// enough tells that plans which take longer than so many seconds are not asked for.
func (s *search) enough(want int, seconds float64) bool {
	if len(s.found) == 0 {
		return s.r.within > 0 && seconds > s.r.within
	}
	i := slices.IndexFunc(s.found, func(c candidate) bool { return c.Offload == "" }) // it may have been found before faster ones that wait for it
	return len(s.found) >= want && seconds > s.reach() && (s.r.offloadAsked || i >= 0 && seconds > s.found[i].took.total)
}

// squeezeRefused looks among the points that do not fit at ease for those the allocator gets through all the same. They are plans only where there is no other:
// one with room for its own uncertainty is never passed over for them.
func (s *search) squeezeRefused() {
	var left []candidate
	for _, c := range s.refused {
		if c.need = s.squeeze(c.point, c.need); c.need.limited != nil {
			c.solved = true
			s.take(c)
		} else {
			left = append(left, c)
		}
	}
	s.refused = left
}

// lean counts what a plan leans on: nothing, the allocator's settings, or a model in pieces and the host's memory.
func (s *search) lean(c candidate) int {
	switch {
	case c.Offload != "" || !c.Whole() || c.Context > 1:
		return 2
	case c.Conf != s.r.Conf:
		return 1
	}
	return 0
}

// leader is the place of the first plan among plans in the order of their times: the fastest, or one that leans on less and is not much slower.
func (s *search) leader(found []candidate) int {
	front := 0
	for i, c := range found {
		if !c.riskier(found[front]) && s.lean(c) < s.lean(found[front]) && c.took.total <= found[front].took.total*(1+leaning) {
			front = i
		}
	}
	return front
}

// reach is the time up to which a plan may still become the first: by leaning on less, or by needing less memory than one as fast.
func (s *search) reach() float64 {
	best := s.found[s.leader(s.found)]
	if s.lean(best) > 0 {
		return best.took.total * (1 + leaning)
	}
	return best.took.total * (1 + s.tie(best.took))
}

// needless tells that a plan moves something to the host, or checkpoints some layers, where the same one fits without; or moves something without being asked to where a faster one fits without.
func (s *search) needless(c candidate) bool {
	var without []point
	if c.Offload != "" {
		twin := groupOf(c.point)
		twin.Offload = ""
		without = append(without, twin)
	}
	if c.Checkpointing == setup.Selective {
		without = append(without, groupOf(c.Checkpointed(0)))
	}
	return slices.ContainsFunc(s.found, func(f candidate) bool {
		moved := c.Offload != "" && f.Offload == "" && !s.r.offloadAsked && f.took.total <= c.took.total && f.need.limited == nil
		return moved && (s.changesNumerics(c.point) || !s.changesNumerics(f.point)) || slices.Contains(without, groupOf(f.point))
	})
}

// onTheCard tells whether some plan needs no memory of the host. Where none does, nothing fits: offload is then one of the ways out, not a plan.
func (s *search) onTheCard() bool {
	return slices.ContainsFunc(s.found, func(c candidate) bool { return c.Offload == "" }) || s.r.offloadAsked
}

func (s *search) groups() int {
	a := s.r.Axes
	kinds := map[torch.Optimizer]bool{}
	for _, o := range a.Optimizer {
		kinds[o.Kind()] = true
	}
	return len(a.MicroBatch) * len(a.Precision) * len(a.Checkpointing) * len(kinds) * len(a.Attn) * len(a.Offload) * max(1, len(a.Sharding)) * len(s.r.cuts)
}

// solve finds out whether a group fits and puts it back with the time it really has.
func (s *search) solve(c candidate) {
	if c.Checkpointing == setup.Selective {
		s.solveSelective(c)
		return
	}
	s.ahead(c)
	var closest *candidate
	for _, v := range c.points() {
		need, ok := s.fits(v.point)
		v.need, v.solved, v.others = need, ok, nil
		if ok {
			heap.Push(&s.queue, v)
			return
		}
		if need.safe > 0 && (closest == nil || need.safe < closest.need.safe) {
			closest = &v
		}
	}
	if closest != nil {
		s.refused = append(s.refused, *closest)
	}
}

// changes counts what differs from the job as it is: of two equal plans the one with fewer is better.
func (s *search) changes(p point) int {
	j := s.r.Job
	n := 0
	for _, differs := range []bool{
		p.Conf != s.r.Conf, p.Loop != j.Loop, p.Optimizer != j.Optimizer, p.Attn != j.Attn && p.Attn != "", p.Offload != "", p.Precision != j.Precision(),
		p.Checkpointing == setup.Selective, p.Tensor > 1, p.Stages > 1, p.Context > 1,
	} {
		if differs {
			n++
		}
	}
	return n
}

// weighed is the time that decides a plan's place. One without room to spare waits for the card again and again, and comes after any that is at most so much slower.
func (c candidate) weighed() float64 {
	if c.need.limited != nil {
		return c.took.total * (1 + squeezed)
	}
	return c.took.total
}

// squeezed is what room for its own uncertainty may cost a plan.
const squeezed = 0.05

// riskier tells that a plan has less room than another.
func (c candidate) riskier(than candidate) bool {
	return c.need.limited != nil && than.need.limited == nil
}

// ordered are the plans found, fastest first; among ties for the first place the better one, and plans that lean on less before those
// that lean on more.
func (s *search) ordered() []candidate {
	found := slices.Clone(s.found)
	if len(found) == 0 || !s.onTheCard() {
		return nil
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.weighed(), b.weighed()) })
	front := s.leader(found)
	best := front
	for i, c := range found[front:] {
		within := 1 + min(s.tie(c.took), s.tie(found[front].took))
		if !c.riskier(found[best]) && s.lean(c) == s.lean(found[front]) && c.took.total <= found[front].took.total*within && s.better(c, found[best]) {
			best = front + i
		}
	}
	best = safer(found, best)
	first := found[best]
	return append([]candidate{first}, slices.Delete(found, best, best+1)...)
}

// safer is the fastest plan with more room than the chosen one that is at most so much slower; the chosen one where there is none.
func safer(found []candidate, chosen int) int {
	c := found[chosen]
	i := slices.IndexFunc(found, func(o candidate) bool { return c.riskier(o) && o.took.total <= c.took.total*(1+squeezed) })
	if i < 0 {
		return chosen
	}
	return i
}

// better tells which of two plans that are equally fast is: the one that leaves numerics alone, then the one that needs less memory.
func (s *search) better(a, b candidate) bool {
	if x, y := s.changesNumerics(a.point), s.changesNumerics(b.point); x != y {
		return y
	}
	return a.need.safe < b.need.safe
}

// plan is a candidate as it is reported.
func (s *search) plan(c candidate) report.Plan {
	fits := c.need.err == nil && c.need.safe > 0 && (c.need.safe <= s.room || c.need.limited != nil)
	p := report.Plan{
		Setup: c.point, OfLayers: s.depth(c.Cut),
		Peak: c.need.peak, Safe: c.need.safe, Headroom: s.room - c.need.safe, Limited: c.need.limited,
		StepMS: 1000 * c.took.total, PassMS: 1000 * c.took.pass, OptimizerMS: 1000 * c.took.optimizer,
		Uncertainty: s.uncertainty(c), HostBound: c.took.hostBound,
		Fits: fits, Verdict: report.DoesNotFit, ChangesNumerics: s.changesNumerics(c.point), Changes: []string{},
	}
	switch {
	case fits && c.need.limited != nil:
		p.Verdict = report.Tight
	case fits:
		p.Verdict = report.Fits
	}
	p.Accumulate = s.times(c.point)
	if c.Checkpointing == setup.Selective {
		p.Calls = s.calls(c.Layers)
	}
	if !c.Whole() {
		p.Tensor, p.Stages, p.Ranks = max(c.Tensor, 1), max(c.Stages, 1), c.point.Ranks()
	}
	p.Host = s.onHost(c.point)
	return p
}

// queue is a heap: least time first, then fewest changes.
type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].took.total != q[j].took.total {
		return q[i].took.total < q[j].took.total
	}
	if q[i].changes != q[j].changes {
		return q[i].changes < q[j].changes
	}
	return before(q[i].point, q[j].point)
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
