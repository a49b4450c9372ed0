package lint

import (
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

func itoa(n int) string { return strconv.Itoa(n) }

// dataParallel is LM020. What a wrapper costs it costs in training: where nothing shows that the wrapped model is trained, it is a note.
func dataParallel(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if c.Name != "torch.nn.DataParallel" && c.Name != "torch.nn.parallel.DataParallel" || oneDevice(c.Node) || p.boundToOneDevice(s, c.Node) || len(c.Args) > 0 && (c.Args[0].Kind == flow.Activation || c.Args[0].Kind == flow.Criterion || p.m.Passive(c.Args[0].Class) || namesLoss(c.Node.Args[0].Value)) || withoutGPU(c.Ctx) || oneGPU(c.Ctx) || p.neverTrains(s, c) {
				continue
			}
			fix := "one process per GPU (DistributedDataParallel) loads all GPUs alike. That is a change of the program, not of this line: plimsoll lint --explain LM020 lists what it asks for"
			if !p.givesLoss(s, c) {
				fix += ". Less to change, where the loss treats each sample by itself and keeps no state: compute it inside forward(), and return its sum and what it counts: two numbers per GPU are gathered. Divide the one total by the other, since the GPUs' shares of a batch may differ in size"
			}
			known, needs := p.trainsWrapped(s, c)
			if !known || mayBeOneDevice(s, c.Node) || p.neverRun(s, c) || p.speaksAgainstDDP() {
				p.report(c.Node, Note, "DataParallel gathers every output on the first GPU; where the model is trained, that GPU also holds all gradients and the optimizer state", "if it is trained: "+fix)
				continue
			}
			p.report(c.Node, Warning,
				"DataParallel gathers every output on the first GPU, which in training also holds all gradients and the optimizer state: that card is full before the others",
				fix)
			p.needs(needs)
			if needs != 0 && s.Func.Class == nil {
				p.within(s) // whoever calls it may only evaluate
			}
		}
	}
}

// oneDevice tells whether device_ids names a single GPU.
func oneDevice(c *pysource.Call) bool {
	list, ok := deviceIDs(c).(*pysource.Sequence)
	return ok && len(list.Items) == 1
}

// boundToOneDevice tells whether device_ids is a name that is given a single GPU, here or at the margin of the file, and nothing else.
func (p *pass) boundToOneDevice(s *flow.Scope, c *pysource.Call) bool {
	name, ok := deviceIDs(c).(*pysource.Name)
	if !ok || s.Func != nil && hasParam(s.Func.Node, name.ID) {
		return false
	}
	found := false
	for _, scope := range []*flow.Scope{s, p.m.Scopes[0]} {
		for _, b := range scope.Binds {
			if b.Name != name.ID {
				continue
			}
			list, written := b.Expr.(*pysource.Sequence)
			if !written || len(list.Items) != 1 {
				return false
			}
			found = true
		}
		if found {
			break
		}
	}
	return found
}

// mayBeOneDevice tells whether device_ids is a parameter that names a single GPU unless somebody says otherwise.
func mayBeOneDevice(s *flow.Scope, c *pysource.Call) bool {
	key := flow.Key(deviceIDs(c))
	for fn := s.Func; fn != nil && key != ""; fn = fn.Outer {
		for _, prm := range fn.Node.Params {
			if list, ok := prm.Default.(*pysource.Sequence); ok && flow.Last(key) == prm.Name && len(list.Items) == 1 {
				return true
			}
		}
	}
	return false
}

func deviceIDs(c *pysource.Call) pysource.Expr {
	if x := keyword(c, "device_ids"); x != nil {
		return x
	}
	return positional(c, 1)
}

// fullStateDict is LM028.
func fullStateDict(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			switch flow.Last(c.Name) {
			case "state_dict_type", "set_state_dict_type":
				if words(c.Node, func(w string) bool { return w == "FULL_STATE_DICT" }) && !p.offloads(s, c.Node) {
					p.reportGather(c.Node)
				}
			case "StateDictOptions":
				// With broadcast_from_rank0 the options are for loading: nothing is gathered.
				if isTrue(keyword(c.Node, "full_state_dict")) && !isTrue(keyword(c.Node, "cpu_offload")) && keyword(c.Node, "broadcast_from_rank0") == nil {
					p.reportGather(c.Node)
				}
			}
		}
	}
}

func (p *pass) reportGather(n pysource.Node) {
	p.report(n, Warning,
		"a full state dict gathers every shard on every GPU: for a moment each card needs the whole model",
		"save a sharded state dict (torch.distributed.checkpoint), or, where rank 0 alone uses it, offload it to the CPU there: FullStateDictConfig(offload_to_cpu=True, rank0_only=True), StateDictOptions(full_state_dict=True, cpu_offload=True)")
}

