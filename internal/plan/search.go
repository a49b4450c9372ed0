package plan

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"sync"

	"github.com/plimsoll/plimsoll/internal/predict"
	"github.com/plimsoll/plimsoll/internal/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// point is one configuration of the grid; how many layers a selective one checkpoints is found out.
type point struct {
	batch                       int
	precision, checkpointing    string
	optimizer, attn, loop, conf string
	offload, sharding           string
	layout
}

// group is what a person would call one plan: points of a group differ in what costs no time.
type group struct {
	batch                    int
	precision, checkpointing string
	optimizer, attn          string
	offload, sharding        string
	layout                   layout
}

func (p point) group() group {
	return group{p.batch, p.precision, p.checkpointing, kind(p.optimizer), p.attn, p.offload, p.sharding, p.layout}
}

// before puts points that are equal otherwise into an order, so that runs repeat.
func (p point) before(o point) bool {
	return cmp.Or(
		cmp.Compare(o.batch, p.batch), cmp.Compare(p.checkpointing, o.checkpointing), cmp.Compare(p.precision, o.precision), cmp.Compare(p.optimizer, o.optimizer),
		cmp.Compare(p.attn, o.attn), cmp.Compare(p.sharding, o.sharding), cmp.Compare(p.offload, o.offload),
		cmp.Compare(p.tensor, o.tensor), cmp.Compare(p.stages, o.stages),
	) < 0
}

// candidate is a group in the queue, at the point that is tried next. Unsolved ones carry a time they cannot beat.
type candidate struct {
	point
	took    duration
	changes int
	solved  bool
	layers  int
	need    memory
	others  []candidate // the group's further points, in the order they are worth trying
}

// search is one run of Find.
type search struct {
	r      Request
	room   units.Bytes // what may be reserved
	layers int         // that can be checkpointed

	trainable int64 // parameters

	order       []int     // the layers, those a selective plan checkpoints first in front; nil: as they run
	kept, spent []float64 // shares of memory and time of the first of these

	parts       map[layout]predict.Source
	passes      map[passKey]timed
	memories    map[memoryKey]memory
	shallowUses map[memoryKey]units.Bytes
	tooLarge    map[memoryKey]int // by column (batch 0): the smallest batch known not to fit

	queue       queue
	considered  int
	predictions int
	found       []candidate
	refused     []candidate // known not to fit
	bounded     bool        // some point was left out by a bound
	failed      error       // why the last point that was left out otherwise could not be computed
	batchNorm   bool
	dropout     bool
}

// smallGrid is the number of groups up to which everything is computed.
const smallGrid = 96

// Ties: differences in time below what the model can tell apart are decided by memory. Two plans of one model share most of its error; measured
// steps that wait for the host scatter by ten percent from run to run.
const (
	tie     = 0.02
	tieHost = 0.05
	// leaning is what other allocator settings or the optimizer's place have to buy: less than the model's uncertainty is not worth leaning on them.
	leaning = measuredError
)

// tie is how much slower than this another plan may be to count as equal.
func (d duration) tie() float64 {
	if d.hostBound {
		return tieHost
	}
	return tie
}

func newSearch(r Request) (*search, error) {
	s := &search{r: r, parts: map[layout]predict.Source{}, passes: map[passKey]timed{}, memories: map[memoryKey]memory{}, tooLarge: map[memoryKey]int{}, shallowUses: map[memoryKey]units.Bytes{}}
	// One stream tells how many layers can be checkpointed, and refuses what has no code path.
	first := passKey{
		batch: max(r.Job.Batch, 1), precision: r.Job.Precision(), attn: r.Job.Attn, checkpointed: r.Source.Graph == nil || len(r.Job.CheckpointModules) > 0, layout: whole,
	}
	t := s.streamed(first)
	if t.err != nil {
		return nil, t.err
	}
	s.layers, s.trainable = t.facts.Layers, t.facts.Trainable
	if err := s.r.fill(s.layers); err != nil {
		return nil, err
	}
	if err := s.orderLayers(asFloats(t.facts.Kept)); err != nil {
		return nil, err
	}
	s.room = predict.Room(r.Machine)
	if s.room <= 0 {
		return nil, fmt.Errorf("%s of memory is less than the CUDA context alone takes", predict.Capacity(r.Machine).Short())
	}
	return s, nil
}

