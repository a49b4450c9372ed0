package lint

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// softmaxBeforeLoss is LM041: a softmax in front of nn.CrossEntropyLoss. In front of F.cross_entropy it is LM034.
func softmaxBeforeLoss(p *pass) {
	if !p.sourceHas("CrossEntropyLoss") {
		return
	}
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if len(c.Node.Args) == 0 || !p.crossEntropyObject(s, c) {
				continue
			}
			if at := p.softmaxed(s, c); at != nil && !p.reportedAt(at) {
				if c.Ctx.NoGrad == flow.Off {
					p.report(at, Warning, "CrossEntropyLoss applies log-softmax itself: of probabilities it gives another loss than the intended one",
						"pass the raw logits to the loss; take the softmax only where probabilities are wanted")
					continue
				}
				p.report(at, Warning,
					"CrossEntropyLoss applies log-softmax itself: this softmax keeps one more tensor of the size of the logits for backward, flattens the gradients, and the loss is not the intended one",
					"pass the raw logits to the loss; take the softmax only where probabilities are wanted")
			}
		}
	}
}

// crossEntropyObject tells whether a call runs an nn.CrossEntropyLoss.
func (p *pass) crossEntropyObject(s *flow.Scope, c *flow.Call) bool {
	key := flow.Key(c.Node.Func)
	if key == "" {
		made, ok := c.Node.Func.(*pysource.Call) // nn.CrossEntropyLoss()(out, y)
		return ok && p.m.Dotted(made.Func) == "torch.nn.CrossEntropyLoss"
	}
	found, other := false, false
	for _, scope := range p.m.Scopes {
		for _, b := range scope.Binds {
			if b.Name != key || scope != s && scope != p.m.Scopes[0] && !strings.HasPrefix(key, "self.") {
				continue
			}
			made, ok := b.Expr.(*pysource.Call)
			is := ok && words(made, func(w string) bool { return w == "CrossEntropyLoss" })
			found, other = found || is, other || !is
		}
	}
	return found && !other
}

// softmaxed finds the softmax behind what a loss gets first: written there, bound to its name, or at the end of the model's forward.
func (p *pass) softmaxed(s *flow.Scope, loss *flow.Call) pysource.Node {
	x := p.written(s, loss.Node.Args[0].Value)
	c, ok := x.(*pysource.Call)
	if !ok {
		return nil
	}
	if p.isSoftmax(c) {
		if at := callSite(s, c); at != nil && at.Order > loss.Order {
			return nil // taken after the loss
		}
		return c
	}
	site := callSite(s, c)
	if site == nil || site.Callee.Kind != flow.Model {
		return nil
	}
	class := p.m.Classes[site.Callee.Class]
	if class == nil || class.Ambiguous || class.Methods["forward"] == nil || class.Methods["forward"].Scope == nil {
		return nil
	}
	returns := class.Methods["forward"].Scope.Returns
	if len(returns) != 1 || returns[0].X == nil {
		return nil
	}
	if c, ok := p.written(class.Methods["forward"].Scope, returns[0].X).(*pysource.Call); ok && (p.isSoftmax(c) || p.softmaxLayer(class, flow.Key(c.Func))) {
		return c
	}
	return nil
}

func (p *pass) isSoftmax(c *pysource.Call) bool {
	if oneOf(p.m.Dotted(c.Func), "torch.softmax", "torch.nn.functional.softmax") {
		return true
	}
	made, ok := c.Func.(*pysource.Call) // nn.Softmax(dim=1)(x)
	if ok && p.m.Dotted(made.Func) == "torch.nn.Softmax" {
		return true
	}
	a, ok := c.Func.(*pysource.Attribute)
	return ok && a.Attr == "softmax" && len(c.Args) == 1 && p.m.Imports[flow.Key(a.X)] == "" && flow.Key(a.X) != "self"
}

// softmaxLayer tells whether an attribute of the class is an nn.Softmax.
func (p *pass) softmaxLayer(class *flow.Class, key string) bool {
	init := class.Methods["__init__"]
	if init == nil || init.Scope == nil {
		return false
	}
	made, ok := onlyBinding(init.Scope, key).(*pysource.Call)
	return ok && p.m.Dotted(made.Func) == "torch.nn.Softmax"
}

