package workspace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/internal/code/flow"
)

// pool holds what files offer to each other, every part once. A class offers the methods of its bases too, and a file what it imports: written out
// for each file, the same facts would be written thousands of times. Parts are numbered; a file's offer is a list of numbers.
type pool struct {
	Names     []string
	Functions [][]byte // flow.FunctionFacts as JSON
	Values    [][]byte // flow.Value as JSON
	Classes   [][]byte // class, packed

	index     *poolIndex // made when something is added
	functions map[int]*flow.FunctionFacts
	classes   map[int]*flow.ClassFacts
}

// poolIndex finds the number of a part. What is shared in memory is found by its address.
type poolIndex struct {
	names, functions, values, classes map[string]int
	shared                            map[*flow.FunctionFacts]int
	sharedClass                       map[*flow.ClassFacts]int
	sums                              map[int]sum // of classes
}

// class is flow.ClassFacts with numbers for its parts.
type class struct {
	Flags   []bool
	Bases   []string
	Foreign []string
	Methods []int // a name, a function, a name, …
	Attrs   []int // a name, a value, …
}

func newPool() pool {
	return pool{functions: map[int]*flow.FunctionFacts{}, classes: map[int]*flow.ClassFacts{}}
}

var errPool = errors.New("a number that is not in the pool")

// indexed makes the index.
func (p *pool) indexed() *poolIndex {
	if p.index == nil {
		p.index = &poolIndex{shared: map[*flow.FunctionFacts]int{}, sharedClass: map[*flow.ClassFacts]int{}, sums: map[int]sum{}, names: map[string]int{}}
		for i, name := range p.Names {
			p.index.names[name] = i
		}
		p.index.functions, p.index.values, p.index.classes = numbers(p.Functions), numbers(p.Values), numbers(p.Classes)
	}
	return p.index
}

func numbers(parts [][]byte) map[string]int {
	out := make(map[string]int, len(parts))
	for i, part := range parts {
		out[string(part)] = i
	}
	return out
}

// number gives a part its number.
func number(parts *[][]byte, known map[string]int, part []byte) int {
	n, ok := known[string(part)]
	if !ok {
		n = len(*parts)
		*parts = append(*parts, part)
		known[string(part)] = n
	}
	return n
}

func (p *pool) name(name string) int {
	in := p.indexed()
	n, ok := in.names[name]
	if !ok {
		n = len(p.Names)
		p.Names = append(p.Names, name)
		in.names[name] = n
	}
	return n
}

func (p *pool) function(f *flow.FunctionFacts) (int, error) {
	in := p.indexed()
	if n, ok := in.shared[f]; ok {
		return n, nil
	}
	text, err := json.Marshal(f)
	if err != nil {
		return 0, err
	}
	n := number(&p.Functions, in.functions, text)
	in.shared[f] = n
	return n, nil
}

func (p *pool) class(c *flow.ClassFacts) (int, error) {
	in := p.indexed()
	if n, ok := in.sharedClass[c]; ok {
		return n, nil
	}
	packed := class{Flags: []bool{c.Module, c.Dataset, c.Lightning, c.Bare}, Bases: c.Bases, Foreign: c.Foreign}
	for _, name := range slices.Sorted(maps.Keys(c.Methods)) {
		f, err := p.function(c.Methods[name])
		if err != nil {
			return 0, err
		}
		packed.Methods = append(packed.Methods, p.name(name), f)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Attrs)) {
		text, err := json.Marshal(c.Attrs[name])
		if err != nil {
			return 0, err
		}
		packed.Attrs = append(packed.Attrs, p.name(name), number(&p.Values, in.values, text))
	}
	n := number(&p.Classes, in.classes, packed.pack())
	in.sharedClass[c] = n
	return n, nil
}

// pack writes a class as bytes.
func (c class) pack() []byte {
	flags := 0
	for i, set := range c.Flags {
		if set {
			flags |= 1 << i
		}
	}
	parents, _ := json.Marshal([][]string{c.Bases, c.Foreign})
	out := packBytes(binary.AppendUvarint(nil, uint64(flags)), parents)
	return packNumbers(packNumbers(out, c.Methods), c.Attrs)
}

func packNumbers(out []byte, list []int) []byte {
	out = binary.AppendUvarint(out, uint64(len(list)))
	for _, n := range list {
		out = binary.AppendUvarint(out, uint64(n))
	}
	return out
}

// packBytes writes texts, each with its length before it.
func packBytes(out []byte, texts ...[]byte) []byte {
	for _, t := range texts {
		out = append(binary.AppendUvarint(out, uint64(len(t))), t...)
	}
	return out
}

// write and read are the whole pool as bytes.
func (p *pool) write(out []byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(p.Names)))
	for _, name := range p.Names {
		out = packBytes(out, []byte(name))
	}
	for _, list := range [][][]byte{p.Functions, p.Values, p.Classes} {
		out = packBytes(binary.AppendUvarint(out, uint64(len(list))), list...)
	}
	return out
}

func (p *pool) read(r *reader) {
	for range r.number() {
		if p.Names = append(p.Names, string(r.bytes())); r.bad {
			return
		}
	}
	for _, list := range []*[][]byte{&p.Functions, &p.Values, &p.Classes} {
		for range r.number() {
			if *list = append(*list, r.bytes()); r.bad {
				return
			}
		}
	}
}

// reader reads what pack wrote.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number() int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > 1<<31 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) numbers() []int {
	n := r.number()
	if n > len(r.rest) {
		r.bad = true
		return nil
	}
	var out []int
	for range n {
		out = append(out, r.number())
	}
	return out
}

