// Package exported reads the operator graphs that torch.export writes.
//
// In goes a .pt2 archive, or the model.json inside one, plain or gzipped; out comes a Graph: operators in the order they run, with
// their arguments, the element type, sizes and strides of every tensor (symbolic ones evaluated by Bind for a given batch), the
// module call and the source line each belongs to, and which tensors are parameters, buffers, inputs and outputs.
// Refused with ErrNotGraph: anything that is no such file, a value used before it is produced (a cycle), a value nobody describes,
// and sizes beyond any tensor. Weights are never read. Formats: torch/_export/serde/schema.py, schema versions 5 to 8.
package exported

import "errors"

// ErrNotGraph is in the chain of every error about a file that is no readable graph.
var ErrNotGraph = errors.New("not a torch.export graph")

// Graph is one exported program.
type Graph struct {
	TorchVersion string
	Values       []Value  // every tensor, by index
	Inputs       []int    // values in the order of the signature: parameters, buffers, constants, user inputs
	Outputs      []Output // what the program returns
	Nodes        []Node   // operators in the order they run; regions without gradients are inlined
	Stacks       [][]Module
	Symbols      []Symbol // symbolic sizes, in order of first appearance

	exprs []expr // interned size expressions; index 0 is unused
}

// Role says what a value is to the program.
type Role uint8

// Roles of values.
const (
	Intermediate Role = iota
	Parameter
	Buffer
	Constant
	UserInput
)

// Value is one tensor.
type Value struct {
	Name         string // in the graph: "p_conv1_weight"
	FQN          string // of a parameter or buffer in the module: "conv1.weight"
	Role         Role
	Persistent   bool // a buffer that state_dict holds
	DType        DType
	RequiresGrad bool
	Sizes        []Dim
	Strides      []Dim
	described    bool
	defined      bool
}

// Output is one leaf of what the program returns.
type Output struct {
	Name  string // key in the returned structure ("out", "logits"); "" where it has none
	Value int    // index of the value, or -1 for something that is no tensor
}

// Node is one operator call.
type Node struct {
	Target  string // "aten.linear.default"
	Args    []Arg
	Outputs []int // values; -1 for outputs that are not tensors
	Stack   int   // index into Graph.Stacks
	Source  Source
	NoGrad  bool // runs under torch.no_grad
}

// Module is one level of the module calls a node runs in, outermost first.
type Module struct {
	Key   string // tells two calls of one module apart
	Path  string // "layers.0.attn"; "" for the model itself
	Class string // "torch.nn.modules.conv.Conv2d"
}

// Source is the innermost Python line of a node.
type Source struct {
	File string
	Line int
	Code string
}

// ArgKind says which field of an Arg holds it.
type ArgKind uint8

// Kinds of arguments.
const (
	None    ArgKind = iota
	Tensor          // Values[0]
	Tensors         // Values; -1 for a missing optional
	Int             // Ints[0]
	Ints
	Float
	Floats
	Bool
	Bools
	String
	Scalar // DType
	Opaque // memory format, layout, device and what else has no bytes
)

// Arg is one argument of a node.
type Arg struct {
	Name   string
	Kind   ArgKind
	Values []int
	Ints   []Dim
	Floats []float64
	Bools  []bool
	Text   string
	DType  DType
}

// Arg finds an argument by its name in the operator's schema.
func (n *Node) Arg(name string) (Arg, bool) {
	for _, a := range n.Args {
		if a.Name == name {
			return a, true
		}
	}
	return Arg{}, false
}

// Tensor is the value of a tensor argument, or -1 where it is absent or None.
func (n *Node) Tensor(name string) int {
	a, _ := n.Arg(name)
	if a.Kind != Tensor {
		return -1
	}
	return a.Values[0]
}

// Float is a number argument, with what stands in the operator's schema where it is absent.
func (n *Node) Float(name string, standard float64) float64 {
	a, ok := n.Arg(name)
	switch {
	case !ok:
		return standard
	case a.Kind == Float:
		return a.Floats[0]
	case a.Kind == Int:
		return float64(a.Ints[0].fixed)
	}
	return standard
}

// Bool is a flag argument, with what stands in the operator's schema where it is absent.
func (n *Node) Bool(name string, standard bool) bool {
	if a, ok := n.Arg(name); ok && a.Kind == Bool {
		return a.Bools[0]
	}
	return standard
}

// DType is an element type as torch/_export/serde/schema.py numbers it (ScalarType).
type DType uint8

// Element types.
const (
	Unknown    DType = 0
	Uint8      DType = 1
	Int8       DType = 2
	Int16      DType = 3
	Int32      DType = 4
	Int64      DType = 5
	Float16    DType = 6
	Float32    DType = 7
	Float64    DType = 8
	Complex32  DType = 9
	Complex64  DType = 10
	Complex128 DType = 11
	Boolean    DType = 12
	BFloat16   DType = 13
)
