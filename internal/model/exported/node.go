package exported

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// node reads one operator call, or the calls of the region it wraps.
func (b *builder) node(sc *scope) {
	n := Node{NoGrad: sc.noGrad}
	var region *scope
	graphAt := 0
	b.object(func(key string) {
		switch key {
		case "target":
			n.Target = b.word(strings.TrimPrefix(b.text(), "torch.ops."))
		case "inputs":
			b.array(func() {
				var arg Arg
				inner := b.argument(sc, &arg, &n)
				if inner != nil {
					region, graphAt = inner, len(n.Args)
				}
				n.Args = append(n.Args, arg)
			})
		case "outputs":
			b.array(func() { n.Outputs = b.outputs(sc, n.Outputs) })
		case "metadata":
			b.metadata(sc, &n)
		default:
			b.skip()
		}
	})
	b.resolveSizes(sc, &n)
	if region != nil && b.err == nil {
		b.connect(region, n, graphAt)
		return
	}
	if len(b.g.Nodes) >= maxNodes {
		b.fail("more than %d operators", maxNodes)
		return
	}
	b.g.Nodes = append(b.g.Nodes, n)
}

// resolveSizes fixes the pointers of waiting sizes once the node's arguments have stopped moving.
func (b *builder) resolveSizes(sc *scope, n *Node) {
	for i := range n.Args {
		for j := range n.Args[i].Ints {
			d := &n.Args[i].Ints[j]
			if d.expr >= 0 {
				continue
			}
			sc.pending[-d.expr-1].at = d
		}
	}
}

// argument reads {"name": …, "arg": {…}}. A region comes back as its scope, its nodes already read.
func (b *builder) argument(sc *scope, arg *Arg, n *Node) (region *scope) {
	b.object(func(key string) {
		switch key {
		case "name":
			arg.Name = b.word(b.text())
		case "arg":
			b.object(func(kind string) {
				if kind == "as_graph" {
					region = b.region(n)
					return
				}
				b.argValue(sc, arg, kind)
			})
		default:
			b.skip()
		}
	})
	return region
}

func (b *builder) argValue(sc *scope, arg *Arg, kind string) {
	switch kind {
	case "as_tensor":
		arg.Kind, arg.Values = Tensor, []int{b.named(sc)}
	case "as_tensors":
		arg.Kind = Tensors
		b.array(func() { arg.Values = append(arg.Values, b.named(sc)) })
	case "as_optional_tensors":
		arg.Kind = Tensors
		b.array(func() { arg.Values = append(arg.Values, b.tensorOrOther(sc)) })
	case "as_int":
		arg.Kind, arg.Ints = Int, []Dim{Fixed(b.int())}
	case "as_ints":
		arg.Kind = Ints
		b.array(func() { arg.Ints = append(arg.Ints, Fixed(b.int())) })
	case "as_sym_int":
		arg.Kind, arg.Ints = Int, []Dim{b.symArg(sc)}
	case "as_sym_ints":
		arg.Kind = Ints
		b.array(func() { arg.Ints = append(arg.Ints, b.symArg(sc)) })
	case "as_float":
		arg.Kind, arg.Floats = Float, []float64{b.float()}
	case "as_floats":
		arg.Kind = Floats
		b.array(func() { arg.Floats = append(arg.Floats, b.float()) })
	case "as_bool":
		arg.Kind, arg.Bools = Bool, []bool{b.bool()}
	case "as_bools":
		arg.Kind = Bools
		b.array(func() { arg.Bools = append(arg.Bools, b.bool()) })
	case "as_string":
		arg.Kind, arg.Text = String, b.word(b.text())
	case "as_scalar_type":
		arg.Kind, arg.DType = Scalar, DType(b.int())
	case "as_memory_format":
		arg.Kind, arg.Ints = Opaque, []Dim{Fixed(b.int())}
	case "as_none":
		b.skip()
	default:
		arg.Kind = Opaque
		b.skip()
	}
}

// symArg reads {"as_int": 3} or {"as_name": "sym_size_int_1"}; the name is described later in the text.
func (b *builder) symArg(sc *scope) Dim {
	var d Dim
	b.object(func(key string) {
		switch key {
		case "as_int":
			d = Fixed(b.int())
		case "as_name":
			sc.pending = append(sc.pending, pendingSize{at: new(Dim), name: b.text()})
			d = Dim{expr: -int32(len(sc.pending))}
		default:
			b.skip()
		}
	})
	return d
}

// outputs reads one entry of a node's outputs: a tensor, a list of tensors, or something else.
func (b *builder) outputs(sc *scope, out []int) []int {
	b.object(func(kind string) {
		switch kind {
		case "as_tensor":
			out = append(out, b.named(sc))
		case "as_tensors":
			b.array(func() { out = append(out, b.named(sc)) })
		case "as_optional_tensors":
			b.array(func() { out = append(out, b.tensorOrOther(sc)) })
		default:
			out = append(out, -1)
			b.skip()
		}
	})
	return out
}

// region reads the graph inside torch.no_grad and its like; its nodes join the program's.
func (b *builder) region(n *Node) *scope {
	inner := newScope(n.NoGrad || strings.HasSuffix(n.Target, "wrap_with_set_grad_enabled") && firstFalse(n.Args))
	if !inlined(n.Target) {
		b.skip()
		return nil
	}
	mark := len(b.g.Nodes)
	b.object(func(key string) {
		if key == "graph" {
			b.graph(inner)
			return
		}
		b.skip()
	})
	if b.err == nil && mark > len(b.g.Nodes) {
		b.fail("region without operators")
	}
	return inner
}

