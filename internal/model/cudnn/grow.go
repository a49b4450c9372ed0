package cudnn

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
)

// Growth says how a table is grown.
type Growth struct {
	Card  Card
	Trees int
	Tries int // random features a node chooses its question from
	Least int // a node of fewer samples asks nothing more
	Seed  uint64
}

// sample is one measured pass.
type sample struct {
	v      [featureCount]int64
	t      terms
	bytes  int64
	group  int      // data type, memory format, grouped: formulas are chosen among rows of one kind
	fits   labelSet // formulas that explain it
	label  int      // of those the one that explains most other measurements
	coarse int
}

// labelSet is a set of labels; a forest has far fewer than it holds.
type labelSet [8]uint64

func (s *labelSet) add(label int) { s[label/64] |= 1 << (label % 64) }

// keep leaves what is in both, and tells whether that is anything.
func (s *labelSet) keep(other *labelSet) bool {
	var any uint64
	for i := range s {
		s[i] &= other[i]
		any |= s[i]
	}
	return any != 0
}

// Grow makes a table of measured rows: for every pass it names each measurement by the formula that explains it,
// as few different ones as possible, and grows trees that tell which formula a shape follows.
// Every node asks the best question about a few random features (random forests: Breiman, 2001).
func Grow(rows []Row, g Growth) (*Table, error) {
	var samples [modes][passes][]sample
	for _, r := range rows {
		c, ok := r.Conv()
		if !ok {
			continue
		}
		for i := range int(modes) * len(Passes()) {
			mode, p := Mode(i)/Mode(len(Passes())), Passes()[i%len(Passes())]
			measured, ok := r.In(mode)
			if !ok {
				continue
			}
			role := c.Role(p)
			s := sample{t: newTerms(c, role, g.Card.SMs), bytes: int64(measured.Of(p)), group: c.Width<<2 | int(flag(c.Last)<<1|flag(c.Groups > 1))}
			s.v = features(c, role, &s.t)
			samples[mode][role] = append(samples[mode][role], s)
		}
	}
	var wait sync.WaitGroup
	var all []*grown
	for m := range samples {
		for p, measured := range samples[m] {
			f := &grown{}
			all = append(all, f)
			if len(measured) > 0 {
				wait.Go(func() { growForest(f, measured, g, uint64(m)<<8|uint64(p)) })
			}
		}
	}
	wait.Wait()
	if len(all[Forward].trees) == 0 {
		return nil, errors.New("no convolution was measured")
	}
	return Decode(pack(g.Card, all))
}

func growForest(f *grown, all []sample, g Growth, salt uint64) {
	named := nameFormulas(all, f)
	columns := rankColumns(named)
	f.trees = make([][]node, g.Trees)
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range f.trees {
		slots <- struct{}{}
		wait.Go(func() {
			f.trees[i] = growTree(named, columns, len(f.labels), g, salt<<8|uint64(i))
			<-slots
		})
	}
	wait.Wait()
}

// column is one feature of all samples: the values that occur, ascending, and of each sample the number of its value.
type column struct {
	values []int64
	ranks  []int32
}

func rankColumns(samples []sample) *[featureCount]column {
	var out [featureCount]column
	for f := range out {
		c := column{values: make([]int64, len(samples)), ranks: make([]int32, len(samples))}
		for i := range samples {
			c.values[i] = samples[i].v[f]
		}
		slices.Sort(c.values)
		c.values = slices.Compact(c.values)
		for i := range samples {
			at, _ := slices.BinarySearch(c.values, samples[i].v[f])
			c.ranks[i] = int32(at)
		}
		out[f] = c
	}
	return &out
}