// trainNotRestored is LM042: eval() inside a training loop and no train() there.
func trainNotRestored(p *pass) {
	for _, s := range p.m.Scopes {
		for _, l := range s.Loops {
			if l.Parent != nil || !p.trainsIn(s, l) {
				continue
			}
			at := p.leftInEval(s, l)
			switch {
			case at == nil:
			case p.sameInEval():
				p.report(at, Note,
					"the model is switched to eval mode inside the training loop and never back; nothing in this file has dropout or batch norm, so it changes nothing yet",
					"call `model.train()` at the start of each training epoch, and put layers that are to stay in eval mode back into it")
			default:
				p.report(at, Warning,
					"the model is switched to eval mode inside the training loop and never back: from the second iteration on dropout is off and batch norm no longer learns. It does not affect memory, but it changes the training",
					"call `model.train()` at the start of each training epoch, and put layers that are to stay in eval mode back into it")
			}
		}
	}
}

// sameInEval tells whether the file makes its own model and no layer in it differs between the modes.
func (p *pass) sameInEval() bool {
	source := p.m.File.Source
	return contains(source, "nn.Module", "nn.Sequential") && !contains(source, "ropout", "atchNorm", "nn.Transformer", "models", "from_pretrained", "timm", "hub.load")
}

func (p *pass) trainsIn(s *flow.Scope, l *flow.Loop) bool {
	for _, b := range p.backwards(s) {
		if b.call.Ctx.Inside(l) && b.call.Method == "backward" {
			return true
		}
	}
	return false
}

// leftInEval finds the switch to eval mode in a loop that nothing in it takes back.
func (p *pass) leftInEval(s *flow.Scope, l *flow.Loop) pysource.Node {
	var at *flow.Call
	for _, c := range s.Calls {
		if !c.Ctx.Inside(l) {
			continue
		}
		switch {
		case c.Method == "eval" && c.RecvValue.Kind == flow.Model && len(c.Node.Args) == 0:
			at = c
		case s.CallReaches(c, "train") || strings.Contains(strings.ToLower(c.Method), "train"):
			return nil
		case s.Callee(c) == nil && anyModel(c.Args) && c.Callee.Kind == flow.Unknown && c.Recv == nil && !plainCall(c.Method):
			return nil // handed to code we do not see
		}
	}
	if at == nil || !p.trainedIn(s, l, flow.Key(at.Recv)) || len(at.Ctx.Branches(l)) > 0 && leavesAfter(at, l) {
		return nil
	}
	for _, b := range p.backwards(s) { // trained in eval mode on purpose: the switch stands before the backward, in the same loop
		if at.Order < b.call.Order && b.call.Ctx.Inside(l) {
			return nil
		}
	}
	return at.Node
}

// trainedIn tells whether a backward of the loop runs over what the model gave: an average of it is only evaluated.
func (p *pass) trainedIn(s *flow.Scope, l *flow.Loop, key string) bool {
	for _, c := range s.Calls {
		if key != "" && c.Ctx.Inside(l) && modelRun(c) && modelKey(c) == key && p.inTraining(s, c) {
			return true
		}
	}
	return false
}

func plainCall(method string) bool {
	return oneOf(method, "print", "len", "isinstance", "getattr", "hasattr", "next", "iter", "id", "type", "list", "range")
}

func anyModel(args []flow.Value) bool {
	for _, a := range args {
		if a.Kind == flow.Model {
			return true
		}
	}
	return false
}

// leavesAfter tells whether the branch of a call ends the loop.
func leavesAfter(c *flow.Call, l *flow.Loop) bool {
	for _, st := range l.Body {
		found := false
		pysource.Walk(st, func(n pysource.Node) bool {
			if w, ok := n.(*pysource.Word); ok && w.Keyword == "break" && w.Start > c.Node.Start {
				found = true
			}
			if r, ok := n.(*pysource.Return); ok && r.Start > c.Node.Start {
				found = true
			}
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

// gpuSync is LM043: what makes the CPU wait for the GPU in every batch of a training loop.
func gpuSync(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			loop := c.Ctx.InnermostLoop()
			if loop == nil || !p.inTrainingLoop(s, c.Ctx) || len(c.Ctx.Branches(loop)) > 0 || loop.Kind != flow.LoaderLoop {
				continue
			}
			waits := c.Recv != nil && c.RecvValue.IsTensor() && !c.RecvValue.OnCPU && oneOf(c.Method, "item", "cpu", "tolist", "numpy", "nonzero")
			if !waits && c.Name != "torch.cuda.synchronize" {
				continue
			}
			p.report(c.Node, Note,
				"`"+p.text(c.Node)+"` waits for the GPU in every batch: the next batch's kernels are queued only after this one's have run",
				"add up on the GPU with .detach() and read the number every hundred batches, under `if step % 100 == 0:`")
		}
	}
}

// denseEmbedding is LM044. The gradient of an embedding without sparse=True has the size of the whole table
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/Embedding.cpp, embedding_dense_backward).
func denseEmbedding(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if c.Name != "torch.nn.Embedding" && c.Name != "torch.nn.EmbeddingBag" || isTrue(keyword(c.Node, "sparse")) || splat(c.Node) || len(c.Node.Args) < 2 {
				continue
			}
			rows, ok := s.Int(c.Node.Args[0].Value)
			width, ok2 := s.Int(c.Node.Args[1].Value)
			if !ok || !ok2 || rows < 500_000 || width < 1 || rows*width < 1<<26 {
				continue
			}
			gib := float64(rows*width*4) / (1 << 30)
			p.report(c.Node, Note,
				fmt.Sprintf("the gradient of this table is dense: %.1f GiB in float32 beside the table itself, and Adam keeps two more of them, though a batch touches few of its %d rows", gib, rows),
				"sparse=True with torch.optim.SparseAdam or SGD, which keep only the rows of the batch; not together with weight decay, gradient clipping, DDP over NCCL, or a table that another layer shares")
		}
	}
}

