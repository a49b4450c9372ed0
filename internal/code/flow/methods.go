package flow

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// method is a call on a value.
func (f *follower) method(c *Call, args Value) (Value, bool) {
	recv := c.RecvValue
	switch recv.Kind {
	case Model:
		return f.modelMethod(c)
	case Criterion, Activation:
		if anyOf(c.Method, "to", "cuda", "cpu", "half", "float", "eval", "train", "requires_grad_") {
			return recv, true
		}
		return f.moduleMethod(c, args)
	case Helper:
		return helperMethod(c)
	case Loader:
		return Value{Kind: Loader}, anyOf(c.Method, "__iter__")
	case Scaler:
		if c.Method == "scale" {
			return args, true
		}
		return Value{}, false
	case Container:
		switch c.Method {
		case "pop", "get", "values", "items", "copy", "popleft":
			if key, ok := stringArg(c.Node); ok && c.Method != "popleft" {
				if part, ok := recv.at(key); ok {
					return part, true
				}
			}
			v := recv.whole()
			if c.Method == "pop" || c.Method == "get" || c.Method == "popleft" {
				v = element(recv, OtherLoop)
			}
			return v, true
		}
		if !recv.HasGraph() {
			return Value{}, false
		}
	}
	if recv.IsTensor() || recv.HasGraph() {
		return f.tensorMethod(c, args), true
	}
	if recv.Kind == Unknown && recv.From != 0 && recv.Class == "" {
		if settings[Last(Key(c.Recv))] { // args.custom_accuracy(out, y): a function among the settings
			return Value{}, true
		}
		v := f.tensorMethod(c, args)
		if v.Kind == Tensor && !v.HasGraph() {
			v.Kind = Unknown
		}
		return v, true
	}
	if recv.Kind == Unknown {
		// Without knowing the tensor, what detaches still detaches.
		switch c.Method {
		case "item", "tolist", "numpy":
			return scalar(), true
		}
	}
	return Value{}, false
}

func stringArg(c *pysource.Call) (string, bool) {
	if len(c.Args) == 0 {
		return "", false
	}
	s, ok := c.Args[0].Value.(*pysource.String)
	if !ok {
		return "", false
	}
	return s.Value, true
}

func (f *follower) modelMethod(c *Call) (Value, bool) {
	v := c.RecvValue
	switch c.Method {
	case "to", "cuda", "half", "float", "bfloat16", "train", "eval", "requires_grad_", "share_memory", "apply", "compile", "to_empty", "type":
		v.OnCPU = false
		return v, true
	case "cpu":
		v.OnCPU = true
		return v, true
	case "double":
		v.Double = true
		return v, true
	case "parameters", "named_parameters":
		return Value{Kind: Params}, true
	case "forward", "__call__":
		return f.modelCall(c), true
	case "generate":
		return Value{Kind: Tensor}, true
	}
	if own, ok := f.ownCall(c); ok {
		return own, true
	}
	switch {
	case c.Method == "predict":
		return Value{Kind: Tensor}, true
	case strings.HasPrefix(c.Method, "encode") && v.Guess: // also text encoders that give arrays
	case runsForward(c.Method):
		made := f.modelCall(c)
		made.Guess = true // by its name alone: it may give a tuple, or numbers
		return made, true
	}
	return onGPU(c), true
}

// moduleMethod is a method of a module that has no parameters of its own.
func (f *follower) moduleMethod(c *Call, args Value) (Value, bool) {
	if v, ok := f.ownCall(c); ok && (v.Kind != Unknown || v.Carries()) {
		return v, true
	}
	if args.HasGraph() {
		return args, true
	}
	return onGPU(c), true
}

// onGPU is what an unknown method gives for a tensor on the GPU: most likely another.
func onGPU(c *Call) Value {
	for _, a := range c.Args {
		if a.IsTensor() && a.OnGPU {
			return Value{Kind: Leaf, OnGPU: true, Guess: true}
		}
	}
	return Value{}
}

// runsForward knows methods of models, and names of their parts, that run a forward pass.
func runsForward(method string) bool {
	for _, prefix := range []string{"forward_", "encode", "extract_feat", "get_image_feature", "get_text_feature"} {
		if strings.HasPrefix(method, prefix) {
			return true
		}
	}
	return anyOf(method, "module", "compute_loss", "get_loss", "calc_loss", "training_step", "validation_step", "test_step", "decoder", "backbone", "head")
}

