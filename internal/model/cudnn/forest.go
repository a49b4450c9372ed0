package cudnn

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A forest is, for one pass, trees that were each grown on the measurements: every inner node asks about one feature, every leaf names a formula.
type forest struct {
	labels []int // formulas by label
	trees  [][]node
}

// node is inner where feature is not negative: features[feature] <= at goes to the next node, else to right. A leaf holds its label in at.
type node struct {
	feature int16
	right   int32
	at      int64
}

func (f *forest) leaf(tree int, v *[featureCount]int64) int {
	nodes := f.trees[tree]
	for i := int32(0); ; {
		n := &nodes[i]
		switch {
		case n.feature < 0:
			return f.labels[n.at]
		case v[n.feature] <= n.at:
			i++
		default:
			i = n.right
		}
	}
}

// answer is the workspace most trees agree on, within 1 % or 512 KiB, and the smallest and largest that more than a twentieth of them name. Of two that as many
// agree on it is the larger: always taking the smaller made the sum over many passes too small.
func (f *forest) answer(v *[featureCount]int64, t *terms) (takes, low, high int64, sure float64) {
	said := make([]int64, len(f.trees))
	for i := range f.trees {
		said[i] = t.value(f.leaf(i, v))
	}
	slices.Sort(said)
	most := 0
	for i, a := range said {
		if i > 0 && a == said[i-1] {
			continue
		}
		near, exact := 0, 0
		for _, b := range said {
			if max(a-b, b-a) <= max(a/100, 1<<19) {
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

// Table is what was measured on cards of one compute capability with one cuDNN.
type Table struct {
	Card    Card // of it the capability, the multiprocessors and the version of cuDNN
	forests [modes][passes]forest
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

var errTable = errors.New("not a table of workspaces")

const magic = "plimsoll cudnn 5\n"

// thresholds are what the nodes of all forests compare each feature with, ascending.
func (t *Table) thresholds() (at [featureCount][]int64) {
	for _, f := range t.all() {
		for _, nodes := range f.trees {
			for _, n := range nodes {
				if n.feature >= 0 {
					at[n.feature] = append(at[n.feature], n.at)
				}
			}
		}
	}
	for i := range at {
		slices.Sort(at[i])
		at[i] = slices.Compact(at[i])
	}
	return at
}

// Encode writes the table: the card, thresholds, labels and sizes of trees; then the feature of every node, then feature by feature the numbers of the thresholds of its nodes,
// then the labels of leaves, for what is alike compresses best side by side.
func (t *Table) Encode() []byte {
	var head, kinds, leaves []byte
	var numbers [featureCount][]byte
	for _, n := range []int{t.Card.SMs, t.Card.Capability[0], t.Card.Capability[1], t.Card.CuDNN} {
		head = binary.AppendUvarint(head, uint64(n))
	}
	at := t.thresholds()
	for _, values := range at {
		head = binary.AppendUvarint(head, uint64(len(values)))
		last := int64(0)
		for _, v := range values {
			head = binary.AppendVarint(head, v-last)
			last = v
		}
	}
	for _, f := range t.all() {
		head = binary.AppendUvarint(head, uint64(len(f.labels)))
		for _, l := range f.labels {
			head = binary.AppendUvarint(head, uint64(l))
		}
		head = binary.AppendUvarint(head, uint64(len(f.trees)))
		for _, nodes := range f.trees {
			head = binary.AppendUvarint(head, uint64(len(nodes)))
			for _, n := range nodes {
				kinds = append(kinds, byte(n.feature+1))
				if n.feature < 0 {
					leaves = binary.AppendUvarint(leaves, uint64(n.at))
					continue
				}
				i, _ := slices.BinarySearch(at[n.feature], n.at)
				numbers[n.feature] = binary.AppendUvarint(numbers[n.feature], uint64(i))
			}
		}
	}
	out := bytes.NewBufferString(magic)
	w, _ := flate.NewWriter(out, flate.BestCompression)
	_, _ = w.Write(head)
	_, _ = w.Write(kinds)
	for _, part := range numbers {
		_, _ = w.Write(binary.AppendUvarint(nil, uint64(len(part))))
		_, _ = w.Write(part)
	}
	_, _ = w.Write(leaves)
	_ = w.Close()
	return out.Bytes()
}

// limits of a table that is read: far above what measurements of a day grow.
const (
	maxTable = 64 << 20
	maxTrees = 256
	maxNodes = 1 << 20
)

// Decode reads a table that Encode wrote; anything else is refused.
func Decode(data []byte) (*Table, error) {
	body, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return nil, errTable
	}
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(body)), maxTable))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTable, err)
	}
	r := reader{Reader: *bytes.NewReader(raw)}
	t := &Table{Card: Card{SMs: r.count(1 << 16), Capability: [2]int{r.count(1 << 8), r.count(1 << 8)}, CuDNN: r.count(1 << 30)}}
	at := r.thresholds()
	for _, f := range t.all() {
		*f = r.forest()
	}
	r.nodes(t, &at)
	if r.err != nil || t.Card.SMs < 1 || slices.ContainsFunc(t.forests[Heuristic][:], func(f forest) bool { return len(f.trees) == 0 }) {
		return nil, errTable
	}
	return t, nil
}

