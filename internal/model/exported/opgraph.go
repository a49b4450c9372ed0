// Package exported reads the operator graphs that torch.export writes.
//
// It takes a .pt2 archive, or the model.json inside one, plain or gzipped and returns a Graph: operators in the order they run, with
// their arguments, the element type, sizes and strides of every tensor (symbolic ones evaluated by Bind for a given batch), the
// module call and the source line each belongs to, and which tensors are parameters, buffers, inputs and outputs.
// Refused with ErrNotGraph: anything that is no such file, a value used before it is produced (a cycle), a value nobody describes,
// and sizes beyond any tensor. Weights are never read. Formats: torch/_export/serde/schema.py, schema versions 5 to 8.
package exported

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"sync"
)

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
	Trace        *Trace   // set where the graph was written down while its model ran; nil for torch.export's own

	exprs []expr // interned size expressions; index 0 is unused

	once    sync.Once
	repeats *repeats // set by once
}

// Trace is what the probe adds to a graph it wrote down while the model ran (script/probe, _forward.py): element types are those of
// the run, and its operators say when Python let go of their tensors.
type Trace struct {
	Torch        string            `json:"torch"`
	Transformers string            `json:"transformers"`
	Package      string            `json:"package"`     // another library than transformers, and its version
	Class        string            `json:"class"`       // of the model
	Module       string            `json:"module"`      // the file it was read from, as Python imports it
	Task         string            `json:"task"`        // what the inputs and the loss are those of
	Created      []Made            `json:"created"`     // parameters and buffers in the order a constructor makes them
	Frozen       []string          `json:"frozen"`      // parameters that the constructor does not train
	Checkpoints  []string          `json:"checkpoints"` // modules that gradient_checkpointing_enable() checkpoints
	Linears      []string          `json:"linears"`     // modules that are nn.Linear or Conv1D: what adapters are put beside
	Turned       []string          `json:"turned"`      // those of them that are Conv1D, with weights of (inputs, outputs)
	Tied         map[string]string `json:"tied"`        // linear layers whose weight is a parameter of another module, and its name
	Head         string            `json:"head"`        // the one that gives the output (get_output_embeddings); empty for none
	Embeddings   []string          `json:"embeddings"`  // modules whose results gradient_checkpointing_enable() lets require gradients
	Convs        []Conv            `json:"convs"`       // convolutions that adapters are put beside where a target names them
	Tables       []Table           `json:"tables"`      // tables of embeddings, likewise
	Stacked      []Stack           `json:"stacked"`     // weights of experts in one parameter that PEFT puts adapters beside in place of linear layers
	Open         []string          `json:"open"`        // sizes that may differ from those of the run
	Held         []string          `json:"held"`        // values that modules refer to when forward is over: they live until the module's next call
	Routed       bool              `json:"routed"`      // sizes depend on which expert gets a token, which was drawn
	Notes        []string          `json:"notes"`       // what a reader of the answer should know about the step
}

// Library is the library whose code the model was read from, with its version.
func (t *Trace) Library() string { return cmp.Or(t.Package, "transformers "+t.Transformers) }

// Fits tells whether the graph serves any batch and, where the task has them, any length of inputs and targets.
func (t *Trace) Fits(seq, target bool) bool {
	open := func(name string) bool { return slices.Contains(t.Open, name) }
	return open("batch") && (!seq || open("seq")) && (!target || open("target_seq"))
}

// Stack is a parameter that holds the matrices of all experts, or of a router.
type Stack struct {
	Name   string   `json:"name"`
	Named  []string `json:"named"`  // targets that mean it
	Joined int      `json:"joined"` // matrices side by side in each: the rank is as many times larger
}

// Conv is a module that is nn.Conv1d, nn.Conv2d or nn.Conv3d.
type Conv struct {
	Name   string `json:"name"`
	Groups int    `json:"groups"`
}

// Table is a module that is nn.Embedding.
type Table struct {
	Name   string `json:"name"`
	Scaled bool   `json:"scaled"` // multiplies its results by a number (embed_scale), which adapters do as well
}

// Made is a parameter or buffer that a constructor makes. Without a name, another one takes its place (tied weights).
type Made struct {
	Name     string
	Elements int64
	Width    int64 // bytes of an element
}

// UnmarshalJSON reads [name, elements, width].
func (m *Made) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&m.Name, &m.Elements, &m.Width})
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
	// Of a traced graph: what nobody refers to any more once it has run, and whether autocast or cuDNN was off.
	Dies       []int
	NoAutocast bool
	NoCuDNN    bool
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
