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

// answer is the workspace most trees agree on, within 1 % or 512 KiB, and the smallest and largest that more than a twentieth of them name.
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
			if b-a <= max(a/100, 1<<19) && a-b <= max(a/100, 1<<19) {
				near++
			}
			if a == b {
				exact++
			}
		}
		if votes := near*len(said) + exact; votes > most {
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

const magic = "plimsoll cudnn 3\n"

// Encode writes the table.
func (t *Table) Encode() []byte {
	var raw []byte
	for _, n := range []int{t.Card.SMs, t.Card.Capability[0], t.Card.Capability[1], t.Card.CuDNN} {
		raw = binary.AppendUvarint(raw, uint64(n))
	}
	for _, f := range t.all() {
		raw = binary.AppendUvarint(raw, uint64(len(f.labels)))
		for _, l := range f.labels {
			raw = binary.AppendUvarint(raw, uint64(l))
		}
		raw = binary.AppendUvarint(raw, uint64(len(f.trees)))
		for _, nodes := range f.trees {
			raw = binary.AppendUvarint(raw, uint64(len(nodes)))
			for _, n := range nodes {
				raw = append(raw, byte(n.feature+1))
				raw = binary.AppendVarint(raw, n.at)
			}
		}
	}
	out := bytes.NewBufferString(magic)
	w, _ := flate.NewWriter(out, flate.BestCompression)
	_, _ = w.Write(raw)
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
	for _, f := range t.all() {
		*f = r.forest()
	}
	if r.err != nil || t.Card.SMs < 1 || slices.ContainsFunc(t.forests[Heuristic][:], func(f forest) bool { return len(f.trees) == 0 }) {
		return nil, errTable
	}
	return t, nil
}

type reader struct {
	bytes.Reader
	err error
}

func (r *reader) count(limit uint64) int {
	n, err := binary.ReadUvarint(&r.Reader)
	if err != nil || n > limit {
		r.err = errTable
		return 0
	}
	return int(n)
}

func (r *reader) forest() forest {
	var f forest
	for range r.count(uint64(formulas)) {
		f.labels = append(f.labels, r.count(uint64(formulas)-1))
	}
	for range r.count(maxTrees) {
		nodes := make([]node, 0, 1024)
		for range r.count(maxNodes) {
			kind, err := r.ReadByte()
			at, err2 := binary.ReadVarint(&r.Reader)
			leaf := kind == 0
			if err != nil || err2 != nil || int(kind) > featureCount || leaf && (at < 0 || at >= int64(len(f.labels))) {
				r.err = errTable
				return f
			}
			nodes = append(nodes, node{feature: int16(kind) - 1, at: at})
		}
		if r.err != nil || !link(nodes) {
			r.err = errTable
			return f
		}
		f.trees = append(f.trees, nodes)
	}
	if (len(f.trees) == 0) != (len(f.labels) == 0) {
		r.err = errTable
	}
	return f
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
