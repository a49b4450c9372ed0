package workspace

import (
	"encoding/binary"

	"github.com/plimsoll/plimsoll/internal/code/flow"
)

// What files offer is written as flags, numbers and texts with their lengths: it is read again in every run, and equal facts give equal bytes.

// maxNested bounds the parts of parts of a value.
const maxNested = 16

// The parts of a value that are written only where there is something to say.
const (
	hasRoots = 1 << (iota + 10)
	hasItems
	hasKeys
	hasClass
	hasWrap
	hasNum
	hasFrom
)

// flags are the yes and no of a value, in the order of their bits.
func flags(v *flow.Value) [10]*bool {
	return [10]*bool{&v.HasNum, &v.Guess, &v.OnCPU, &v.OnGPU, &v.Reduced, &v.Divided, &v.Freed, &v.Double, &v.Grad, &v.Trained}
}

func packFlags(list ...*bool) uint64 {
	bits := uint64(0)
	for i, flag := range list {
		if *flag {
			bits |= 1 << i
		}
	}
	return bits
}

func readFlags(bits int, list ...*bool) {
	for i, flag := range list {
		*flag = bits&(1<<i) != 0
	}
}

func packValue(out []byte, v flow.Value, depth int) []byte {
	set := flags(&v)
	bits := packFlags(set[:]...)
	items := v.Items
	if depth > maxNested {
		items, v.Keys = nil, nil
	}
	for _, part := range []struct {
		there bool
		bit   uint64
	}{{len(v.Roots) > 0, hasRoots}, {len(items) > 0, hasItems}, {len(v.Keys) > 0, hasKeys}, {v.Class != "", hasClass}, {v.Wrap != "", hasWrap}, {v.Num != 0, hasNum}, {v.From != 0, hasFrom}} {
		if part.there {
			bits |= part.bit
		}
	}
	out = append(binary.AppendUvarint(out, bits), byte(v.Kind))
	if bits&hasRoots != 0 {
		out = packNumbers(out, v.Roots)
	}
	if bits&hasItems != 0 {
		out = binary.AppendUvarint(out, uint64(len(items)))
		for _, item := range items {
			out = packValue(out, item, depth+1)
		}
	}
	if bits&hasKeys != 0 {
		out = packTexts(out, v.Keys)
	}
	if bits&hasClass != 0 {
		out = packText(out, v.Class)
	}
	if bits&hasWrap != 0 {
		out = packText(out, v.Wrap)
	}
	if bits&hasNum != 0 {
		out = binary.AppendVarint(out, v.Num)
	}
	if bits&hasFrom != 0 {
		out = binary.AppendUvarint(out, uint64(v.From))
	}
	return out
}

func (r *reader) value(depth int) (v flow.Value) {
	bits := r.number()
	set := flags(&v)
	readFlags(bits, set[:]...)
	v.Kind = flow.Kind(r.byte())
	if bits&hasRoots != 0 {
		v.Roots = r.numbers()
	}
	if bits&hasItems != 0 {
		n := r.count()
		if depth > maxNested {
			r.fail()
			return flow.Value{}
		}
		v.Items = make([]flow.Value, 0, n)
		for range n {
			v.Items = append(v.Items, r.value(depth+1))
		}
	}
	if bits&hasKeys != 0 {
		v.Keys = r.texts()
	}
	if bits&hasClass != 0 {
		v.Class = r.text()
	}
	if bits&hasWrap != 0 {
		v.Wrap = r.text()
	}
	if bits&hasNum != 0 {
		v.Num = r.signed()
	}
	if bits&hasFrom != 0 {
		v.From = uint32(r.number())
	}
	return v
}

func packFunction(out []byte, f *flow.FunctionFacts) []byte {
	out = packTexts(packText(out, f.ID), f.Params)
	out = packValue(out, f.Return, 0)
	out = binary.AppendUvarint(out, packFlags(&f.NoGrad, &f.Backward, &f.ZeroGrad, &f.Step, &f.Runs, &f.Guarded, &f.Grads, &f.Moves))
	out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(f.Backs)), uint64(len(f.Keeps)))
	for _, k := range f.Keeps {
		out = binary.AppendUvarint(append(packText(out, k.Into), byte(k.Kind)), uint64(k.From))
	}
	return out
}