// helperMethod is a call on an Accelerator or Fabric: prepare and setup give back what they got.
func helperMethod(c *Call) (Value, bool) {
	switch c.Method {
	case "prepare", "setup", "setup_dataloaders", "prepare_model", "prepare_data_loader":
		if len(c.Args) == 1 {
			return c.Args[0], true
		}
		return Value{Kind: Container, Items: c.Args}, true
	case "gather", "gather_for_metrics", "reduce", "pad_across_processes", "unwrap_model":
		if len(c.Args) == 0 {
			return Value{}, false
		}
		return c.Args[0], true
	}
	return Value{}, false
}

// Methods of a tensor whose result carries no graph: positions, comparisons, integers. Source: torch.autograd marks the
// outputs of these as not differentiable (tools/autograd/derivatives.yaml, output_differentiability, 2.11).
var noGraph = map[string]bool{
	"argmax": true, "argmin": true, "argsort": true, "eq": true, "ne": true, "gt": true, "lt": true, "ge": true, "le": true, "nonzero": true,
	"long": true, "int": true, "bool": true, "isnan": true, "isinf": true, "isfinite": true, "bincount": true, "unique": true, "any": true, "all": true,
	"byte": true, "short": true, "equal": true, "multinomial": true,
}

// Reductions give results that are small whatever the batch holds.
var reductions = map[string]bool{"mean": true, "sum": true, "norm": true, "std": true, "var": true, "prod": true, "nansum": true, "nanmean": true}

func (f *follower) tensorMethod(c *Call, args Value) Value {
	recv := c.RecvValue
	switch c.Method {
	case "item", "tolist":
		return scalar()
	case "numpy", "astype":
		v := scalar()
		v.Reduced = recv.Reduced
		return v
	case "size", "dim", "numel", "ndimension", "stride", "element_size", "data_ptr", "get_device", "backward", "keys":
		return scalar()
	case "detach", "detach_":
		return recv.detached()
	case "cpu":
		recv = recv.whole()
		recv.OnCPU, recv.OnGPU = true, false
		return recv
	case "cuda":
		recv.OnCPU, recv.OnGPU = false, true
		return recv
	case "to":
		recv = recv.whole()
		if len(c.Node.Args) > 0 {
			recv.OnCPU = f.isCPU(c.Node.Args[0].Value)
			recv.OnGPU = !recv.OnCPU && f.isGPU(c.Node.Args[0].Value)
		}
		return recv
	case "double":
		recv.Double = true
		return recv
	case "requires_grad_":
		recv.Grad = true
		return recv
	case "max", "min", "topk", "sort", "median", "kthvalue", "mode":
		if len(c.Node.Args) == 0 {
			recv.Reduced = true
			return recv
		}
		indices := recv.detached()
		indices.Reduced = true
		return Value{Kind: Container, Roots: recv.Roots, From: recv.From, Items: []Value{recv, indices}}
	case "div", "div_", "true_divide":
		v := combine(recv, args)
		v.Divided = true
		return v
	}
	if noGraph[c.Method] {
		recv.Reduced = recv.Reduced || anyOf(c.Method, "argmax", "argmin", "eq", "ne", "gt", "lt", "ge", "le", "equal", "any", "all")
		return recv.detached()
	}
	v := combine(recv, args)
	v.Kind = recv.Kind
	if recv.Kind == Container || recv.Kind == Unknown {
		v.Kind = Tensor
	}
	if reductions[c.Method] && len(c.Node.Args) == 0 {
		v.Reduced = true
	} else if !reductions[c.Method] {
		v.Reduced = recv.Reduced
	}
	return v
}

func (f *follower) isCPU(x pysource.Expr) bool {
	if s, ok := x.(*pysource.String); ok {
		return s.Value == "cpu"
	}
	c, ok := x.(*pysource.Call)
	return ok && Last(f.m.Dotted(c.Func)) == "device" && len(c.Args) > 0 && f.isCPU(c.Args[0].Value)
}

// isGPU tells whether an expression names a GPU in so many words, or a device.
func (f *follower) isGPU(x pysource.Expr) bool {
	switch x := x.(type) {
	case *pysource.String:
		return strings.HasPrefix(x.Value, "cuda")
	case *pysource.Call:
		return Last(f.m.Dotted(x.Func)) == "device" && len(x.Args) > 0 && f.isGPU(x.Args[0].Value)
	}
	return strings.HasSuffix(strings.ToLower(Last(Key(x))), "device")
}
