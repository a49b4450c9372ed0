package workspace

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/internal/code/flow"
)

// pool holds what files offer to each other as it is written down, every part once. A class offers the methods of its bases too, and a file what it
// imports: written out for each file, the same facts would be written thousands of times. Parts are numbered; a file's offer is a list of numbers.
type pool struct {
	names     []string
	functions []string // flow.FunctionFacts, packed
	values    []string // flow.Value, packed
	classes   []string // flow.ClassFacts with numbers for its parts, packed

	index *poolIndex // made when something is added

	readFunctions map[int]*flow.FunctionFacts // what was unpacked
	readClasses   map[int]*flow.ClassFacts
}

// poolIndex finds the number of a part. What is shared in memory is found by its address.
type poolIndex struct {
	names, functions, values, classes map[string]int

	shared      map[*flow.FunctionFacts]int
	sharedClass map[*flow.ClassFacts]int
}

func newPool() *pool {
	return &pool{readFunctions: map[int]*flow.FunctionFacts{}, readClasses: map[int]*flow.ClassFacts{}}
}

var errPool = errors.New("a number that is not in the pool")

// indexed makes the index.
func (p *pool) indexed() *poolIndex {
	if p.index == nil {
		p.index = &poolIndex{
			numbered(p.names), numbered(p.functions), numbered(p.values), numbered(p.classes), map[*flow.FunctionFacts]int{}, map[*flow.ClassFacts]int{},
		}
	}
	return p.index
}

func numbered(parts []string) map[string]int {
	out := make(map[string]int, len(parts))
	for i, part := range parts {
		out[part] = i
	}
	return out
}

// number gives a part its number.
func number(parts *[]string, known map[string]int, part string) int {
	n, ok := known[part]
	if !ok {
		n = len(*parts)
		*parts = append(*parts, part)
		known[part] = n
	}
	return n
}

func (p *pool) name(name string) int { return number(&p.names, p.indexed().names, name) }

func (p *pool) function(f *flow.FunctionFacts) int {
	in := p.indexed()
	n, ok := in.shared[f]
	if !ok {
		n = number(&p.functions, in.functions, string(packFunction(nil, f)))
		in.shared[f] = n
	}
	return n
}

func (p *pool) class(c *flow.ClassFacts) int {
	in := p.indexed()
	if n, ok := in.sharedClass[c]; ok {
		return n
	}
	var methods, attrs []int
	for _, name := range slices.Sorted(maps.Keys(c.Methods)) {
		methods = append(methods, p.name(name), p.function(c.Methods[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Attrs)) {
		attrs = append(attrs, p.name(name), number(&p.values, in.values, string(packValue(nil, c.Attrs[name], 0))))
	}
	n := number(&p.classes, in.classes, string(packNumbers(packNumbers(packKind(nil, c), methods), attrs)))
	in.sharedClass[c] = n
	return n
}

// write and read are the whole pool as bytes.
func (p *pool) write(out []byte) []byte {
	for _, list := range [][]string{p.names, p.functions, p.values, p.classes} {
		out = packTexts(out, list)
	}
	return out
}

func (p *pool) read(r *reader) {
	for _, list := range []*[]string{&p.names, &p.functions, &p.values, &p.classes} {
		*list = r.texts()
	}
}

// add takes an offer in and gives its numbers.
func (p *pool) add(e *flow.Exports) string {
	var functions, classes []int
	for _, name := range slices.Sorted(maps.Keys(e.Functions)) {
		functions = append(functions, p.name(name), p.function(e.Functions[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Classes)) {
		classes = append(classes, p.name(name), p.class(e.Classes[name]))
	}
	return string(packNumbers(packNumbers(nil, functions), classes))
}

// get gives an offer back.
func (p *pool) get(path, packed string) (*flow.Exports, error) {
	r := reader{rest: packed}
	functions, classes := r.numbers(), r.numbers()
	if r.bad {
		return nil, errPool
	}
	out := &flow.Exports{Path: path, Functions: map[string]*flow.FunctionFacts{}, Classes: map[string]*flow.ClassFacts{}}
	for i := 0; i+1 < len(functions); i += 2 {
		f, err := p.functionAt(functions[i+1])
		if err != nil || functions[i] >= len(p.names) {
			return nil, errPool
		}
		out.Functions[p.names[functions[i]]] = f
	}
	for i := 0; i+1 < len(classes); i += 2 {
		c, err := p.classAt(classes[i+1])
		if err != nil || classes[i] >= len(p.names) {
			return nil, errPool
		}
		out.Classes[p.names[classes[i]]] = c
	}
	return out, nil
}

func (p *pool) functionAt(n int) (*flow.FunctionFacts, error) {
	if f := p.readFunctions[n]; f != nil {
		return f, nil
	}
	if n >= len(p.functions) {
		return nil, errPool
	}
	r := reader{rest: p.functions[n]}
	f := r.function()
	if r.bad {
		return nil, errPool
	}
	p.readFunctions[n] = f
	return f, nil
}

func (p *pool) classAt(n int) (*flow.ClassFacts, error) {
	if c := p.readClasses[n]; c != nil {
		return c, nil
	}
	if n >= len(p.classes) {
		return nil, errPool
	}
	r := reader{rest: p.classes[n]}
	c := r.kind()
	methods, attrs := r.numbers(), r.numbers()
	if r.bad {
		return nil, errPool
	}
	for i := 0; i+1 < len(methods); i += 2 {
		f, err := p.functionAt(methods[i+1])
		if err != nil || methods[i] >= len(p.names) {
			return nil, errPool
		}
		c.Methods[p.names[methods[i]]] = f
	}
	for i := 0; i+1 < len(attrs); i += 2 {
		if attrs[i] >= len(p.names) || attrs[i+1] >= len(p.values) {
			return nil, errPool
		}
		r := reader{rest: p.values[attrs[i+1]]}
		if c.Attrs[p.names[attrs[i]]] = r.value(0); r.bad {
			return nil, errPool
		}
	}
	p.readClasses[n] = c
	return c, nil
}

// addUses takes the calls of a file in: for each its target, its caller and the state of autograd.
func (p *pool) addUses(uses []flow.Use) string {
	out := binary.AppendUvarint(nil, uint64(len(uses)))
	for _, u := range uses {
		out = binary.AppendUvarint(out, uint64(p.name(u.Target)))
		out = append(binary.AppendUvarint(out, uint64(p.name(u.In))), byte(u.Grad))
	}
	return string(out)
}

func (p *pool) uses(packed string) ([]flow.Use, error) {
	r := reader{rest: packed}
	out := make([]flow.Use, 0, r.count())
	for range cap(out) {
		target, in, grad := r.number(), r.number(), r.byte()
		if r.bad || target >= len(p.names) || in >= len(p.names) {
			return nil, errPool
		}
		out = append(out, flow.Use{Target: p.names[target], In: p.names[in], Grad: flow.Grad(grad)})
	}
	return out, nil
}

// size is about how many bytes the pool takes.
func (p *pool) size() int {
	n := 0
	for _, list := range [][]string{p.names, p.functions, p.values, p.classes} {
		for _, part := range list {
			n += len(part) + 8
		}
	}
	return n
}