// run fills the queue and takes the fastest point again and again until enough plans are known.
func (s *search) run() error {
	s.enumerate()
	if len(s.queue) == 0 && !s.bounded {
		return fmt.Errorf("no configuration can be computed: %w", s.failed)
	}
	want := s.r.Plans
	if want == 0 {
		want = 5
		if s.groups() <= smallGrid {
			want = s.considered
		}
	}
	for len(s.queue) > 0 {
		c := heap.Pop(&s.queue).(candidate)
		if len(s.found) >= want && c.took.total > s.found[0].took.total*(1+s.reach()) && s.onTheCard() {
			return nil
		}
		switch {
		case s.needless(c):
		case c.solved:
			s.found = append(s.found, c)
		default:
			s.solve(c)
		}
	}
	return nil
}

// plain tells that a plan fits with the allocator as it is, everything on the card and the model in one piece.
func (s *search) plain(c candidate) bool {
	return c.offload == "" && c.conf == s.r.Conf && c.layout == whole
}

// reach is how much slower than the fastest a plan may be and still become the first.
func (s *search) reach() float64 {
	if slices.ContainsFunc(s.found, s.plain) {
		return s.found[0].took.tie()
	}
	return leaning
}

// needless tells that a plan moves something to the host where the same one fits without.
func (s *search) needless(c candidate) bool {
	if c.offload == "" {
		return false
	}
	twin := c.group()
	twin.offload = ""
	return slices.ContainsFunc(s.found, func(f candidate) bool { return f.group() == twin })
}

// onTheCard tells whether some plan needs no memory of the host. Where none does, nothing fits: offload is then one of the ways out, not a plan.
func (s *search) onTheCard() bool {
	return slices.ContainsFunc(s.found, func(c candidate) bool { return c.offload == "" }) || s.r.offloadAsked
}

func (s *search) groups() int {
	a := s.r.Axes
	kinds := map[string]bool{}
	for _, o := range a.Optimizer {
		kinds[kind(o)] = true
	}
	return len(a.MicroBatch) * len(a.Precision) * len(a.Checkpointing) * len(kinds) * len(a.Attn) * len(a.Offload) * max(1, len(a.Sharding)) * len(s.r.layouts)
}

