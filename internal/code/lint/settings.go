package lint

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// checkpointingIneffective is LM036.
func checkpointingIneffective(p *pass) {
	var enabled, cached, lora pysource.Node
	inputs, nonReentrant := p.sourceHas("enable_input_require_grads", "prepare_model_for_kbit_training", "prepare_model_for_int8_training"), p.sourceHas(`"use_reentrant": False`, "'use_reentrant': False", "use_reentrant=False")
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			switch {
			case (c.Method == "gradient_checkpointing_enable" && c.Recv != nil || isTrue(keyword(c.Node, "gradient_checkpointing"))) && !p.switchedOff(c.Ctx):
				enabled = c.Node
			case flow.Last(c.Name) == "get_peft_model":
				lora = c.Node
			case c.Name == "torch.utils.checkpoint.checkpoint_sequential" && oneSegment(c.Node):
				p.report(c.Node, Warning,
					"with one segment checkpoint_sequential checkpoints nothing: the last segment always runs as it is and keeps its activations",
					"divide it into two segments or more, with use_reentrant=False (PyTorch 2.0 or newer) unless the input requires a gradient")
				p.byHand()
			case oneOf(c.Name, "torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential") && keyword(c.Node, "use_reentrant") == nil && !splat(c.Node) && !inputRequiresGrad(s, c):
				severity := Warning
				if p.evaluationFile() {
					severity = Note
				}
				p.report(c.Node, severity,
					"without use_reentrant PyTorch 2 warns, and the reentrant kind recomputes nothing useful when no input requires a gradient: frozen embeddings or LoRA then get no gradient at all",
					reentrantAdvice(c))
				p.needs(Since20 | Freezes)
				if p.offByDefault(c.Ctx) {
					p.needs(Checkpoints)
				}
			}
			if isTrue(keyword(c.Node, "use_cache")) && !oneOf(c.Method, "generate") {
				cached = c.Node
			}
		}
		for _, b := range s.Binds {
			if strings.HasSuffix(b.Name, ".use_cache") && isTrue(b.Expr) {
				cached = b.Node
			}
		}
	}
	// A PeftModel made of a model that checkpoints already prepares its inputs itself (peft, PeftModel.__init__ and _prepare_model_for_gradient_checkpointing).
	switch {
	case enabled != nil && cached != nil && !p.sourceHas("use_cache = False", "use_cache=False"): // switched on again for generation
		p.report(cached, Warning, "the key-value cache is on while gradient checkpointing is: it keeps every layer's keys and values, and transformers switches one of the two off with no more than a log line",
			"use_cache=False for training")
	case enabled != nil && lora != nil && lora.Pos().Start < enabled.Pos().Start && !inputs && !nonReentrant:
		p.report(enabled, Warning, "with LoRA the embeddings are frozen, so the checkpointed blocks' input needs no gradient: reentrant checkpointing then breaks the graph",
			"call model.enable_input_require_grads(), or gradient_checkpointing_kwargs={\"use_reentrant\": False}")
	}
}

// oneSegment tells whether checkpoint_sequential is given a single segment
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/utils/checkpoint.py, checkpoint_sequential: the last chunk is run without checkpointing).
func oneSegment(c *pysource.Call) bool {
	x := keyword(c, "segments")
	if x == nil {
		x = positional(c, 1)
	}
	return isOne(x)
}

// reentrantAdvice says which kind of checkpointing to ask for. Frozen parameters that DeepSpeed ZeRO 3 gathered are empty again when the other kind
// compares what it recomputed (https://github.com/huggingface/transformers/issues/47254).
func reentrantAdvice(c *flow.Call) string {
	since := "(PyTorch 1.11 or newer)"
	if c.Method == "checkpoint_sequential" {
		since = "(PyTorch 2.0 or newer)"
	}
	return "pass use_reentrant=False " + since + "; with frozen parameters under DeepSpeed ZeRO 3, use_reentrant=True and an input that requires a gradient"
}

// offByDefault tells whether a place is reached only where a flag for checkpointing is set that is a parameter of the file, False unless somebody gives it.
func (p *pass) offByDefault(ctx *flow.Context) bool {
	for _, fn := range p.m.All {
		for _, prm := range fn.Node.Params {
			if !isFalse(prm.Default) || !checkpointFlag(prm.Name) {
				continue
			}
			for _, b := range ctx.Branches(nil) {
				if !b.Else && b.Test != nil && words(b.Test, func(w string) bool { return w == prm.Name }) {
					return true
				}
			}
		}
	}
	return false
}

// checkpointsByFlag tells whether a file gives such a flag anything but False or the flag of the same name that it was given itself, or makes it an
// option of the command line.
func checkpointsByFlag(m *flow.Module, shared *known) bool {
	if !shared.has("checkpoint", "_cp", "ckpt") {
		return false
	}
	sets := func(name string, x pysource.Expr) bool {
		key := flow.Key(x)
		return checkpointFlag(name) && x != nil && !isFalse(x) && key != name && key != "self."+name
	}
	for _, s := range m.Scopes {
		for _, b := range s.Binds {
			if sets(flow.Last(b.Name), b.Expr) {
				return true
			}
		}
		for _, c := range s.Calls {
			for _, a := range c.Node.Args {
				option, written := a.Value.(*pysource.String)
				if sets(a.Name, a.Value) || written && c.Method == "add_argument" && checkpointFlag(option.Value) {
					return true
				}
			}
		}
	}
	return false
}