// inlined tells which wrappers only set a mode around their operators.
func inlined(target string) bool {
	return target == "higher_order.wrap_with_set_grad_enabled" || target == "higher_order.wrap_with_autocast"
}

func firstFalse(args []Arg) bool {
	return len(args) > 0 && args[0].Kind == Bool && !args[0].Bools[0]
}

// connect makes a region's inputs the values it was called with, and the call's outputs the region's.
func (b *builder) connect(region *scope, call Node, graphAt int) {
	rename := map[int]int{}
	for i, inner := range region.inputs {
		at := graphAt + 1 + i
		if inner < 0 || at >= len(call.Args) || call.Args[at].Kind != Tensor {
			continue
		}
		rename[inner] = call.Args[at].Values[0]
	}
	b.renameUses(rename)
	for i, outer := range call.Outputs {
		if outer < 0 || i >= len(region.outputs) || region.outputs[i] < 0 {
			continue
		}
		inner := region.outputs[i]
		if to, ok := rename[inner]; ok {
			inner = to
		}
		b.g.Nodes = append(b.g.Nodes, Node{Target: "alias", Args: []Arg{{Name: "self", Kind: Tensor, Values: []int{inner}}}, Outputs: []int{outer}, Stack: call.Stack, NoGrad: call.NoGrad})
	}
}

func (b *builder) renameUses(rename map[int]int) {
	for i := range b.g.Nodes {
		for j := range b.g.Nodes[i].Args {
			for k, at := range b.g.Nodes[i].Args[j].Values {
				if to, ok := rename[at]; ok {
					b.g.Nodes[i].Args[j].Values[k] = to
				}
			}
		}
	}
}

func (b *builder) metadata(sc *scope, n *Node) {
	b.object(func(key string) {
		switch {
		case b.peek() != '"':
			b.skip()
		case key == "nn_module_stack":
			n.Stack = b.stack(b.raw())
		case key == "stack_trace":
			n.Source = b.source(b.raw())
		case key == "plimsoll_dies":
			for name := range strings.SplitSeq(b.text(), ",") {
				n.Dies = append(n.Dies, b.value(sc, name))
			}
		case key == "plimsoll_no_grad":
			n.NoGrad = b.text() != ""
		case key == "plimsoll_no_autocast":
			n.NoAutocast = b.text() != ""
		case key == "plimsoll_no_cudnn":
			n.NoCuDNN = b.text() != ""
		default:
			b.skip()
		}
	})
}

// stack interns "key,path,class;key,path,class".
func (b *builder) stack(raw []byte) int {
	if i, ok := b.stacks[string(raw)]; ok {
		return i
	}
	var modules []Module
	for level := range strings.SplitSeq(unescape(raw), ";") {
		parts := strings.Split(level, ",")
		if len(parts) != 3 || strings.HasPrefix(parts[0], "_empty_nn_module_stack") {
			continue
		}
		path, _, _ := strings.Cut(parts[1], "@") // a second call of one module is written layer@1
		modules = append(modules, Module{b.word(parts[0]), b.word(path), b.word(parts[2])})
	}
	i := len(b.g.Stacks)
	b.g.Stacks = append(b.g.Stacks, modules)
	b.stacks[string(raw)] = i
	return i
}

// source keeps the innermost frame of a stack trace.
func (b *builder) source(raw []byte) Source {
	if i := bytes.LastIndex(raw, []byte(`File \"`)); i >= 0 {
		raw = raw[i:]
	}
	if s, ok := b.sources[string(raw)]; ok {
		return s
	}
	var s Source
	head, code, _ := strings.Cut(unescape(raw), "\n")
	head = strings.TrimPrefix(head, `File "`)
	file, rest, ok := strings.Cut(head, `", line `)
	if ok {
		s.File = b.word(file)
		number, _, _ := strings.Cut(rest, ",")
		s.Line, _ = strconv.Atoi(number)
	}
	s.Code = b.word(strings.TrimSpace(code))
	b.sources[string(raw)] = s
	return s
}

// treeSpec is torch.utils._pytree's description of a structure.
type treeSpec struct {
	Context  any        `json:"context"`
	Children []treeSpec `json:"children_spec"`
}

// outputNames gives the key of each leaf of what the program returns, as far as its structure names them.
func outputNames(spec string, leaves int) []string {
	var pair []json.RawMessage
	var tree treeSpec
	if len(spec) > 1<<20 || json.Unmarshal([]byte(spec), &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[1], &tree) != nil {
		return nil
	}
	names := tree.names("", nil)
	if len(names) != leaves {
		return nil
	}
	return names
}

func (t treeSpec) names(key string, out []string) []string {
	if len(t.Children) == 0 {
		return append(out, key)
	}
	var keys []string
	if text, ok := t.Context.(string); ok {
		// An error leaves keys empty: a tuple's context is "null".
		_ = json.Unmarshal([]byte(text), &keys)
	}
	for i, child := range t.Children {
		name := key
		if len(keys) == len(t.Children) {
			name = keys[i]
		}
		out = child.names(name, out)
	}
	return out
}