// solve finds out whether a group fits and puts it back with the time it really has.
func (s *search) solve(c candidate) {
	if c.checkpointing == Selective {
		s.solveSelective(c)
		return
	}
	layers := 0
	if c.checkpointing == Full {
		layers = -1
	}
	s.ahead(c, layers)
	var closest *candidate
	for _, v := range append([]candidate{c}, c.others...) {
		need, ok := s.fits(v.point, layers)
		v.layers, v.need, v.solved, v.others = layers, need, ok, nil
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

// ahead predicts the first open point of a group and, beside it, that of the group that is next in the queue: a second core has nothing else to do.
func (s *search) ahead(c candidate, layers int) {
	var keys []memoryKey
	open := func(c candidate, layers int) {
		for _, v := range append([]candidate{c}, c.others...) {
			k := s.key(v.point, layers)
			if _, known := s.memories[k]; known || s.hopeless(v.point, k) {
				continue
			}
			keys = append(keys, k)
			return
		}
	}
	open(c, layers)
	if len(s.queue) > 0 && len(keys) == 1 {
		if next := s.queue[0]; !next.solved && next.checkpointing != Selective && next.group() != c.group() {
			open(next, map[string]int{Full: -1}[next.checkpointing])
		}
	}
	if len(keys) > 1 {
		s.together(keys...)
	}
}

// together predicts what is not known yet of some keys, each in a goroutine of its own. They only run predictions, which share nothing that changes,
// and end before it returns.
func (s *search) together(keys ...memoryKey) {
	keys = slices.DeleteFunc(keys, func(k memoryKey) bool { _, known := s.memories[k]; return known })
	results := make([]memory, len(keys))
	var wait sync.WaitGroup
	for i, k := range keys {
		src := s.part(k.layout)
		wait.Go(func() { results[i] = s.predictOf(k, src) })
	}
	wait.Wait()
	for i, k := range keys {
		s.memories[k] = results[i]
		s.predictions++
	}
}

// solveSelective takes what costs no time for granted: the group's point that needs least memory checkpoints fewest layers.
func (s *search) solveSelective(c candidate) {
	for _, v := range c.others {
		if v.optimizer == c.optimizer {
			c.point, c.changes = v.point, v.changes
		}
	}
	c.others = nil
	if c.layers == 0 { // a number it cannot do with fewer than gives a better place in the queue
		c.layers = max(1, s.atLeast(c.point))
	} else {
		if c.layers = s.fewest(c.point); c.layers <= 0 {
			return
		}
		c.need, c.solved = s.need(s.key(c.point, c.layers)), true
	}
	var err error
	if c.took, err = s.time(c.point, c.layers); err == nil {
		heap.Push(&s.queue, c)
	}
}

// atLeast is the number of checkpointed layers below which what is in use alone does not fit.
func (s *search) atLeast(p point) int {
	low := 0
	for low < s.depth(p.layout) && s.floor(p, low) > s.room {
		low++
	}
	none, all := s.shallowUse(s.key(p, 0)), s.shallowUse(s.key(p, -1))
	for low < s.depth(p.layout) && none > all && float64(none)-s.keptShare(p.layout, low)*float64(none-all) > float64(s.room) {
		low++
	}
	return low
}

// fewest is the smallest number of checkpointed layers that fits, 0 where none are needed or all would not do. Memory falls with the number nearly
// in a straight line; what is reserved lies a little above it.
func (s *search) fewest(p point) int {
	if s.depth(p.layout) < 2 {
		return 0
	}
	low, high := s.atLeast(p)-1, s.depth(p.layout) // low does not fit, high is full checkpointing
	guess := low + 1
	for guess < high-1 && float64(s.line(p, guess))*heldAbove > float64(s.room) {
		guess++
	}
	for high-low > 1 {
		if other := guess + 1; other < high {
			s.together(s.key(p, guess), s.key(p, other))
		}
		if _, ok := s.fits(p, guess); ok {
			high = guess
			guess = max(low+1, guess-1)
		} else {
			low = guess
			guess = min(high-1, guess+1)
		}
	}
	if high == 0 || high == s.depth(p.layout) {
		return 0 // that is no checkpointing, or full
	}
	return high
}

// heldAbove is where a guess begins: what is reserved, with the safe bound's margin, over what is in use. Only the number of trials depends on it.
const heldAbove = 1.02

// line is about what is in use with so many checkpointed layers.
func (s *search) line(p point, layers int) units.Bytes {
	none, all := s.shallowUse(s.key(p, 0)), s.shallowUse(s.key(p, -1))
	if s.r.GPUs > 1 && none == 0 { // no bound holds among cards: both ends are predicted
		none, all = s.need(s.key(p, 0)).peak.Allocated, s.need(s.key(p, -1)).peak.Allocated
	}
	return max(s.floor(p, layers), none+units.Bytes(s.keptShare(p.layout, layers)*float64(all-none)))
}

// enumerate puts every point into the queue.
func (s *search) enumerate() {
	a := s.r.Axes
	for _, l := range s.r.layouts {
		for _, batch := range s.r.batches(l) {
			for _, precision := range a.Precision {
				for _, checkpointing := range a.Checkpointing {
					for _, attn := range a.Attn {
						s.column(point{batch: batch, precision: precision, checkpointing: checkpointing, attn: attn, layout: l})
					}
				}
			}
		}
	}
	heap.Init(&s.queue)
}

// column adds the groups of one stream.
func (s *search) column(p point) {
	a := s.r.Axes
	groups := map[group][]candidate{}
	for _, p.sharding = range s.r.kinds(p.layout) {
		for _, p.offload = range a.Offload {
			for _, p.optimizer = range a.Optimizer {
				if p.onHost(OffloadOptimizer) && states[kind(p.optimizer)] == 0 || p.onHost(OffloadActivations) && p.checkpointing == Selective {
					continue // there is nothing to move; what a layer saves is either computed again or moved
				}
				s.considered += len(a.Loop) * len(a.Conf)
				if s.tooLargeByBound(p) {
					continue
				}
				d, err := s.time(p, 1)
				if err != nil { // this size or precision has no code path
					s.failed = err
					continue
				}
				if s.tooLargeByBound(p) { // now that the stream has run the bound is sharper
					continue
				}
				for _, p.loop = range a.Loop {
					for _, p.conf = range a.Conf {
						groups[p.group()] = append(groups[p.group()], candidate{point: p, took: d, changes: s.changes(p)})
					}
				}
			}
		}
	}
	for _, points := range groups {
		slices.SortStableFunc(points, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.took.total, b.took.total), cmp.Compare(a.changes, b.changes))
		})
		first := points[0]
		first.others = points[1:]
		s.queue = append(s.queue, first)
	}
}

