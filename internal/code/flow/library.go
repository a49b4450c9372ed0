package flow

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// library knows the calls of PyTorch and its neighbours by their dotted names.
func (f *follower) library(c *Call, args Value) (Value, bool) {
	name, last := c.Name, Last(c.Name)
	if name == "" {
		return Value{}, false
	}
	switch {
	case wrapper(last):
		return f.wrapped(c, last)
	case last == "DataLoader" || last == "StatefulDataLoader":
		return Value{Kind: Loader}, true
	case last == "GradScaler":
		return Value{Kind: Scaler}, true
	case last == "Accelerator" || name == "lightning.Fabric" || last == "Fabric":
		return Value{Kind: Helper}, true
	case strings.HasPrefix(name, "torch.optim.") && capital(last) && !strings.Contains(name, "lr_scheduler"), torch.IsOptimizerClass(last):
		return Value{Kind: Optimizer}, true
	case name == "torch.load":
		return Value{Kind: Checkpoint}, true
	case last == "from_pretrained" || last == "from_config":
		return pretrained(name), true
	case anyOf(name, "timm.create_model", "torch.hub.load", "peft.get_peft_model"), strings.HasPrefix(name, "torchvision.models.") && !capital(last):
		return Value{Kind: Model}, true
	case strings.HasPrefix(name, "torch.nn.functional."):
		return functional(last, args), true
	case strings.HasPrefix(name, "torch.nn.") && capital(last):
		return moduleInstance(last), true
	case last == "Variable" && len(c.Args) > 0: // since PyTorch 0.4 a Variable is its tensor
		v := c.Args[0]
		if v.Kind == Unknown && v.From == 0 {
			v.Kind = Leaf
		}
		v.Grad = v.Grad || leaf(c).Grad
		return v, true
	case (name == "copy.deepcopy" || name == "functools.partial" || name == "partial") && len(c.Args) > 0:
		return c.Args[0], true
	case strings.HasPrefix(name, "numpy.") || strings.HasPrefix(name, "sklearn."):
		return Value{Kind: Unknown, OnCPU: true}, true
	case strings.HasPrefix(name, "torch."):
		return f.torchFunction(c, last, args)
	}
	return Value{}, false
}

func capital(s string) bool { return s != "" && s[0] >= 'A' && s[0] <= 'Z' }

