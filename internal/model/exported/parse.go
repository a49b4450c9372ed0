package exported

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Bounds of a believable graph: the largest exported models have some ten thousand operators.
const (
	maxNodes  = 1 << 20
	maxValues = 1 << 21
	maxRank   = 64
)

// builder collects a Graph while the text is walked.
type builder struct {
	*scanner
	g       *Graph
	exprs   map[string]int32
	symbols map[string]int
	stacks  map[string]int
	sources map[string]Source
	words   map[string]string
	ranges  map[string][2]int64
	outSpec string
}

// scope is the namespace of one graph: the program's own, or a region's inside it.
type scope struct {
	values  map[string]int
	sizes   map[string]Dim // named symbolic integers
	pending []pendingSize
	inputs  []int
	outputs []int
	noGrad  bool
}

// pendingSize is an argument that names a symbolic integer described later in the text.
type pendingSize struct {
	at   *Dim
	name string
}

// parse reads a model.json.
func parse(data []byte) (*Graph, error) {
	b := &builder{
		scanner: &scanner{data: data, keys: map[string]string{}},
		g:       &Graph{exprs: make([]expr, 1), Stacks: [][]Module{nil}},
		exprs:   map[string]int32{}, symbols: map[string]int{}, stacks: map[string]int{"": 0}, sources: map[string]Source{}, words: map[string]string{}, ranges: map[string][2]int64{},
	}
	top := newScope(false)
	found := false
	b.object(func(key string) {
		switch key {
		case "graph_module":
			found = true
			b.graphModule(top)
		case "plimsoll":
			b.trace()
		case "torch_version":
			b.g.TorchVersion = b.text()
		case "range_constraints":
			b.rangeConstraints()
		default:
			b.skip()
		}
	})
	if b.err == nil && !found {
		b.fail("no graph_module in it")
	}
	if b.err == nil {
		b.finish(top)
	}
	if b.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotGraph, b.err)
	}
	return b.g, nil
}

func newScope(noGrad bool) *scope {
	return &scope{values: map[string]int{}, sizes: map[string]Dim{}, noGrad: noGrad}
}

func (b *builder) graphModule(top *scope) {
	b.object(func(key string) {
		switch key {
		case "graph":
			b.graph(top)
		case "signature":
			b.signature(top)
		case "module_call_graph":
			b.moduleCalls()
		default:
			b.skip()
		}
	})
}

func (b *builder) graph(sc *scope) {
	b.object(func(key string) {
		switch key {
		case "inputs":
			b.array(func() { sc.inputs = append(sc.inputs, b.tensorOrOther(sc)) })
		case "outputs":
			b.array(func() { sc.outputs = append(sc.outputs, b.tensorOrOther(sc)) })
		case "nodes":
			b.array(func() { b.node(sc) })
		case "tensor_values":
			b.object(func(name string) { b.describe(b.value(sc, name)) })
		case "sym_int_values":
			b.object(func(name string) { sc.sizes[name] = b.dim() })
		default:
			b.skip()
		}
	})
	for _, p := range sc.pending {
		d, ok := sc.sizes[p.name]
		if !ok && b.err == nil {
			b.fail("integer %.60q is used but never defined", p.name)
		}
		*p.at = d
	}
}

// trace reads what the probe says about a graph it wrote down.
func (b *builder) trace() {
	b.peek()
	start := b.pos
	b.skip()
	if b.err != nil {
		return
	}
	b.g.Trace = &Trace{}
	if err := json.Unmarshal(b.data[start:b.pos], b.g.Trace); err != nil {
		b.fail("about the trace: %w", err)
	}
}

// value is the index of a named tensor, made on first sight.
func (b *builder) value(sc *scope, name string) int {
	if i, ok := sc.values[name]; ok {
		return i
	}
	if len(b.g.Values) >= maxValues {
		b.fail("more than %d values", maxValues)
		return 0
	}
	i := len(b.g.Values)
	b.g.Values = append(b.g.Values, Value{Name: name})
	sc.values[name] = i
	return i
}

