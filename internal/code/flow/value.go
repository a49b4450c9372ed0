package flow

import "slices"

// Kind is what a value is, as far as the code shows.
type Kind uint8

// The kinds that rules ask for.
const (
	Unknown Kind = iota
	Model
	Criterion
	Optimizer
	Scaler
	Loader
	Dataset
	Batch      // what a loader yields, or a part of it
	Tensor     // computed from a model call
	Leaf       // a tensor made by a factory: torch.randn, torch.zeros
	Scalar     // a Python number or string
	Container  // list, dict, set, tuple
	Checkpoint // what torch.load gives
	Helper     // an Accelerator or Fabric
	Params     // model.parameters()
	Activation // a module without parameters: nn.ReLU(), nn.CosineSimilarity()
)

// Value is what is known of a value.
type Value struct {
	Roots   []int    `json:",omitempty"` // model calls whose graph it keeps alive, sorted; none: no graph, or not known
	Items   []Value  `json:",omitempty"` // of a tuple whose parts are known
	Keys    []string `json:",omitempty"` // of a dict whose parts are known: Items[i] stands at Keys[i]
	Class   string   `json:",omitempty"` // what it is an instance of: "Name" of this file, "Name@path" of another, "torch.nn.Linear"
	Wrap    string   `json:",omitempty"` // of a Model: dotted name of the wrapper around it (DistributedDataParallel, FSDP)
	Num     int64    `json:",omitempty"` // where HasNum
	From    uint32   `json:",omitempty"` // parameters of the function it is computed from, graph included: bit i for the i-th
	Kind    Kind     `json:",omitempty"`
	HasNum  bool     `json:",omitempty"`
	Guess   bool     `json:",omitempty"` // only its name says what it is
	OnCPU   bool     `json:",omitempty"`
	OnGPU   bool     `json:",omitempty"` // was moved there in so many words
	Reduced bool     `json:",omitempty"` // a scalar, a mean, an argmax: small whatever the batch
	Divided bool     `json:",omitempty"` // went through a division
	Freed   bool     `json:",omitempty"` // the function that gave it ran a backward over its graph already
	Double  bool     `json:",omitempty"` // float64
	Grad    bool     `json:",omitempty"` // a Leaf that requires grad
	Trained bool     `json:",omitempty"` // holds something autograd can reach that is not a traced model call (a parameter, an unknown)
}

// HasGraph tells whether keeping the value keeps activations.
func (v Value) HasGraph() bool { return len(v.Roots) > 0 }

// IsTensor tells whether it is a tensor on whatever device.
func (v Value) IsTensor() bool { return v.Kind == Tensor || v.Kind == Batch || v.Kind == Leaf }

// Shares tells whether two values were computed from the same model call.
func (v Value) Shares(w Value) bool {
	return slices.ContainsFunc(v.Roots, func(r int) bool { return slices.Contains(w.Roots, r) })
}

// Carries tells whether it has a graph, or would have the graph of what its function was given.
func (v Value) Carries() bool { return len(v.Roots) > 0 || v.From != 0 }

// dict tells whether its items stand at names.
func (v Value) dict() bool { return len(v.Keys) > 0 && len(v.Keys) == len(v.Items) }

// at is the part of a dict at a name.
func (v Value) at(key string) (Value, bool) {
	if !v.dict() {
		return Value{}, false
	}
	for i, k := range v.Keys {
		if k == key {
			return v.Items[i], true
		}
	}
	return Value{}, false
}

func (v Value) detached() Value {
	v.Roots, v.Items, v.Keys, v.From = nil, nil, nil, 0
	return v
}

// whole forgets the parts.
func (v Value) whole() Value {
	v.Items, v.Keys = nil, nil
	return v
}

func scalar() Value { return Value{Kind: Scalar, Reduced: true, OnCPU: true} }

func number(n int64) Value {
	v := scalar()
	v.Num, v.HasNum = n, true
	return v
}

// maxRoots bounds the model calls one value remembers.
const maxRoots = 32

// union merges sorted root lists.
func union(a, b []int) []int {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	if len(a) >= maxRoots {
		return a
	}
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxRoots)]
}