type reader struct {
	bytes.Reader
	total int // nodes there is room for
	err   error
}

func (r *reader) count(limit uint64) int {
	n, err := binary.ReadUvarint(&r.Reader)
	if err != nil || n > limit {
		r.err = errTable
		return 0
	}
	return int(n)
}

func (r *reader) thresholds() (at [featureCount][]int64) {
	for i := range at {
		last := int64(0)
		for range min(r.count(maxNodes), r.Len()) {
			step, err := binary.ReadVarint(&r.Reader)
			if err != nil {
				r.err = errTable
			}
			last += step
			at[i] = append(at[i], last)
		}
	}
	return at
}

// forest reads the labels of a forest and makes room for its nodes.
func (r *reader) forest() forest {
	var f forest
	for range r.count(uint64(formulas)) {
		f.labels = append(f.labels, r.count(uint64(formulas)-1))
	}
	for range r.count(maxTrees) {
		n := r.count(maxNodes)
		if r.total += n; r.total > r.Len() { // a node takes a byte or more
			r.err = errTable
			return f
		}
		f.trees = append(f.trees, make([]node, n))
	}
	if (len(f.trees) == 0) != (len(f.labels) == 0) {
		r.err = errTable
	}
	return f
}

// nodes reads what the nodes of all forests are: first every feature, then the thresholds of each feature, then every leaf.
func (r *reader) nodes(t *Table, at *[featureCount][]int64) {
	each := func(read func(f *forest, n *node)) {
		for _, f := range t.all() {
			for _, nodes := range f.trees {
				for i := range nodes {
					if r.err == nil {
						read(f, &nodes[i])
					}
				}
			}
		}
	}
	each(func(_ *forest, n *node) { n.feature = int16(r.count(featureCount)) - 1 })
	var numbers [featureCount]reader
	for f := range numbers {
		part := make([]byte, min(r.count(maxTable), r.Len()))
		_, _ = r.Read(part)
		numbers[f].Reset(part)
	}
	each(func(_ *forest, n *node) {
		if n.feature < 0 {
			return
		}
		values, from := at[n.feature], &numbers[n.feature]
		if len(values) == 0 {
			r.err = errTable
			return
		}
		n.at, r.err = values[from.count(uint64(len(values)-1))], from.err
	})
	each(func(f *forest, n *node) {
		if n.feature < 0 {
			n.at = int64(r.count(uint64(len(f.labels) - 1)))
		}
	})
	for _, f := range t.all() {
		if slices.ContainsFunc(f.trees, func(nodes []node) bool { return r.err == nil && !link(nodes) }) {
			r.err = errTable
		}
	}
}

// link finds where the right branch of every inner node begins: nodes stand in preorder. It tells whether they are exactly one tree.
func link(nodes []node) bool {
	var open []int // inner nodes whose right branch has not begun
	for i := range nodes {
		if nodes[i].feature >= 0 {
			open = append(open, i)
			continue
		}
		if len(open) == 0 {
			return i == len(nodes)-1
		}
		last := open[len(open)-1]
		open = open[:len(open)-1]
		nodes[last].right = int32(i + 1)
	}
	return false
}