// tensorOrOther reads {"as_tensor": {"name": …}}; anything else is -1.
func (b *builder) tensorOrOther(sc *scope) int {
	at := -1
	b.object(func(key string) {
		if key == "as_tensor" {
			at = b.named(sc)
			return
		}
		b.skip()
	})
	return at
}

// named reads {"name": …}.
func (b *builder) named(sc *scope) int {
	at := -1
	b.object(func(key string) {
		if key == "name" {
			at = b.value(sc, b.text())
			return
		}
		b.skip()
	})
	if at < 0 && b.err == nil {
		b.fail("a tensor without a name")
	}
	return at
}

// describe reads what a tensor is.
func (b *builder) describe(at int) {
	if b.err != nil {
		return
	}
	v := b.g.Values[at]
	v.described = true
	b.object(func(key string) {
		switch key {
		case "dtype":
			v.DType = DType(b.int())
		case "sizes":
			v.Sizes = b.dims()
		case "strides":
			v.Strides = b.dims()
		case "requires_grad":
			v.RequiresGrad = b.bool()
		default:
			b.skip()
		}
	})
	if len(v.Strides) != len(v.Sizes) && b.err == nil {
		b.fail("%.60q has %d sizes and %d strides", v.Name, len(v.Sizes), len(v.Strides))
	}
	if b.err == nil {
		b.g.Values[at] = v
	}
}

func (b *builder) dims() []Dim {
	var out []Dim
	b.array(func() {
		if out = append(out, b.dim()); len(out) > maxRank {
			b.fail("a tensor of more than %d dimensions", maxRank)
		}
	})
	return out
}

// dim reads {"as_int": 3} or {"as_expr": {"expr_str": …}}.
func (b *builder) dim() Dim {
	var d Dim
	b.object(func(key string) {
		switch key {
		case "as_int":
			d = Fixed(b.int())
		case "as_expr":
			b.object(func(key string) {
				if key == "expr_str" {
					d = Dim{expr: b.expression(b.text())}
					return
				}
				b.skip()
			})
		default:
			b.skip()
		}
	})
	return d
}

// expression interns a size expression.
func (b *builder) expression(text string) int32 {
	if i, ok := b.exprs[text]; ok {
		return i
	}
	e, err := parseExpr(text, b.symbol)
	if err != nil {
		b.fail("%w", err)
		return 0
	}
	i := int32(len(b.g.exprs))
	b.g.exprs = append(b.g.exprs, e)
	b.exprs[text] = i
	return i
}

func (b *builder) symbol(name string) int {
	if i, ok := b.symbols[name]; ok {
		return i
	}
	i := len(b.g.Symbols)
	b.g.Symbols = append(b.g.Symbols, Symbol{Name: name, Input: -1})
	b.symbols[name] = i
	return i
}

func (b *builder) rangeConstraints() {
	b.object(func(name string) {
		var lowHigh [2]int64
		b.object(func(key string) {
			switch {
			case b.null():
			case key == "min_val":
				lowHigh[0] = b.int()
			case key == "max_val":
				lowHigh[1] = b.int()
			default:
				b.skip()
			}
		})
		b.ranges[name] = lowHigh
	})
}

// signature says which inputs are parameters, buffers and the user's.
func (b *builder) signature(sc *scope) {
	b.object(func(key string) {
		switch key {
		case "input_specs":
			b.array(func() { b.inputSpec(sc) })
		case "output_specs":
			b.array(func() { b.outputSpec(sc) })
		default:
			b.skip()
		}
	})
}

var roles = map[string]Role{"parameter": Parameter, "buffer": Buffer, "tensor_constant": Constant, "user_input": UserInput}

func (b *builder) inputSpec(sc *scope) {
	b.object(func(kind string) {
		role, known := roles[kind]
		if !known {
			b.skip()
			return
		}
		at, fqn, persistent := -1, "", false
		b.object(func(key string) {
			switch key {
			case "arg":
				at = b.specArg(sc)
			case "parameter_name", "buffer_name", "tensor_constant_name":
				fqn = b.text()
			case "persistent":
				persistent = b.bool()
			default:
				b.skip()
			}
		})
		if at < 0 || b.err != nil {
			return // a user input that is no tensor
		}
		v := &b.g.Values[at]
		v.Role, v.FQN, v.Persistent = role, fqn, persistent
		b.g.Inputs = append(b.g.Inputs, at)
	})
}