func growTree(named []sample, columns *[featureCount]column, labels int, g Growth, salt uint64) []node {
	kinds := labels + coarseKinds
	gr := grower{samples: named, columns: columns, labels: labels, tries: g.Tries, least: g.Least, rnd: rand.New(rand.NewPCG(g.Seed, salt)), numbers: make([]int32, kinds), local: make([][2]int32, len(named)), sorted: make([]int64, min(looked, len(named))), spare: make([]int64, min(looked, len(named)))}
	gr.counts = [2][]int32{make([]int32, kinds), make([]int32, kinds)}
	index := make([]int32, len(named))
	for i := range index {
		index[i] = int32(i)
	}
	gr.grow(index)
	return merge(gr.nodes)
}

// explains tells whether a formula gives a measurement: a little closer than an answer has to be, so that formulas are not bent to it.
func explains(value, bytes int64) bool {
	return max(value-bytes, bytes-value) <= max(bytes/67, 3<<18)
}

// exactly tells whether that is no accident: what is left over are counters and alignment.
func exactly(value, bytes int64) bool {
	return value <= bytes && bytes-value <= 1200+bytes/50000
}

// nameFormulas gives every sample the formulas that explain it and leaves out those that none does.
func nameFormulas(all []sample, f *grown) []sample {
	groups := map[int][]int{}
	for i, s := range all {
		groups[s.group] = append(groups[s.group], i)
	}
	kinds := make([]int, 0, len(groups))
	for k := range groups {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	label := map[int]int{}
	var named []sample
	for _, k := range kinds {
		chosen := cover(all, some(groups[k], namedFrom))
		for _, id := range chosen {
			if _, ok := label[id]; !ok && len(f.labels) < 64*len(labelSet{}) {
				label[id] = len(f.labels)
				f.labels = append(f.labels, id)
			}
		}
		for _, m := range groups[k] {
			if s := all[m]; s.named(chosen, label) {
				named = append(named, s)
			}
		}
	}
	return named
}

// namedFrom is how many samples of a kind formulas are chosen by: what explains none of so many is rare.
const namedFrom = 4000

// some are evenly spread members, at most n.
func some(members []int, n int) []int {
	if len(members) <= n {
		return members
	}
	out := make([]int, n)
	for i := range out {
		out[i] = members[i*len(members)/n]
	}
	return out
}

// named sets the labels of a sample; false where no formula explains it.
func (s *sample) named(chosen []int, label map[int]int) bool {
	first, exact := -1, false
	for _, id := range chosen {
		l, ok := label[id]
		v := s.t.value(id)
		if !ok || !explains(v, s.bytes) {
			continue
		}
		s.fits.add(l)
		if e := exactly(v, s.bytes); first < 0 || e && !exact {
			first, s.label, exact = id, l, e
		}
	}
	s.coarse = max(0, first) / parts % 8 * 2
	if first%parts != partNone {
		s.coarse++
	}
	return first >= 0
}

// claim is a formula with the samples it explains: members by number, and how well.
type claim struct {
	id      int
	members []int32
	worth   []float32
}

// claims finds for every sample the formulas that explain it: of each base what is left, and among the parts those that are as large.
func claims(all []sample, members []int) []claim {
	byFormula := map[int]*claim{}
	for i, m := range members {
		s := &all[m]
		sorted := make([]partSize, parts)
		for p := range sorted {
			sorted[p] = partSize{s.t.part(p), p}
		}
		slices.SortFunc(sorted, func(a, b partSize) int { return cmp.Compare(a.size, b.size) })
		for b := range bases {
			if b >= 8 && b%8 == 0 || s.group&1 == 0 && b/8 == int(byGroups) {
				continue // where nothing is copied padding says nothing, and without groups it is not by groups
			}
			base, slack := s.t.base(b), max(s.bytes/67, 3<<18)
			from, _ := slices.BinarySearchFunc(sorted, s.bytes-base-slack, func(p partSize, at int64) int { return cmp.Compare(p.size, at) })
			for _, p := range sorted[from:] {
				if !explains(base+p.size, s.bytes) {
					break
				}
				claimed(byFormula, b*parts+p.part, i, s)
			}
		}
	}
	out := make([]claim, 0, len(byFormula))
	for _, c := range byFormula {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b claim) int { return cmp.Compare(a.id, b.id) })
	return out
}