// frozenInOptimizer is LM045.
func frozenInOptimizer(p *pass) {
	p.optimizers(func(s *flow.Scope, made *flow.Call, model string) {
		if p.partlyFrozen(s, model, made.Order) && !p.sourceHas("requires_grad = True", "requires_grad_(True)", "requires_grad_()", "unfreeze") { // else what is frozen now is trained later
			p.report(made.Node.Args[0].Value, Note,
				"some of these parameters are frozen. PyTorch's optimizers make no state for a parameter without gradient, so nothing is lost here; DeepSpeed, FSDP with flat parameters and fused 8-bit optimizers hold state for all they are given",
				"pass only what is trained: `filter(lambda p: p.requires_grad, "+model+".parameters())`; state that was saved for the longer list no longer fits, and what is unfrozen later has to be added with add_param_group()")
		}
	})
}

// partlyFrozen tells whether a part of the model is frozen in this body before the optimizer is made.
func (p *pass) partlyFrozen(s *flow.Scope, model string, before int) bool {
	for _, c := range s.Calls {
		key := ""
		if c.Recv != nil {
			key = flow.Key(c.Recv)
		}
		if c.Order < before && c.Method == "requires_grad_" && strings.HasPrefix(key, model+".") && len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value) {
			return true
		}
	}
	for _, b := range s.Binds {
		if b.Order >= before || !strings.HasSuffix(b.Name, ".requires_grad") || !isFalse(b.Expr) {
			continue
		}
		if l := b.Ctx.InnermostLoop(); l != nil && l.Iter != nil && mentionsPrefix(l.Iter, model) {
			return true
		}
	}
	return false
}

// mentionsPrefix tells whether an expression mentions a key or a part of it: model.encoder of model.
func mentionsPrefix(x pysource.Node, key string) bool {
	found := false
	pysource.Walk(x, func(n pysource.Node) bool {
		if e, ok := n.(pysource.Expr); ok {
			k := flow.Key(e)
			found = found || k == key || strings.HasPrefix(k, key+".")
		}
		return !found
	})
	return found
}

// trainerEvaluation is LM046. Trainer.evaluation_loop calls prediction_step with autograd on, and Trainer's own prediction_step opens
// no_grad itself: an override that does not records a graph for every evaluation batch
// (https://github.com/huggingface/transformers/blob/v4.57.0/src/transformers/trainer.py, evaluation_loop and prediction_step).
func trainerEvaluation(p *pass) {
	for _, c := range p.m.Classes {
		fn := c.Methods["prediction_step"]
		if fn == nil || fn.Scope == nil || fn.NoGrad || !c.Derives("Trainer", "Seq2SeqTrainer", "SFTTrainer", "DPOTrainer") || p.wantsGradients(fn.Scope) {
			continue
		}
		for _, call := range fn.Scope.Calls {
			runs := modelRun(call) || call.Method == "compute_loss" && call.Recv != nil && flow.Key(call.Recv) == "self"
			if runs && call.Ctx.NoGrad == flow.Recording {
				p.report(call.Node, Error,
					"the Trainer calls prediction_step with autograd on and leaves no_grad to it; this override does not open it: every evaluation batch records a graph and needs the memory of training",
					"wrap it in `with torch.no_grad():`, as Trainer.prediction_step does")
				p.within(fn.Scope)
				break
			}
		}
	}
}
