package cudnn

import (
	"math/rand/v2"
	"slices"
)

// Growth says how a table is grown.
type Growth struct {
	SMs, Trees int
	Tries      int // features a node looks at
	Seed       uint64
}

// sample is one measured pass.
type sample struct {
	v      [featureCount]int64
	t      terms
	bytes  int64
	group  int // data type, memory format, grouped: formulas are chosen among rows of one kind
	label  int
	coarse int
}

// Grow makes a table of measured rows: for every pass it names each measurement by the formula that explains it,
// as few different ones as possible, and grows trees that tell which formula a shape follows.
// The trees ask random questions (extremely randomized trees: Geurts, Ernst, Wehenkel, 2006); the best of some tries is taken.
func Grow(rows []Row, g Growth) *Table {
	table := &Table{SMs: g.SMs}
	var samples [passes][]sample
	for _, r := range rows {
		c, ok := r.Conv()
		if !ok {
			continue
		}
		for _, p := range Passes() {
			role := c.Role(p)
			s := sample{t: newTerms(c, role, g.SMs), bytes: int64(r.Bytes.Of(p)), group: c.Width<<2 | int(flag(c.Last)<<1|flag(c.Groups > 1))}
			s.v = features(c, role, &s.t)
			samples[role] = append(samples[role], s)
		}
	}
	for p := range samples {
		table.forests[p] = growForest(samples[p], g, uint64(p))
	}
	return table
}

func growForest(all []sample, g Growth, salt uint64) forest {
	f := forest{}
	named := nameFormulas(all, &f)
	rnd := rand.New(rand.NewPCG(g.Seed, salt))
	gr := grower{samples: named, labels: len(f.labels), tries: g.Tries, rnd: rnd}
	for range g.Trees {
		index := make([]int32, len(named))
		for i := range index {
			index[i] = int32(i)
		}
		gr.nodes = nil
		gr.grow(index)
		nodes := merge(gr.nodes)
		link(nodes)
		f.trees = append(f.trees, nodes)
	}
	return f
}

// fit is how well a formula explains a measurement.
func fit(value, bytes int64) float32 {
	off := max(value-bytes, bytes-value)
	switch {
	case off <= max(bytes/1000, 1<<15):
		return 1.9
	case off <= max(bytes/100, 1<<19):
		return 0.9
	case off <= max(bytes/50, 1<<20):
		return 0.3
	}
	return 0
}

// nameFormulas gives every sample its label and leaves out those that no formula explains.
func nameFormulas(all []sample, f *forest) []sample {
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
	chosen := make([]int, len(all))
	for i := range chosen {
		chosen[i] = -1
	}
	for _, k := range kinds {
		cover(all, groups[k], chosen)
	}
	var named []sample
	for i, s := range all {
		if chosen[i] < 0 {
			continue
		}
		n, ok := label[chosen[i]]
		if !ok {
			n = len(f.labels)
			label[chosen[i]] = n
			f.labels = append(f.labels, chosen[i])
		}
		s.label = n
		s.coarse = chosen[i] / parts % 8 * 2
		if chosen[i]%parts != partNone {
			s.coarse++
		}
		named = append(named, s)
	}
	return named
}

// cover picks formulas one after the other, always the one that explains most of what is not yet explained as well.
func cover(all []sample, members, chosen []int) {
	const most, least = 40, 2
	fits := make([][]float32, 0, formulas)
	ids := make([]int, 0, formulas)
	for id := range formulas {
		if b := id / parts; b >= 8 && b%8 == 0 {
			continue // nothing is copied: padding says nothing
		}
		row := make([]float32, len(members))
		for i, m := range members {
			row[i] = fit(all[m].t.value(id), all[m].bytes)
		}
		fits, ids = append(fits, row), append(ids, id)
	}
	best := make([]float32, len(members))
	for range most {
		top, gain := -1, float32(least)
		for j, row := range fits {
			var sum float32
			for i, v := range row {
				if v > best[i] {
					sum += v - best[i]
				}
			}
			if sum > gain {
				top, gain = j, sum
			}
		}
		if top < 0 {
			return
		}
		for i, v := range fits[top] {
			if v > best[i] {
				best[i], chosen[members[i]] = v, ids[top]
			}
		}
	}
}

type grower struct {
	samples []sample
	labels  int
	tries   int
	rnd     *rand.Rand
	nodes   []node
}

const coarseKinds = 16

// grow writes the tree of some samples in preorder.
func (g *grower) grow(index []int32) {
	first := g.samples[index[0]].label
	pure := !slices.ContainsFunc(index, func(i int32) bool { return g.samples[i].label != first })
	if pure {
		g.nodes = append(g.nodes, node{feature: -1, at: int64(first)})
		return
	}
	feature, at := g.question(index)
	if feature < 0 {
		g.nodes = append(g.nodes, node{feature: -1, at: int64(g.majority(index))})
		return
	}
	split := 0
	for i, s := range index {
		if g.samples[s].v[feature] <= at {
			index[i], index[split] = index[split], s
			split++
		}
	}
	g.nodes = append(g.nodes, node{feature: int16(feature), at: at})
	g.grow(index[:split])
	g.grow(index[split:])
}

func (g *grower) majority(index []int32) int {
	count := make([]int, g.labels)
	for _, i := range index {
		count[g.samples[i].label]++
	}
	return slices.Index(count, slices.Max(count))
}

// question is the best of some random ones.
func (g *grower) question(index []int32) (feature int, at int64) {
	feature = -1
	var best float64
	whole := g.histogram(index, func(*sample) bool { return true })
	for range g.tries {
		f := g.rnd.IntN(featureCount)
		v := g.samples[index[g.rnd.IntN(len(index))]].v[f]
		left := g.histogram(index, func(s *sample) bool { return s.v[f] <= v })
		n := left[len(left)-1]
		if n == 0 || n == len(index) {
			continue
		}
		if score := g.purity(left, n) + g.purityRest(whole, left, len(index)-n); score > best {
			best, feature, at = score, f, v
		}
	}
	if feature < 0 {
		return g.anyQuestion(index)
	}
	return feature, at
}

// anyQuestion is asked where random ones separated nothing: the first feature in which two samples differ.
func (g *grower) anyQuestion(index []int32) (int, int64) {
	one := &g.samples[index[0]].v
	for _, i := range index[1:] {
		for f, v := range g.samples[i].v {
			if v != one[f] {
				return f, min(v, one[f])
			}
		}
	}
	return -1, 0
}

// histogram counts labels, coarse kinds, and all of the samples that are asked for.
func (g *grower) histogram(index []int32, in func(*sample) bool) []int {
	h := make([]int, g.labels+coarseKinds+1)
	for _, i := range index {
		if s := &g.samples[i]; in(s) {
			h[s.label]++
			h[g.labels+s.coarse]++
			h[len(h)-1]++
		}
	}
	return h
}

// purity is the Gini purity of labels and of coarse kinds, weighed by the number of samples.
func (g *grower) purity(h []int, n int) float64 {
	sum := 0
	for _, c := range h[:len(h)-1] {
		sum += c * c
	}
	return float64(sum) / float64(n)
}

func (g *grower) purityRest(whole, left []int, n int) float64 {
	sum := 0
	for i, c := range whole[:len(whole)-1] {
		sum += (c - left[i]) * (c - left[i])
	}
	return float64(sum) / float64(n)
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