// claimed notes that a formula explains a sample, and how well.
func claimed(byFormula map[int]*claim, id, member int, s *sample) {
	c := byFormula[id]
	if c == nil {
		c = &claim{id: id}
		byFormula[id] = c
	}
	worth := float32(0.25)
	if exactly(s.t.value(id), s.bytes) {
		worth = 1
	}
	c.members, c.worth = append(c.members, int32(member)), append(c.worth, worth)
}

// partSize is a part of a formula with what it is for one sample.
type partSize struct {
	size int64
	part int
}

// cover picks formulas one after the other, always the one that explains most of what is not yet explained as well.
func cover(all []sample, members []int) []int {
	const most, least = 64, 1.5
	offers := claims(all, members)
	best := make([]float32, len(members))
	var chosen []int
	for len(chosen) < most {
		top, gain := -1, float32(least)
		for j, c := range offers {
			var sum float32
			for i, m := range c.members {
				if c.worth[i] > best[m] {
					sum += c.worth[i] - best[m]
				}
			}
			if sum > gain {
				top, gain = j, sum
			}
		}
		if top < 0 {
			break
		}
		chosen = append(chosen, offers[top].id)
		for i, m := range offers[top].members {
			best[m] = max(best[m], offers[top].worth[i])
		}
	}
	return chosen
}

type grower struct {
	samples []sample
	columns *[featureCount]column
	labels  int
	tries   int
	least   int
	rnd     *rand.Rand
	nodes   []node

	numbers []int32 // of the kinds of the node that is split
	sorted  []int64
	spare   []int64
	local   [][2]int32
	counts  [2][]int32
}

const coarseKinds = 16

// grow writes the tree of some samples in preorder.
func (g *grower) grow(index []int32) {
	common, pure := g.samples[index[0]].fits, true
	for _, i := range index[1:] {
		if pure = common.keep(&g.samples[i].fits); !pure {
			break
		}
	}
	if pure || len(index) < g.least {
		g.nodes = append(g.nodes, node{feature: -1, at: int64(g.majority(index))})
		return
	}
	feature, at := g.question(index)
	if feature < 0 {
		g.nodes = append(g.nodes, node{feature: -1, at: int64(g.majority(index))})
		return
	}
	split, c := 0, &g.columns[feature]
	low, high := int32(0), int32(len(c.values)-1) // the values next to the cut
	for i, s := range index {
		if rank := c.ranks[s]; rank > at {
			high = min(high, rank)
			continue
		}
		low = max(low, c.ranks[s])
		index[i], index[split] = index[split], s
		split++
	}
	g.nodes = append(g.nodes, node{feature: int16(feature), at: roundest(c.values[low], c.values[high]-1)})
	g.grow(index[:split])
	g.grow(index[split:])
}

// roundest is the number from low to high that most powers of two divide: such thresholds are shared by many nodes.
func roundest(low, high int64) int64 {
	for bit := int64(1); bit > 0; bit <<= 1 {
		if rounded := high &^ (bit - 1); rounded >= low {
			high = rounded
			continue
		}
		break
	}
	return high
}

// majority is the label that explains most of some samples; of several that explain all, the one most are named by.
func (g *grower) majority(index []int32) int {
	count := make([]int, g.labels)
	for _, i := range index {
		s := &g.samples[i]
		for l := range count {
			if s.fits[l/64]>>(l%64)&1 != 0 {
				count[l] += 2
			}
		}
		count[s.label]++
	}
	return slices.Index(count, slices.Max(count))
}

// looked is how many samples of a node its questions are compared on.
const looked = 4096