// namesLoss tells whether what is wrapped is a loss by its name: it gives numbers already.
func namesLoss(x pysource.Expr) bool {
	return slices.ContainsFunc(tokens(flow.Last(flow.Key(x))), func(t string) bool { return oneOf(t, "criterion", "loss", "crit") })
}

// oneGPU tells whether a place is reached only where there is one GPU: if n_gpu == 1, or the else of n_gpu > 1.
func oneGPU(ctx *flow.Context) bool {
	for _, b := range ctx.Branches(nil) {
		test, ok := b.Test.(*pysource.Compare)
		if !ok || len(test.Ops) != 1 || !words(test.Values[0], func(w string) bool { return containsAny(strings.ToLower(w), "gpu", "device_count", "world_size") }) {
			continue
		}
		n, written := literal(test.Values[1])
		one := written && (n == 1 && oneOf(test.Ops[0], "==", "<=") || n == 2 && test.Ops[0] == "<")
		many := written && (n == 1 && oneOf(test.Ops[0], ">", "!=") || n == 2 && test.Ops[0] == ">=")
		if one && !b.Else || many && b.Else {
			return true
		}
	}
	return false
}

// withoutGPU tells whether a place is reached only where there is no GPU: the else of a test for one.
func withoutGPU(ctx *flow.Context) bool {
	for _, b := range ctx.Branches(nil) {
		_, negated := b.Test.(*pysource.Unary)
		if test, ok := b.Test.(*pysource.Compare); ok && len(test.Ops) == 1 {
			if n, written := literal(test.Values[1]); written && n > 0 && !(n == 1 && test.Ops[0] == ">=") {
				continue // one card or several
			}
		}
		named := func(parts ...string) bool {
			return words(b.Test, func(w string) bool { return containsAny(strings.ToLower(w), parts...) })
		}
		if named("single", "one_gpu") {
			continue // one card or several
		}
		off := named("no_cuda", "no_gpu", "disable_cuda", "disable_gpu")
		if (b.Else != negated) != off && named("cuda", "gpu") {
			return true
		}
	}
	return false
}

// offloads tells whether the configuration passed along sends the tensors to the CPU.
func (p *pass) offloads(s *flow.Scope, c *pysource.Call) bool {
	for _, a := range c.Args[min(2, len(c.Args)):] {
		if a.Star > 0 {
			return true
		}
		if config, ok := a.Value.(*pysource.Call); ok && mayOffload(config) {
			return true
		}
		key := flow.Key(a.Value)
		for _, b := range s.Binds {
			if config, ok := b.Expr.(*pysource.Call); ok && b.Name == key && key != "" && mayOffload(config) {
				return true
			}
		}
		if key != "" && !boundIn(s, key) {
			return true // made elsewhere
		}
	}
	return false
}

// mayOffload tells whether a configuration sends tensors to the CPU, or may, by something that is known only when it runs.
func mayOffload(config *pysource.Call) bool {
	x := keyword(config, "offload_to_cpu")
	return x != nil && !isFalse(x)
}

func boundIn(s *flow.Scope, key string) bool {
	for _, b := range s.Binds {
		if b.Name == key {
			return true
		}
	}
	return false
}

// noSyncFSDP is LM029. "FSDP currently does not support gradient accumulation outside no_sync() when using CPU offloading"
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/distributed/fsdp/fully_sharded_data_parallel.py).
func noSyncFSDP(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			sharded := c.RecvValue.Wrap == "FullyShardedDataParallel"
			switch {
			case c.Method == "no_sync" && sharded:
			case c.Method == "set_requires_gradient_sync" && len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value) && !isFalse(keyword(c.Node, "recurse")): // one module alone is not the whole model
			default:
				continue
			}
			severity := Warning
			if p.sourceHas("offload", "Offload") { // with offloading gradients are added up inside no_sync alone
				severity = Note
			}
			p.report(c.Node, severity,
				"without synchronising, FSDP keeps the unsharded gradients of all that is trained on every GPU between micro-batches",
				"let it synchronise every micro-batch (Accelerate: sync_each_batch=True), which costs communication, not memory; not where parameters are offloaded to the CPU: there FSDP adds gradients up only inside no_sync()")
		}
	}
}

// ddpBuckets is LM032.
func ddpBuckets(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if flow.Last(c.Name) != "DistributedDataParallel" && flow.Last(c.Name) != "DDP" || !strings.HasPrefix(c.Name, "torch.") || splat(c.Node) {
				continue
			}
			if keyword(c.Node, "gradient_as_bucket_view") == nil {
				p.report(c.Node, Note,
					"DDP keeps the gradients twice: in .grad and in its communication buckets",
					"gradient_as_bucket_view=True (PyTorch 1.7 or newer) saves one copy of the gradients, unless your code detaches or replaces .grad")
			}
		}
	}
}