// tooLargeByBound tells that a point cannot fit however many layers it checkpoints of those it may.
func (s *search) tooLargeByBound(p point) bool {
	layers := -1
	if p.checkpointing == None {
		layers = 0
	}
	if s.floor(p, layers) <= s.room {
		return false
	}
	s.bounded = true
	return true
}

// changes counts what differs from the job as it is: of two equal plans the one with fewer is better.
func (s *search) changes(p point) int {
	j := s.r.Job
	n := 0
	for _, differs := range []bool{
		p.conf != s.r.Conf, p.loop != j.Loop, p.optimizer != j.Optimizer, p.attn != j.Attn, p.offload != "", p.precision != j.Precision(),
		p.checkpointing == Selective, p.tensor > 1, p.stages > 1,
	} {
		if differs {
			n++
		}
	}
	return n
}

// ordered are the plans found, fastest first; among ties for the first place the one that needs least memory, and plans that need no other
// allocator settings before those that do.
func (s *search) ordered() []candidate {
	found := slices.Clone(s.found)
	if !s.onTheCard() {
		return nil
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.took.total, b.took.total) })
	front := 0
	if i := slices.IndexFunc(found, s.plain); i > 0 && found[i].took.total <= found[0].took.total*(1+leaning) {
		front = i
	}
	best := front
	for i, c := range found[front:] {
		within := 1 + min(c.took.tie(), found[front].took.tie())
		if s.plain(c) == s.plain(found[front]) && c.took.total <= found[front].took.total*within && c.need.safe < found[best].need.safe {
			best = front + i
		}
	}
	first := found[best]
	return append([]candidate{first}, slices.Delete(found, best, best+1)...)
}

// plan is a candidate as it is reported.
func (s *search) plan(c candidate) report.Plan {
	p := report.Plan{
		MicroBatch: c.batch, Accumulate: s.times(c.point), Precision: c.precision, Checkpointing: c.checkpointing, OfLayers: s.depth(c.layout),
		Optimizer: c.optimizer, Attn: c.attn, Loop: c.loop, Conf: c.conf, Offload: c.offload, GPUs: s.r.GPUs, Sharding: c.sharding,
		Peak: c.need.peak, Safe: c.need.safe, Headroom: s.room - c.need.safe,
		StepMS: 1000 * c.took.total, PassMS: 1000 * c.took.pass, OptimizerMS: 1000 * c.took.optimizer,
		Uncertainty: s.uncertainty(c), HostBound: c.took.hostBound,
		Fits: c.need.err == nil && c.need.safe > 0 && c.need.safe <= s.room, ChangesNumerics: s.changesNumerics(c.point), Changes: []string{},
	}
	if c.checkpointing == Selective {
		p.Layers, p.Calls = c.layers, s.calls(c.layers)
	}
	if c.layout != whole {
		p.Tensor, p.Stages, p.Ranks = max(c.tensor, 1), max(c.stages, 1), s.ranks(c.layout)
	}
	p.Host = s.onHost(c)
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
	return q[i].before(q[j].point)
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