func (r *reader) function() *flow.FunctionFacts {
	f := &flow.FunctionFacts{ID: r.text(), Params: r.texts(), Return: r.value(0)}
	readFlags(r.number(), &f.NoGrad, &f.Backward, &f.ZeroGrad, &f.Step, &f.Runs, &f.Guarded, &f.Grads, &f.Moves)
	f.Backs = uint32(r.number())
	for range r.count() {
		f.Keeps = append(f.Keeps, flow.Keep{Into: r.text(), Kind: flow.StoreKind(r.byte()), From: uint32(r.number())})
	}
	return f
}

// packKind is what a class is, without its methods and attributes.
func packKind(out []byte, c *flow.ClassFacts) []byte {
	out = binary.AppendUvarint(out, packFlags(&c.Module, &c.Dataset, &c.Lightning, &c.Bare, &c.Frozen, &c.Passive))
	return packTexts(packTexts(packTexts(out, c.Bases), c.Foreign), c.FrozenParts)
}

func (r *reader) kind() *flow.ClassFacts {
	c := &flow.ClassFacts{Methods: map[string]*flow.FunctionFacts{}, Attrs: map[string]flow.Value{}}
	readFlags(r.number(), &c.Module, &c.Dataset, &c.Lightning, &c.Bare, &c.Frozen, &c.Passive)
	c.Bases, c.Foreign, c.FrozenParts = r.texts(), r.texts(), r.texts()
	return c
}

func packText(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

func packTexts(out []byte, texts []string) []byte {
	out = binary.AppendUvarint(out, uint64(len(texts)))
	for _, t := range texts {
		out = packText(out, t)
	}
	return out
}

func packNumbers(out []byte, list []int) []byte {
	out = binary.AppendUvarint(out, uint64(len(list)))
	for _, n := range list {
		out = binary.AppendUvarint(out, uint64(n))
	}
	return out
}

// reader reads what was packed.
type reader struct {
	rest string // texts that are read are parts of it
	bad  bool
}

func (r *reader) fail() {
	r.bad, r.rest = true, ""
}

// uvarint is binary.Uvarint for a string.
func (r *reader) uvarint() uint64 {
	n := uint64(0)
	for i := range min(len(r.rest), binary.MaxVarintLen64) {
		c := r.rest[i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.rest = r.rest[i+1:]
			return n
		}
	}
	r.fail()
	return 0
}

func (r *reader) number() int {
	n := r.uvarint()
	if n > 1<<32 {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) signed() int64 {
	n := r.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

func (r *reader) byte() byte {
	if r.rest == "" {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// count reads how many things follow; each takes at least a byte.
func (r *reader) count() int {
	n := r.number()
	if n > len(r.rest) {
		r.fail()
		return 0
	}
	return n
}

// eight reads a number that takes eight bytes.
func (r *reader) eight() uint64 {
	if len(r.rest) < 8 {
		r.fail()
		return 0
	}
	n := binary.BigEndian.Uint64([]byte(r.rest[:8]))
	r.rest = r.rest[8:]
	return n
}

// of reads the number of a text in a list.
func (r *reader) of(list []string) string {
	n := r.number()
	if n >= len(list) {
		r.fail()
		return ""
	}
	return list[n]
}

func (r *reader) numbers() []int {
	n := r.count()
	if n == 0 {
		return nil
	}
	out := make([]int, 0, n)
	for range n {
		out = append(out, r.number())
	}
	return out
}

func (r *reader) text() string {
	n := r.count()
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) texts() []string {
	n := r.count()
	if n == 0 {
		return nil
	}
	out := make([]string, 0, n)
	for range n {
		out = append(out, r.text())
	}
	return out
}
