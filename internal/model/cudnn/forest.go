package cudnn

import (
	"slices"
	"sync"
)

// Table is what was measured on cards of one compute capability with one cuDNN. Its trees are read where they lie, bit by bit: unpacking them took longer than the rest of a prediction.
type Table struct {
	Card    Card // of it the capability, the multiprocessors and the version of cuDNN
	data    []byte
	at      [featureCount][]int64 // what the nodes of all forests compare each feature with, ascending
	whole   [featureCount]span    // all of them
	forests [modes][passes]forest
	seen    *seen // layers that cuDNN was asked about; nil: none are remembered

	lock  sync.Mutex
	known map[asked]Need
}

// A forest is, for one pass, trees that were each grown on the measurements: every inner node asks about one feature, every leaf names a formula.
type forest struct {
	labels                  []int // formulas by label
	features, leaves, skips prefixCode
	data                    []byte
	starts                  []int // of the trees, in bits
}

// all are the forests in the order of the format.
func (t *Table) all() []*forest {
	var out []*forest
	for m := range t.forests {
		for p := range t.forests[m] {
			out = append(out, &t.forests[m][p])
		}
	}
	return out
}

// leaf is the formula a tree names. Whatever the bits are, every round takes at least one of them.
func (t *Table) leaf(f *forest, tree int, v *[featureCount]int64) int {
	r := bitReader{data: f.data, at: f.starts[tree]}
	ranges := t.whole
	for left := false; !r.over(); {
		if r.take(1) == leafBit {
			return f.labels[f.leaves.read(&r)]
		}
		if left {
			f.skip(&r)
		}
		// What is left of a node is short: its feature and its threshold come from one look at the bits.
		next := r.peek()
		word := f.features.short[next>>(64-shortWord)]
		feature, used := int(word.symbol), int(word.length)
		if used == 0 {
			from := r.at
			feature = f.features.read(&r)
			used, r.at = r.at-from, from
		}
		open := &ranges[feature]
		if open.from >= open.to {
			break
		}
		wide := width(open.to - open.from)
		i := min(open.from+int32(next<<used>>(64-wide)), open.to-1)
		r.at += used + wide
		if left = v[feature] <= t.at[feature][i]; left {
			open.to = i
			continue
		}
		open.from = i + 1
		if r.take(1) == leafBit {
			f.leaves.read(&r)
		} else {
			r.at += f.skip(&r)
		}
	}
	return f.labels[0]
}

// span are the thresholds of a feature that a node may still ask about: those its ancestors left open.
type span struct{ from, to int32 }

func spans(at *[featureCount][]int64) (all [featureCount]span) {
	for f := range all {
		all[f].to = int32(len(at[f]))
	}
	return all
}

// skip is the length of a left branch without its first bit and this number: the bits of a length, then the length without its highest bit.
func (f *forest) skip(r *bitReader) int {
	n := f.skips.read(r)
	if n == 0 {
		return 0
	}
	return 1<<(n-1) | int(r.take(n-1))
}

// answer is the workspace most trees agree on, and the smallest and largest that more than a twentieth of them name. Of two that as many agree on it is
// the larger: always taking the smaller made the sum over many passes too small.
func (t *Table) answer(f *forest, v *[featureCount]int64, own *terms) (takes, low, high int64, sure float64) {
	var space [maxTrees]int64
	said := space[:len(f.starts)]
	for i := range said {
		said[i] = own.value(t.leaf(f, i, v))
	}
	slices.Sort(said)
	most := 0
	for i, a := range said {
		if i > 0 && a == said[i-1] {
			continue
		}
		near, exact := 0, 0
		for _, b := range said {
			if close(a, b) {
				near++
			}
			if a == b {
				exact++
			}
		}
		if votes := near*len(said) + exact; votes >= most {
			most, takes, sure = votes, a, float64(near)/float64(len(said))
		}
	}
	if sure < 0.25 { // no answer stands out: what is taken on average
		takes = 0
		for _, a := range said {
			takes += a / int64(len(said))
		}
	}
	odd := len(said) / 20 // voices that count as lone
	return takes, min(takes, said[odd]), max(takes, said[len(said)-1-odd]), sure
}

// close tells whether a workspace is another one within 1 % or 512 KiB.
func close(a, b int64) bool { return max(a-b, b-a) <= max(a/100, 1<<19) }