// question is the best one about some random features: the feature and the number of a value of it.
func (g *grower) question(all []int32) (feature int, at int32) {
	feature = -1
	index := all
	if len(all) > looked {
		index = make([]int32, looked)
		for i := range index {
			index[i] = all[g.rnd.IntN(len(all))]
		}
	}
	kinds := g.kindsOf(index)
	whole := g.counts[0][:kinds]
	clear(whole)
	for i := range index {
		whole[g.local[i][0]]++
		whole[g.local[i][1]]++
	}
	var best float64
	for _, f := range g.rnd.Perm(featureCount)[:min(g.tries, featureCount)] {
		if score, v := g.threshold(f, index, kinds); score > best {
			best, feature, at = score, f, v
		}
	}
	if feature < 0 {
		return g.anyQuestion(all)
	}
	return feature, at
}

// threshold is the value of a feature that separates some samples best, by the Gini purity of labels and of coarse kinds on both sides.
func (g *grower) threshold(f int, index []int32, kinds int) (best float64, at int32) {
	ranks, whole, left := g.columns[f].ranks, g.counts[0][:kinds], g.counts[1][:kinds]
	sorted := g.sorted[:len(index)]
	for i, s := range index {
		sorted[i] = int64(ranks[s])<<32 | int64(i)
	}
	g.sort(sorted)
	if sorted[0]>>32 == sorted[len(sorted)-1]>>32 {
		return 0, 0
	}
	clear(left)
	var here, there int64
	for _, n := range whole {
		there += int64(n) * int64(n)
	}
	for i, s := range sorted[:len(sorted)-1] {
		for _, kind := range g.local[int32(s)] {
			here += 2*int64(left[kind]) + 1
			there -= 2*int64(whole[kind]-left[kind]) - 1
			left[kind]++
		}
		if s>>32 == sorted[i+1]>>32 {
			continue
		}
		if score := float64(here)/float64(i+1) + float64(there)/float64(len(sorted)-i-1); score > best {
			best, at = score, int32(s>>32)
		}
	}
	return best, at
}

// sort orders ranks with their positions: long lists digit by digit, which keeps the order of equal ranks.
func (g *grower) sort(list []int64) {
	if len(list) < 128 {
		slices.Sort(list)
		return
	}
	most := int64(0)
	for _, v := range list {
		most = max(most, v)
	}
	from, to := list, g.spare[:len(list)]
	for shift := 32; most>>shift > 0; shift += 8 {
		var next [257]int // where the values with a digit go
		for _, v := range from {
			next[int(byte(v>>shift))+1]++
		}
		for i := range 256 {
			next[i+1] += next[i]
		}
		for _, v := range from {
			d := byte(v >> shift)
			to[next[d]] = v
			next[d]++
		}
		from, to = to, from
	}
	copy(list, from)
}

// kindsOf numbers the labels and the coarse kinds that some samples have, and tells how many there are.
func (g *grower) kindsOf(index []int32) int {
	n := int32(0)
	clear(g.numbers)
	number := func(kind int) int32 {
		if g.numbers[kind] == 0 {
			n++
			g.numbers[kind] = n
		}
		return g.numbers[kind] - 1
	}
	for i, s := range index {
		g.local[i] = [2]int32{number(g.samples[s].label), number(g.labels + g.samples[s].coarse)}
	}
	return int(n)
}

// anyQuestion is asked where random ones separated nothing: the first feature in which two samples differ.
func (g *grower) anyQuestion(index []int32) (int, int32) {
	for _, i := range index[1:] {
		for f := range g.columns {
			if a, b := g.columns[f].ranks[index[0]], g.columns[f].ranks[i]; a != b {
				return f, min(a, b)
			}
		}
	}
	return -1, 0
}

// merge replaces an inner node whose two branches say the same by what they say.
func merge(nodes []node) []node {
	out, _ := mergeAt(nodes, 0)
	return out
}

func mergeAt(nodes []node, i int) ([]node, int) {
	if nodes[i].feature < 0 {
		return []node{nodes[i]}, i + 1
	}
	left, next := mergeAt(nodes, i+1)
	right, end := mergeAt(nodes, next)
	if len(left) == 1 && len(right) == 1 && left[0].at == right[0].at {
		return left, end
	}
	return append(append([]node{{feature: nodes[i].feature, at: nodes[i].at}}, left...), right...), end
}