// specArg reads {"name": …} (parameters) or {"as_tensor": {"name": …}} (user inputs).
func (b *builder) specArg(sc *scope) int {
	at := -1
	b.object(func(key string) {
		switch key {
		case "name":
			at = b.value(sc, b.text())
		case "as_tensor":
			at = b.named(sc)
		default:
			b.skip()
		}
	})
	return at
}

func (b *builder) outputSpec(sc *scope) {
	b.object(func(kind string) {
		if kind != "user_output" && kind != "loss_output" {
			b.skip()
			return
		}
		at := -1
		b.object(func(key string) {
			if key == "arg" {
				at = b.specArg(sc)
				return
			}
			b.skip()
		})
		b.g.Outputs = append(b.g.Outputs, Output{Value: at})
	})
}

// moduleCalls keeps the structure of what the program returns.
func (b *builder) moduleCalls() {
	b.array(func() {
		fqn, spec := "", ""
		b.object(func(key string) {
			switch {
			case key == "fqn":
				fqn = b.text()
			case key == "signature" && !b.null():
				b.object(func(key string) {
					if key == "out_spec" && b.peek() == '"' {
						spec = b.text()
						return
					}
					b.skip()
				})
			case key != "signature":
				b.skip()
			}
		})
		if fqn == "" && spec != "" {
			b.outSpec = spec
		}
	})
}

// finish names the outputs, places the symbols and checks that values are produced before they are used.
func (b *builder) finish(top *scope) {
	if len(b.g.Outputs) == 0 {
		for _, at := range top.outputs {
			b.g.Outputs = append(b.g.Outputs, Output{Value: at})
		}
	}
	for i, name := range outputNames(b.outSpec, len(b.g.Outputs)) {
		b.g.Outputs[i].Name = name
	}
	for i := range b.g.Symbols {
		b.place(&b.g.Symbols[i])
	}
	b.checkOrder(top)
}

// place finds the user input whose size a symbol is.
func (b *builder) place(s *Symbol) {
	lowHigh := b.ranges[s.Name]
	s.Min, s.Max = lowHigh[0], max(lowHigh[1], 0)
	for _, at := range b.g.Inputs {
		v := &b.g.Values[at]
		if v.Role != UserInput {
			continue
		}
		for axis, d := range v.Sizes {
			if d.expr == 0 {
				continue
			}
			if e := b.g.exprs[d.expr]; e.op == "Symbol" && b.g.Symbols[e.symbol].Name == s.Name {
				s.Input, s.Axis = at, axis
				return
			}
		}
	}
}

func (b *builder) checkOrder(top *scope) {
	for _, at := range append(top.inputs, b.g.Inputs...) {
		if at >= 0 {
			b.g.Values[at].defined = true
		}
	}
	for i := range b.g.Nodes {
		n := &b.g.Nodes[i]
		for _, a := range n.Args {
			for _, at := range a.Values {
				if at >= 0 && !b.g.Values[at].defined {
					b.fail("operator %d (%s) uses %.60q before it is produced: a cycle or a missing value", i, n.Target, b.g.Values[at].Name)
					return
				}
			}
		}
		for _, at := range n.Outputs {
			if at >= 0 {
				b.g.Values[at].defined = true
			}
		}
	}
	for _, o := range b.g.Outputs {
		if o.Value >= 0 && !b.g.Values[o.Value].defined {
			b.fail("output %.60q is never produced", b.g.Values[o.Value].Name)
			return
		}
	}
	for i := range b.g.Values {
		if v := &b.g.Values[i]; v.defined && !v.described {
			b.fail("value %.60q is never defined", v.Name)
			return
		}
	}
}

// word interns a string that many nodes share.
func (b *builder) word(s string) string {
	if w, ok := b.words[s]; ok {
		return w
	}
	s = strings.Clone(s)
	b.words[s] = s
	return s
}
