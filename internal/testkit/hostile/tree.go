package hostile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// node is one value of a document. The same node may stand in several places: written as JSON it is repeated, in a pickle it is shared.
type node struct {
	scalar string   // the text of a value that is neither list nor object
	keys   []string // of an object
	items  []*node  // of a list or an object
	list   bool
}

func (n *node) object() bool { return n.keys != nil }

// Document is a valid JSON document to make mutants of.
type Document struct{ text []byte }

// New takes a valid document; it panics on one that is not, which is a mistake in a test.
func New(text []byte) *Document {
	if !json.Valid(text) {
		panic("hostile: the document to begin with is no JSON")
	}
	return &Document{text}
}

// maxWritten bounds a mutant.
const maxWritten = 1 << 20

// JSON is a mutant of the document.
func (d *Document) JSON(c Choices) []byte {
	var b bytes.Buffer
	d.mutant(c).writeJSON(&b, 0)
	return b.Bytes()
}

// Pickle is a mutant of the document as a pickle of protocol 4, in which shared values are references.
func (d *Document) Pickle(c Choices) []byte {
	w := &pickler{memo: map[*node]int{}}
	w.WriteString("\x80\x04")
	w.write(d.mutant(c), 0)
	w.WriteByte('.')
	return w.Bytes()
}

// Pickled is the document itself as a pickle.
func (d *Document) Pickled() []byte { return d.Pickle(nothing{}) }

type nothing struct{}

func (nothing) Below(int) int { return 0 }

// mutant changes a copy of the tree in one to eight places.
func (d *Document) mutant(c Choices) *node {
	decoder := json.NewDecoder(bytes.NewReader(d.text))
	decoder.UseNumber()
	root := read(decoder)
	if _, same := c.(nothing); same {
		return root
	}
	m := mutation{c: c, root: root}
	for range 1 + c.Below(8) {
		m.change()
	}
	return m.root
}

func read(d *json.Decoder) *node {
	token, err := d.Token()
	if err != nil {
		panic(err)
	}
	switch v := token.(type) {
	case json.Delim:
		n := &node{list: v == '['}
		if !n.list {
			n.keys = []string{}
		}
		for d.More() {
			if !n.list {
				key, _ := d.Token()
				n.keys = append(n.keys, key.(string))
			}
			n.items = append(n.items, read(d))
		}
		d.Token()
		return n
	case string:
		return &node{scalar: quote(v)}
	case nil:
		return &node{scalar: "null"}
	default:
		return &node{scalar: fmt.Sprint(v)}
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s) // broken UTF-8 becomes U+FFFD, as in any JSON
	return string(b)
}

type mutation struct {
	c    Choices
	root *node
}

// places lists every node that has a parent, with it. A shared node is listed wherever it stands; the list is bounded.
func (m *mutation) places() (out []place) {
	var walk func(n *node, depth int)
	walk = func(n *node, depth int) {
		for i, item := range n.items {
			if len(out) > 4096 || depth > 64 {
				return
			}
			out = append(out, place{n, i})
			walk(item, depth+1)
		}
	}
	walk(m.root, 0)
	return out
}

type place struct {
	parent *node
	at     int
}

func (p place) node() *node { return p.parent.items[p.at] }

// change makes one mutation somewhere.
func (m *mutation) change() {
	all := m.places()
	if len(all) == 0 {
		return
	}
	p := all[m.c.Below(len(all))]
	n := p.node()
	switch m.c.Below(12) {
	case 0, 1:
		p.parent.items[p.at] = &node{scalar: Numbers[m.c.Below(len(Numbers))]}
	case 2:
		p.parent.remove(p.at)
	case 3: // another type
		p.parent.items[p.at] = []*node{{scalar: "null"}, {scalar: "true"}, {scalar: `""`}, {list: true}, {keys: []string{}}, {scalar: "-1"}, {scalar: "1.125"}}[m.c.Below(7)]
	case 4: // a reference to something else, shared
		if other := all[m.c.Below(len(all))].node(); !other.has(n, 0) && !other.has(p.parent, 0) {
			p.parent.items[p.at] = other
		}
	case 5: // the same thing again
		if p.parent.list {
			p.parent.items = slices.Insert(p.parent.items, p.at, repeatNode(n, 1+m.c.Below(30))...)
		}
	case 6: // another order
		if other := m.c.Below(len(p.parent.items)); p.parent.list {
			p.parent.items[p.at], p.parent.items[other] = p.parent.items[other], p.parent.items[p.at]
		} else {
			slices.Reverse(p.parent.items)
		}
	case 7: // another name
		if p.parent.object() {
			p.parent.keys[p.at] = m.key(all)
		}
	case 8: // one more field, which may be there already
		if n.object() {
			n.keys, n.items = append(n.keys, m.key(all)), append(n.items, all[m.c.Below(len(all))].leaf())
		}
	case 9:
		p.parent.items[p.at] = &node{scalar: quote(Words[m.c.Below(len(Words))])}
	case 10: // deeper
		for range 1 + m.c.Below(200) {
			n = &node{list: true, items: []*node{n}}
		}
		p.parent.items[p.at] = n
	case 11: // a number, a little off
		if v, err := strconv.ParseInt(n.scalar, 10, 64); err == nil {
			v = []int64{v + 1, v - 1, v * 2, -v, v / 2, v << 20, v + 512, 0}[m.c.Below(8)]
			p.parent.items[p.at] = &node{scalar: strconv.FormatInt(v, 10)}
		}
	}
}