func checkpointFlag(name string) bool {
	return containsAny(strings.ReplaceAll(name, "-", "_"), "use_checkpoint", "use_cp", "with_cp", "checkpointing", "grad_checkpoint", "grad_ckpt", "use_ckpt", "act_checkpoint")
}

// inputRequiresGrad tells whether what a checkpointed call is given was made to require a gradient before, or is asked whether it does.
func inputRequiresGrad(s *flow.Scope, c *flow.Call) bool {
	for _, b := range s.Binds {
		owner, ok := strings.CutSuffix(b.Name, ".requires_grad")
		if ok && b.Order < c.Order && !isFalse(b.Expr) && mentions(c.Node, owner) {
			return true
		}
	}
	for _, o := range s.Calls {
		if o.Method == "requires_grad_" && o.Order < c.Order && o.Recv != nil && !(len(o.Node.Args) > 0 && isFalse(o.Node.Args[0].Value)) && flow.Key(o.Recv) != "" && mentions(c.Node, flow.Key(o.Recv)) {
			return true
		}
	}
	for _, b := range c.Ctx.Branches(nil) {
		if !b.Else && b.Test != nil && asksForGrad(b.Test, c.Node) {
			return true
		}
	}
	return false
}

// asksForGrad tells whether a condition asks one of a call's arguments for its requires_grad.
func asksForGrad(test pysource.Node, c *pysource.Call) bool {
	found := false
	pysource.Walk(test, func(n pysource.Node) bool {
		if a, ok := n.(*pysource.Attribute); ok && a.Attr == "requires_grad" {
			key := flow.Key(a.X)
			found = found || key != "" && mentions(c, key)
		}
		return !found
	})
	return found
}

// switchedOff tells whether a place stands under an option that the file sets to False somewhere, as some do where LoRA is used.
func (p *pass) switchedOff(ctx *flow.Context) bool {
	for _, branch := range ctx.Branches(nil) {
		for _, s := range p.m.Scopes {
			for _, b := range s.Binds {
				if isFalse(b.Expr) && !branch.Else && mentions(branch.Test, b.Name) {
					return true
				}
			}
		}
	}
	return false
}

// cudnnBenchmark is LM037.
func cudnnBenchmark(p *pass) {
	if !p.variableShapes() {
		return
	}
	for _, s := range p.m.Scopes {
		for _, b := range s.Binds {
			if strings.HasSuffix(b.Name, "cudnn.benchmark") && isTrue(b.Expr) {
				p.report(b.Node, Note,
					"cuDNN tries its algorithms anew for every input shape and may take large workspaces for each; this file's inputs change their shape",
					"set benchmark = False, or bring the inputs to a few fixed sizes")
			}
		}
	}
}

// variableShapes tells whether the file makes inputs of changing shape: it calls something that does, by its whole name.
func (p *pass) variableShapes() bool {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if oneOf(c.Method, "RandomResize", "pad_sequence", "RandomShortestSize", "ScaleJitter", "ResizeShortestEdge", "DataCollatorWithPadding") {
				return true
			}
			for _, a := range c.Node.Args {
				list, many := a.Value.(*pysource.Sequence)
				if oneOf(a.Name, "scales", "multi_scale", "multiscale") && (many && len(list.Items) > 1 || isTrue(a.Value)) {
					return true
				}
				if text, ok := a.Value.(*pysource.String); ok && a.Name == "padding" && text.Value == "longest" {
					return true
				}
			}
		}
	}
	return false
}

// deepCopy is LM038.
func deepCopy(p *pass) {
	if !p.usesGPU() {
		return
	}
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if c.Name != "copy.deepcopy" || len(c.Args) == 0 || c.Args[0].Kind != flow.Model || c.Args[0].OnCPU || chained(p, c.Node) || inModule(s) {
				continue
			}
			p.report(c.Node, Note, "a second model on the same device: its parameters (and, unless frozen, its gradients) take memory again",
				"a copy that is never trained needs no gradients: `.requires_grad_(False)`, after DistributedDataParallel where it is wrapped; to remember the best weights, copy the state dict to the CPU instead")
		}
	}
}

// chained tells whether something is done to the copy at once: .cpu(), .requires_grad_(False).
func chained(p *pass, c *pysource.Call) bool {
	rest := string(p.m.File.Source[c.End:min(int(c.End)+40, len(p.m.File.Source))])
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Contains(line, ".cpu(") || strings.Contains(line, ".requires_grad_(False") || strings.Contains(line, `.to("cpu"`) || strings.Contains(line, ".to('cpu'") || strings.Contains(line, "state_dict")
}