// join is what a name holds after either of two branches.
func join(a, b Value) Value {
	out := a
	if a.Kind == Unknown || a.Kind == Scalar && b.Kind != Unknown || a.Guess && !b.Guess && b.Kind != Unknown && b.Kind != Scalar {
		out = b
	}
	out.Roots, out.From = union(a.Roots, b.Roots), a.From|b.From
	out.Items, out.Keys = joinItems(a, b)
	out.HasNum = a.HasNum && b.HasNum && a.Num == b.Num
	if a.Class != b.Class && a.Kind == Model && b.Kind == Model {
		out.Class = ""
	}
	out.Divided = a.Divided || b.Divided
	out.Freed = (a.Freed || !a.HasGraph()) && (b.Freed || !b.HasGraph()) && (a.Freed || b.Freed)
	out.Trained = a.Trained || b.Trained || (a.Kind == Unknown) != (b.Kind == Unknown)
	out.OnGPU = a.OnGPU || b.OnGPU
	out.OnCPU = out.OnCPU && (a.Kind == Unknown || a.OnCPU) && (b.Kind == Unknown || b.OnCPU)
	return out
}

// tuples tells whether two values are tuples of different lengths.
func tuples(a, b Value) bool {
	return len(a.Items) > 0 && len(b.Items) > 0 && len(a.Keys)+len(b.Keys) == 0 && len(a.Items) != len(b.Items)
}

// joinItems joins the parts of two tuples, or of two dicts with the same names.
func joinItems(a, b Value) ([]Value, []string) {
	switch {
	case len(b.Items) == 0 && b.Kind == Unknown && !b.Carries():
		return a.Items, a.Keys
	case len(a.Items) == 0 && a.Kind == Unknown && !a.Carries():
		return b.Items, b.Keys
	case tuples(a, b) && !a.Carries(): // the one with a graph counts: return nan, nan, nan where there was nothing to compute
		return b.Items, b.Keys
	case tuples(a, b) && !b.Carries():
		return a.Items, a.Keys
	case len(a.Items) != len(b.Items) || !slices.Equal(a.Keys, b.Keys):
		return nil, nil
	}
	items := make([]Value, len(a.Items))
	for i := range items {
		items[i] = join(a.Items[i], b.Items[i])
	}
	return items, a.Keys
}

// combine is the result of an operation on several values: their graphs together.
func combine(values ...Value) Value {
	if len(values) == 0 {
		return scalar()
	}
	out := Value{}
	live, small, sure := false, true, false
	for _, v := range values {
		small = small && (v.Reduced || v.Kind == Scalar)
		sure = sure || v.Carries() && !v.Guess
		out.Freed, live = out.Freed || v.Freed, live || v.HasGraph() && !v.Freed
		out.Roots, out.From = union(out.Roots, v.Roots), out.From|v.From
		out.OnGPU = out.OnGPU || v.OnGPU
		out.Divided = out.Divided || v.Divided
		out.Trained = out.Trained || v.Trained || v.Kind == Params || v.Kind == Unknown || v.Kind == Model || v.Grad
		if rank(v.Kind) > rank(out.Kind) {
			out.Kind, out.OnCPU, out.Reduced, out.Double = v.Kind, v.OnCPU, v.Reduced, v.Double
		} else if v.IsTensor() && v.Kind == out.Kind {
			out.OnCPU, out.Reduced = out.OnCPU && v.OnCPU, out.Reduced && v.Reduced
		}
	}
	out.Freed = out.Freed && !live
	out.Guess = out.Carries() && !sure
	if out.Kind == Scalar && out.Carries() { // a number and what may be a tensor
		out.Kind, out.OnCPU = Unknown, false
	}
	if out.Kind == Unknown {
		out.Reduced = small
	}
	return out
}

// rank orders the kinds an operation may give: a tensor and a number make a tensor.
func rank(k Kind) int {
	switch k {
	case Tensor:
		return 4
	case Batch:
		return 3
	case Leaf:
		return 2
	case Scalar:
		return 1
	}
	return 0
}