// key is a name from somewhere in the document, or one that is nowhere.
func (m *mutation) key(all []place) string {
	from := all[m.c.Below(len(all))].parent
	if len(from.keys) == 0 {
		return Words[m.c.Below(len(Words))]
	}
	return from.keys[m.c.Below(len(from.keys))]
}

// leaf is the node, or a number in the place of one that could hold everything.
func (p place) leaf() *node {
	if n := p.node(); len(n.items) == 0 {
		return n
	}
	return &node{scalar: "7"}
}

func (n *node) remove(at int) {
	n.items = slices.Delete(slices.Clone(n.items), at, at+1)
	if n.object() {
		n.keys = slices.Delete(slices.Clone(n.keys), at, at+1)
	}
}

// has tells whether another node is this one or below it.
func (n *node) has(other *node, depth int) bool {
	if n == other || depth > 64 {
		return true
	}
	return slices.ContainsFunc(n.items, func(item *node) bool { return item.has(other, depth+1) })
}

func repeatNode(n *node, times int) []*node {
	out := make([]*node, times)
	for i := range out {
		out[i] = n
	}
	return out
}

func (n *node) writeJSON(b *bytes.Buffer, depth int) {
	switch {
	case b.Len() > maxWritten || depth > 1000:
		b.WriteString("null")
	case n.list:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.writeJSON(b, depth+1)
		}
		b.WriteByte(']')
	case n.object():
		b.WriteByte('{')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quote(n.keys[i]))
			b.WriteByte(':')
			item.writeJSON(b, depth+1)
		}
		b.WriteByte('}')
	default:
		b.WriteString(n.scalar)
	}
}

// pickler writes protocol 4 with memoized containers.
type pickler struct {
	bytes.Buffer
	memo map[*node]int
}

func (w *pickler) write(n *node, depth int) {
	if w.Len() > maxWritten || depth > 1000 {
		w.WriteByte('N')
		return
	}
	if at, seen := w.memo[n]; seen {
		w.WriteByte('j')
		w.Write(binary.LittleEndian.AppendUint32(nil, uint32(at)))
		return
	}
	switch {
	case n.list || n.object():
		w.memo[n] = len(w.memo)
		w.WriteString(map[bool]string{true: "]\x94", false: "}\x94"}[n.list])
		if len(n.items) == 0 {
			return
		}
		w.WriteByte('(')
		for i, item := range n.items {
			if n.object() {
				w.text(n.keys[i])
			}
			w.write(item, depth+1)
		}
		w.WriteByte(map[bool]byte{true: 'e', false: 'u'}[n.list])
	default:
		w.value(n.scalar)
	}
}

func (w *pickler) value(scalar string) {
	var text string
	switch {
	case scalar == "null":
		w.WriteByte('N')
	case scalar == "true":
		w.WriteByte('\x88')
	case scalar == "false":
		w.WriteByte('\x89')
	case json.Unmarshal([]byte(scalar), &text) == nil:
		w.text(text)
	case strings.ContainsAny(scalar, ".eE"):
		v, _ := strconv.ParseFloat(scalar, 64)
		w.WriteByte('G')
		w.Write(binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
	default:
		w.number(scalar)
	}
}

// number writes a whole number of any size: LONG1, little-endian, two's complement.
func (w *pickler) number(scalar string) {
	v, ok := new(big.Int).SetString(scalar, 10)
	if !ok {
		v = new(big.Int)
	}
	const width = 9 // bytes; more than any of Numbers needs
	if v.Sign() < 0 {
		v.Add(v, new(big.Int).Lsh(big.NewInt(1), 8*width))
	}
	digits := v.FillBytes(make([]byte, width))
	slices.Reverse(digits)
	w.WriteString("\x8a\x09")
	w.Write(digits)
}

func (w *pickler) text(s string) {
	w.WriteByte('X')
	w.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
	w.WriteString(s)
}