func (r *reader) bytes() []byte {
	n := r.number()
	if n > len(r.rest) {
		r.bad = true
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

// classSum stands for a class wherever its parts are numbered differently.
func (p *pool) classSum(n int) sum {
	in := p.indexed()
	if s, ok := in.sums[n]; ok {
		return s
	}
	r := reader{rest: p.Classes[n]}
	h := sha256.New()
	flags, parents := r.number(), r.bytes()
	_, _ = h.Write(append(binary.AppendUvarint(nil, uint64(flags)), parents...))
	for kind, parts := range [][][]byte{p.Functions, p.Values} {
		list := r.numbers()
		_, _ = h.Write(binary.AppendUvarint([]byte{byte(kind)}, uint64(len(list))))
		for i := 0; i+1 < len(list); i += 2 {
			writePart(h.Write, []byte(p.Names[list[i]]))
			writePart(h.Write, parts[list[i+1]])
		}
	}
	s := sum(h.Sum(nil))
	in.sums[n] = s
	return s
}

func writePart(write func([]byte) (int, error), part []byte) {
	_, _ = write(binary.AppendUvarint(nil, uint64(len(part))))
	_, _ = write(part)
}

// add takes an offer in and gives its numbers and what stands for it.
func (p *pool) add(e *flow.Exports) (packed []byte, offers sum, err error) {
	h := sha256.New()
	writePart(h.Write, []byte(e.Path))
	var functions, classes []int
	for _, name := range slices.Sorted(maps.Keys(e.Functions)) {
		n, err := p.function(e.Functions[name])
		if err != nil {
			return nil, "", err
		}
		functions = append(functions, p.name(name), n)
		writePart(h.Write, []byte(name))
		writePart(h.Write, p.Functions[n])
	}
	_, _ = h.Write([]byte{0xff})
	for _, name := range slices.Sorted(maps.Keys(e.Classes)) {
		n, err := p.class(e.Classes[name])
		if err != nil {
			return nil, "", err
		}
		classes = append(classes, p.name(name), n)
		s := p.classSum(n)
		writePart(h.Write, []byte(name))
		writePart(h.Write, []byte(s))
	}
	return packNumbers(packNumbers(nil, functions), classes), sum(h.Sum(nil)), nil
}

// get gives an offer back.
func (p *pool) get(path string, packed []byte) (*flow.Exports, error) {
	r := reader{rest: packed}
	functions, classes := r.numbers(), r.numbers()
	out := &flow.Exports{Path: path, Functions: map[string]*flow.FunctionFacts{}, Classes: map[string]*flow.ClassFacts{}}
	for i := 0; i+1 < len(functions) && !r.bad; i += 2 {
		f, err := p.functionAt(functions[i+1])
		if err != nil || functions[i] >= len(p.Names) {
			return nil, errPool
		}
		out.Functions[p.Names[functions[i]]] = f
	}
	for i := 0; i+1 < len(classes) && !r.bad; i += 2 {
		c, err := p.classAt(classes[i+1])
		if err != nil || classes[i] >= len(p.Names) {
			return nil, errPool
		}
		out.Classes[p.Names[classes[i]]] = c
	}
	if r.bad {
		return nil, errPool
	}
	return out, nil
}

func (p *pool) functionAt(n int) (*flow.FunctionFacts, error) {
	if f := p.functions[n]; f != nil {
		return f, nil
	}
	f := &flow.FunctionFacts{}
	if n >= len(p.Functions) || json.Unmarshal(p.Functions[n], f) != nil {
		return nil, errPool
	}
	p.functions[n] = f
	return f, nil
}

func (p *pool) classAt(n int) (*flow.ClassFacts, error) {
	if c := p.classes[n]; c != nil {
		return c, nil
	}
	if n >= len(p.Classes) {
		return nil, errPool
	}
	r := reader{rest: p.Classes[n]}
	flags, parents, methods, attrs := r.number(), r.bytes(), r.numbers(), r.numbers()
	c := &flow.ClassFacts{Module: flags&1 != 0, Dataset: flags&2 != 0, Lightning: flags&4 != 0, Bare: flags&8 != 0, Methods: map[string]*flow.FunctionFacts{}, Attrs: map[string]flow.Value{}}
	var named [2][]string
	if r.bad || json.Unmarshal(parents, &named) != nil {
		return nil, errPool
	}
	c.Bases, c.Foreign = named[0], named[1]
	for i := 0; i+1 < len(methods); i += 2 {
		f, err := p.functionAt(methods[i+1])
		if err != nil || methods[i] >= len(p.Names) {
			return nil, errPool
		}
		c.Methods[p.Names[methods[i]]] = f
	}
	for i := 0; i+1 < len(attrs); i += 2 {
		var v flow.Value
		if attrs[i] >= len(p.Names) || attrs[i+1] >= len(p.Values) || json.Unmarshal(p.Values[attrs[i+1]], &v) != nil {
			return nil, errPool
		}
		c.Attrs[p.Names[attrs[i]]] = v
	}
	p.classes[n] = c
	return c, nil
}

// size is about how many bytes the pool takes.
func (p *pool) size() int {
	n := 0
	for _, list := range [][][]byte{p.Functions, p.Values, p.Classes} {
		for _, part := range list {
			n += len(part) + 8
		}
	}
	for _, name := range p.Names {
		n += len(name) + 8
	}
	return n
}
