package cudnn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/bits"
	"slices"
)

// The format of a table: a line, the card, the thresholds of every feature, the forests, a checksum. A node is a bit that tells a leaf from an inner node. A leaf goes on with its
// label, an inner node that is a left branch with its length, so that a reader can pass over it; then the feature, the threshold as its number among those that
// the nodes above left open, the left branch and the right one. Labels, features and the widths of lengths have prefix codes.

var errTable = errors.New("not a table of workspaces that this version reads")

const (
	magic   = "plimsoll cudnn 6\n"
	leafBit = 1
	skips   = 32 // widths of lengths
)

// limits of a table that is read: far above what measurements of a day grow.
const (
	maxTrees   = 256
	maxNumbers = 1 << 20 // thresholds of a feature
	maxBits    = 1 << 29
)

// node is inner where feature is not negative: features[feature] <= at goes to the next node, else behind the branch that begins there. A leaf holds its label in at.
type node struct {
	feature int16
	at      int64
}

// grown is a forest as it grows: trees in preorder.
type grown struct {
	labels []int
	trees  [][]node
}

// Encode is the table as Decode reads it.
func (t *Table) Encode() []byte { return t.data }

// pack writes a table.
func pack(card Card, all []*grown) []byte {
	out := []byte(magic)
	for _, n := range []int{card.SMs, card.Capability[0], card.Capability[1], card.CuDNN} {
		out = binary.AppendUvarint(out, uint64(n))
	}
	at := thresholds(all)
	for _, values := range at {
		out = binary.AppendUvarint(out, uint64(len(values)))
		last := int64(0)
		for _, v := range values {
			out = binary.AppendVarint(out, v-last)
			last = v
		}
	}
	for _, g := range all {
		out = g.pack(out, spans(&at), &at)
	}
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

func thresholds(all []*grown) (at [featureCount][]int64) {
	for _, g := range all {
		for _, nodes := range g.trees {
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

// packer writes the trees of a forest.
type packer struct {
	nodes                   []node // those that are not written yet
	at                      *[featureCount][]int64
	features, leaves, skips map[int]bitWriter // words
	widths                  [skips]int        // how often each came up
}

func (g *grown) pack(out []byte, ranges [featureCount]span, at *[featureCount][]int64) []byte {
	out = binary.AppendUvarint(out, uint64(len(g.labels)))
	for _, l := range g.labels {
		out = binary.AppendUvarint(out, uint64(l))
	}
	out = binary.AppendUvarint(out, uint64(len(g.trees)))
	if len(g.trees) == 0 {
		return out
	}
	features, leaves, widths := make([]int, featureCount), make([]int, len(g.labels)), [skips]int{}
	for _, n := range slices.Concat(g.trees...) {
		if n.feature < 0 {
			leaves[n.at]++
		} else {
			features[n.feature]++
		}
	}
	p := packer{at: at}
	var lengths []byte
	var trees []*bitWriter
	for range 2 { // first with any code for widths, to see which come up
		p.widths = [skips]int{}
		lengths = nil
		for i, counts := range [][]int{features, leaves, widths[:]} {
			if i == 2 {
				for w := range counts {
					counts[w]++ // a width may be another one with another code
				}
			}
			some := codeOf(counts)
			lengths = append(lengths, some...)
			c, _ := newCode(some)
			*[]*map[int]bitWriter{&p.features, &p.leaves, &p.skips}[i] = c.words()
		}
		trees = nil
		for _, nodes := range g.trees {
			p.nodes = nodes
			trees = append(trees, p.branch(ranges, false))
		}
		widths = p.widths
	}
	out = append(out, lengths...)
	var whole bitWriter
	for _, tree := range trees {
		out = binary.AppendUvarint(out, uint64(tree.n))
		whole.join(tree)
	}
	return append(binary.AppendUvarint(out, uint64(len(whole.data))), whole.data...)
}

// branch writes the next node and what is below it.
func (p *packer) branch(open [featureCount]span, left bool) *bitWriter {
	n := p.nodes[0]
	p.nodes = p.nodes[1:]
	out := &bitWriter{}
	if n.feature < 0 {
		out.put(leafBit, 1)
		word := p.leaves[int(n.at)]
		out.join(&word)
		return out
	}
	var body bitWriter
	word := p.features[int(n.feature)]
	body.join(&word)
	o := &open[n.feature]
	found, _ := slices.BinarySearch(p.at[n.feature], n.at)
	i := int32(found)
	if i < o.from || i >= o.to {
		panic("a node asks what the nodes above it have answered")
	}
	body.put(uint64(i-o.from), width(o.to-o.from))
	was := *o
	o.to = i
	body.join(p.branch(open, true))
	*o = span{i + 1, was.to}
	body.join(p.branch(open, false))
	out.put(1-leafBit, 1)
	if left {
		w := bits.Len(uint(body.n))
		p.widths[w]++
		word := p.skips[w]
		out.join(&word)
		out.put(uint64(body.n)&(1<<(w-1)-1), w-1)
	}
	out.join(&body)
	return out
}

// Decode reads a table that Encode gave; anything else is refused.
func Decode(data []byte) (*Table, error) {
	body, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(body) < 4 || crc32.ChecksumIEEE(data[:len(data)-4]) != binary.BigEndian.Uint32(data[len(data)-4:]) {
		return nil, errTable
	}
	r := reader{data: body[:len(body)-4]}
	t := &Table{data: data, Card: Card{SMs: r.count(1 << 16), Capability: [2]int{r.count(1 << 8), r.count(1 << 8)}, CuDNN: r.count(1 << 30)}}
	for i := range t.at {
		t.at[i] = r.thresholds()
	}
	t.whole = spans(&t.at)
	for _, f := range t.all() {
		*f = r.forest()
	}
	if r.bad || len(r.data) > 0 || t.Card.SMs < 1 || slices.ContainsFunc(t.forests[Heuristic][:], func(f forest) bool { return len(f.starts) == 0 }) {
		return nil, errTable
	}
	return t, nil
}

// reader takes numbers from the front of a table.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) count(limit uint64) int {
	n, size := binary.Uvarint(r.data)
	if size <= 0 || n > limit {
		r.bad, r.data = true, nil
		return 0
	}
	r.data = r.data[size:]
	return int(n)
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.data) {
		r.bad, r.data = true, nil
		return nil
	}
	some := r.data[:n]
	r.data = r.data[n:]
	return some
}

func (r *reader) thresholds() []int64 {
	out := make([]int64, min(r.count(maxNumbers), len(r.data)))
	last := int64(0)
	for i := range out {
		step, size := binary.Varint(r.data)
		if size <= 0 {
			r.bad = true
			return out
		}
		r.data = r.data[size:]
		last += step
		out[i] = last
	}
	return out
}

func (r *reader) forest() forest {
	var f forest
	for range r.count(uint64(formulas)) {
		f.labels = append(f.labels, r.count(uint64(formulas)-1))
	}
	trees := r.count(maxTrees)
	if (trees == 0) != (len(f.labels) == 0) || len(f.labels) > 1<<16 {
		r.bad = true
	}
	if r.bad || trees == 0 {
		return forest{}
	}
	var fine [3]bool
	f.features, fine[0] = newCode(r.bytes(featureCount))
	f.leaves, fine[1] = newCode(r.bytes(len(f.labels)))
	f.skips, fine[2] = newCode(r.bytes(skips))
	at := 0
	for range trees {
		f.starts = append(f.starts, at)
		at += r.count(maxBits)
	}
	f.data = r.bytes(r.count(maxBits))
	r.bad = r.bad || fine != [3]bool{true, true, true} || at > 8*len(f.data)
	return f
}