func wrapper(last string) bool {
	return anyOf(last, "DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "DataParallel", "fully_shard")
}

// wrapped is a model in a wrapper; the wrapper's full name is kept.
func (f *follower) wrapped(c *Call, last string) (Value, bool) {
	if len(c.Args) == 0 {
		return Value{}, false
	}
	v := c.Args[0]
	v.Kind = Model
	v.Wrap = map[string]string{"DDP": "DistributedDataParallel", "FSDP": "FullyShardedDataParallel", "fully_shard": "FullyShardedDataParallel"}[last]
	if v.Wrap == "" {
		v.Wrap = last
	}
	// fully_shard works in place: the model's own name is sharded from here on.
	if key := Key(c.Node.Args[0].Value); last == "fully_shard" && key != "" {
		f.env.set(key, v)
	}
	return v, true
}

func pretrained(name string) Value {
	class := Last(strings.TrimSuffix(name[:len(name)-len(Last(name))], ".")) // none where a function of its own is named so
	for _, no := range []string{"Tokenizer", "Processor", "Extractor", "Config", "Scheduler", "Pipeline", "Dataset"} {
		if strings.Contains(class, no) {
			return Value{}
		}
	}
	if strings.Contains(class, "Model") || strings.Contains(class, "For") || strings.Contains(class, "Net") || strings.Contains(class, "Autoencoder") {
		return Value{Kind: Model}
	}
	return Value{}
}

func moduleInstance(last string) Value {
	switch {
	case strings.HasSuffix(last, "Loss"):
		return Value{Kind: Criterion}
	case last == "Parameter" || last == "ParameterList" || last == "ParameterDict":
		return Value{Kind: Leaf, Grad: true}
	case last == "Module":
		return Value{}
	case !parametric(last):
		return Value{Kind: Activation}
	}
	return Value{Kind: Model, Class: "torch.nn." + last}
}

// parametric tells whether a module of torch.nn has, or holds modules that may have, parameters: only those start a graph of
// their own.
func parametric(last string) bool {
	for _, part := range []string{
		"Linear", "Conv", "Norm", "Embedding", "LSTM", "GRU", "RNN", "Attention", "Transformer", "PReLU", "Sequential", "ModuleList", "ModuleDict", "Lazy",
		"DataParallel", "SyncBatch", "AdaptiveLogSoftmax",
	} {
		if strings.Contains(last, part) {
			return true
		}
	}
	return false
}

// functional is a function of torch.nn.functional: the losses reduce, all keep the graph.
func functional(last string, args Value) Value {
	v := args
	if strings.HasSuffix(last, "_loss") || anyOf(last, "cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div") {
		v.Reduced, v.Divided = true, false
		if v.Kind == Unknown || v.Kind == Batch || v.Kind == Scalar {
			v.Kind = Tensor
		}
	}
	return v
}

// factories make tensors that autograd does not follow unless asked.
var factories = map[string]bool{
	"randn": true, "rand": true, "zeros": true, "ones": true, "empty": true, "full": true, "arange": true, "linspace": true,
	"randint": true, "tensor": true, "eye": true, "randperm": true, "normal": true, "logspace": true, "as_tensor": true, "from_numpy": true,
}

func (f *follower) torchFunction(c *Call, last string, args Value) (Value, bool) {
	switch {
	case anyOf(c.Name, "torch.numel", "torch.is_tensor", "torch.is_floating_point", "torch.allclose", "torch.device", "torch.finfo", "torch.save", "torch.manual_seed", "torch.equal", "torch.typename"):
		return scalar(), true
	case factories[last] && c.Name == "torch."+last:
		return leaf(c), true
	case c.Name == "torch.compile" || c.Name == "torch.jit.script" || c.Name == "torch.jit.trace":
		if len(c.Args) > 0 {
			return c.Args[0], true
		}
		return Value{}, false
	case c.Name == "torch.autograd.grad":
		return Value{Kind: Tensor}, true
	case c.Name == "torch.max" || c.Name == "torch.min" || c.Name == "torch.topk" || c.Name == "torch.sort":
		indices := args.detached()
		indices.Reduced = true
		if len(c.Node.Args) > 1 {
			return Value{Kind: Container, Roots: args.Roots, From: args.From, Items: []Value{args, indices}}, true
		}
		return args, true
	case noGraph[last]:
		args.Reduced = args.Reduced || last == "argmax" || last == "argmin"
		return args.detached(), true
	case strings.Count(c.Name, ".") > 1 && !strings.HasPrefix(c.Name, "torch.linalg.") && !strings.HasPrefix(c.Name, "torch.special."):
		return Value{}, false
	}
	if reductions[last] && len(c.Node.Args) == 1 {
		args.Reduced = true
	}
	if args.Kind == Unknown && args.HasGraph() {
		args.Kind = Tensor
	}
	return args, true
}

// leaf is a tensor made by a factory, as its keywords ask for it.
func leaf(c *Call) Value {
	v := Value{Kind: Leaf}
	for _, a := range c.Node.Args {
		text := ""
		if k, ok := a.Value.(*pysource.Constant); ok {
			text = k.Text
		}
		switch {
		case a.Name == "requires_grad":
			v.Grad = text != "False"
		case a.Name == "dtype" && strings.HasSuffix(Key(a.Value), "float64"), a.Name == "dtype" && strings.HasSuffix(Key(a.Value), "torch.double"):
			v.Double = true
		case a.Star > 0:
			v.Grad = true // unknown keywords may ask for gradients
		}
	}
	return v
}

// builtin knows Python's own functions.
func builtin(c *Call, args Value) (Value, bool) {
	if c.Recv != nil {
		switch c.Method {
		case "trange":
			return Value{Kind: Loader}, counts(c)
		case "tqdm", "track", "progress", "islice", "auto", "chain", "cycle":
			return Value{Kind: Loader}, loaderAmong(c.Args)
		}
		return Value{}, false
	}
	switch c.Method {
	case "trange", "range":
		if counts(c) {
			return Value{Kind: Loader}, true
		}
		return scalar(), true
	case "float", "int", "str", "len", "bool", "round", "print", "isinstance", "repr", "format", "hasattr", "id":
		return scalar(), true
	case "list", "tuple", "set", "dict", "sorted", "reversed", "deque", "defaultdict":
		if loaderAmong(c.Args) {
			return Value{Kind: Loader}, true
		}
		return Value{Kind: Container, Roots: args.Roots, From: args.From}, true
	case "sum", "max", "min", "abs", "getattr", "next", "iter":
		if loaderAmong(c.Args) {
			if c.Method == "next" {
				return Value{Kind: Batch}, true
			}
			return Value{Kind: Loader}, true
		}
		if args.HasGraph() {
			args.Kind = Tensor
		}
		return args.whole(), true
	case "enumerate", "zip", "tqdm", "islice", "cycle", "track", "progress_bar", "chain":
		if loaderAmong(c.Args) {
			return Value{Kind: Loader}, true
		}
		return Value{Kind: Container, Roots: args.Roots, From: args.From}, true
	}
	return Value{}, false
}

// counts recognises range(len(loader)) and range(len(dataset)).
func counts(c *Call) bool {
	for _, a := range c.Node.Args {
		n, ok := a.Value.(*pysource.Call)
		if ok && Key(n.Func) == "len" && len(n.Args) == 1 {
			last := strings.ToLower(Last(Key(n.Args[0].Value)))
			return strings.HasSuffix(last, "dataset") || named(last).Kind == Loader
		}
	}
	return false
}

func loaderAmong(args []Value) bool {
	for _, a := range args {
		if a.Kind == Loader {
			return true
		}
	}
	return false
}
