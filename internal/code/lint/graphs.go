package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// retainGraph is LM005.
func retainGraph(p *pass) {
	for _, s := range p.m.Scopes {
		backs := p.backwards(s)
		for i, b := range backs {
			loop := b.call.Ctx.InnermostLoop()
			if !b.retain || b.create || loop == nil || !builtInside(s, b, loop) || needsGraphAgain(s, backs[i+1:], b, loop) || p.carriedOver(s, b, loop) || p.mayShareGraph(s, b, loop) || handedOn(s, b, loop) || p.ingredientsUsed(s, b, loop) || p.modelKeepsGraph() {
				continue
			}
			fix := "does anything else go through this graph? If not, drop retain_graph; where several losses share a graph, retain it for all but the last backward, or add the losses up"
			if p.reportedIn("LM004", loop) {
				fix = "first detach the state that goes from batch to batch (LM004), then drop retain_graph; in the other order backward fails"
			}
			p.report(b.call.Node, Warning,
				"retain_graph=True keeps this iteration's activations after the backward that was meant to free them, and nothing seen in the loop uses the graph again", fix)
			p.explains(loop)
		}
	}
}

// carriedOver tells whether the graph reaches out of the iteration: what the loss is computed from is bound before the loop and not
// plain data, or goes on into the next turn, is returned, kept, or back-propagated in a loop further out.
func (p *pass) carriedOver(s *flow.Scope, b backward, l *flow.Loop) bool {
	for _, bind := range s.Binds {
		if !b.value.Shares(bind.Value) && !bind.Value.HasGraph() {
			continue
		}
		if !bind.Ctx.Inside(l) {
			if bind.Order < b.call.Order && usedIn(l, bind.Name) && !rebound(s, bind.Name, l) {
				return true // made before the loop, used in it
			}
			continue
		}
		if bind.Value.HasGraph() && usedBefore(s, l, bind) && !p.reportedIn("LM004", l) {
			return true // brought from one turn into the next
		}
	}
	for _, st := range s.Stores {
		if st.Value.Shares(b.value) && !st.Value.Reduced {
			return true
		}
	}
	for _, r := range s.Returns {
		if r.Value.Shares(b.value) {
			return true
		}
	}
	for _, o := range p.backwards(s) { // a later backward in a loop around this one
		if o.call != b.call && !o.call.Ctx.Inside(l) && o.value.Shares(b.value) {
			return true
		}
	}
	return false
}

// mayShareGraph tells whether the loss is computed from something that was there before the loop and that nothing is known of: features of a
// style image, given as an argument, bring a graph that every iteration's backward goes through.
func (p *pass) mayShareGraph(s *flow.Scope, b backward, l *flow.Loop) bool {
	for _, bind := range s.Binds {
		if bind.Expr != nil && bind.Ctx.Inside(l) && (bind.Value.Shares(b.value) || bind.Name == flow.Key(b.call.Recv)) && p.opaque(s, bind.Expr, l) {
			return true
		}
	}
	return p.opaque(s, b.call.Recv, l)
}

// handedOn tells whether what the loss is made of is given, after the backward, to something that may go through the graph again.
func handedOn(s *flow.Scope, b backward, l *flow.Loop) bool {
	for _, c := range s.Calls {
		if c.Order <= b.call.Order || !c.Ctx.Inside(l) || oneOf(flow.Last(c.Name), "print", "float", "str", "len") || oneOf(c.Method, "append", "add_scalar", "log", "info", "set_postfix", "set_description", "format", "write", "item", "detach") {
			continue
		}
		if strings.HasPrefix(c.Name, "torch.") || strings.HasPrefix(c.Name, "numpy.") {
			continue
		}
		for _, v := range c.Args {
			if v.HasGraph() && v.Shares(b.value) {
				return true
			}
		}
	}
	return false
}

// modelKeepsGraph tells whether a module of the file brings a graph from one forward into the next: a state that forward reads and writes, or
// something that __init__ computed from parameters.
func (p *pass) modelKeepsGraph() bool {
	for _, class := range p.m.Classes {
		forward, init := class.Methods["forward"], class.Methods["__init__"]
		if !class.Module || forward == nil || init == nil {
			continue
		}
		for _, b := range forward.Scope.Binds {
			if strings.HasPrefix(b.Name, "self.") && slices.ContainsFunc(forward.Scope.Calls, func(c *flow.Call) bool { return mentions(c.Node, b.Name) }) {
				return true
			}
		}
		for _, b := range init.Scope.Binds {
			c, ok := b.Expr.(*pysource.Call)
			if !ok || !strings.HasPrefix(b.Name, "self.") {
				continue
			}
			if name := p.m.Dotted(c.Func); strings.HasPrefix(name, "torch.") && !strings.HasPrefix(name, "torch.nn.") && words(c, func(w string) bool { return w == "self" }) {
				return true
			}
		}
	}
	return false
}

// opaque tells whether an expression takes in a value from before a loop that may be anything.
func (p *pass) opaque(s *flow.Scope, x pysource.Expr, l *flow.Loop) bool {
	switch x := x.(type) {
	case *pysource.Call:
		for _, a := range x.Args {
			if p.opaque(s, a.Value, l) {
				return true
			}
		}
		if f, ok := x.Func.(*pysource.Attribute); ok && (flow.Key(f.X) == "" || s.Holds(flow.Key(f.X)).Kind != flow.Unknown) {
			return p.opaque(s, f.X, l)
		}
	case *pysource.Binary:
		return p.opaque(s, x.Left, l) || p.opaque(s, x.Right, l)
	case *pysource.Unary:
		return p.opaque(s, x.X, l)
	case *pysource.Sequence:
		for _, item := range x.Items {
			if p.opaque(s, item, l) {
				return true
			}
		}
	case *pysource.Subscript:
		return p.opaque(s, x.X, l) || partOfEarlier(s, x, l)
	case *pysource.Name, *pysource.Attribute:
		return p.opaqueName(s, flow.Key(x), l)
	}
	return false
}

// partOfEarlier tells whether an element is taken of something that was made before a loop and is not known to be data: elements computed together
// share a graph.
func partOfEarlier(s *flow.Scope, x *pysource.Subscript, l *flow.Loop) bool {
	key := flow.Key(x.X)
	v := s.Holds(key)
	if key == "" || isTarget(key, l) || v.Kind == flow.Batch || v.Kind == flow.Leaf || v.Kind == flow.Scalar || config(key) {
		return false
	}
	return !slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool { return b.Name == key && b.Ctx.Inside(l) })
}

func (p *pass) opaqueName(s *flow.Scope, key string, l *flow.Loop) bool {
	first, rest, _ := strings.Cut(key, ".")
	if first == "self" {
		first, _, _ = strings.Cut(rest, ".")
	}
	if loaded := p.m.Scopes[0].Holds(key); s.Func != nil && !hasParam(s.Func.Node, first) && !boundIn(s, key) && (loaded.HasGraph() || loaded.Grad || loaded.Trained) {
		return true // computed when the file was loaded
	}
	if key == "" || p.m.Imports[first] != "" || p.m.Functions[first] != nil || p.m.Classes[first] != nil || config(first) {
		return false
	}
	bound := s.Func != nil && (hasParam(s.Func.Node, first) || first != key && s.Func.Class != nil)
	for _, b := range s.Binds {
		if b.Name != key && b.Name != first {
			continue
		}
		if bound = true; b.Ctx.Inside(l) {
			return false
		}
	}
	if strings.HasPrefix(key, "self.") && s.Holds(key).Kind == flow.Tensor {
		return true // made by another method
	}
	return bound && s.Holds(key).Kind == flow.Unknown && !isTarget(key, l)
}

// config knows names of settings and numbers.
func config(name string) bool {
	return oneOf(strings.ToLower(name), "args", "cfg", "config", "hparams", "hp", "params", "device", "dtype", "epoch", "step", "alpha", "beta", "gamma", "weight", "weights", "true", "false") ||
		strings.HasPrefix(name, "lambda") || strings.HasPrefix(name, "n_") || strings.HasPrefix(name, "num_") || strings.ToUpper(name) == name
}

// reportedIn tells whether another rule has a finding within a loop.
func (p *pass) reportedIn(rule string, l *flow.Loop) bool {
	first, last := p.m.File.Position(l.Node.Pos().Start).Line, p.m.File.Position(l.Node.Pos().End).Line
	return slices.ContainsFunc(*p.out, func(f Finding) bool { return f.Rule == rule && f.Line >= first && f.Line <= last })
}

// usedBefore tells whether a loop reads a name before it binds it: what it reads comes from the turn before.
func usedBefore(s *flow.Scope, l *flow.Loop, bind *flow.Bind) bool {
	for _, c := range s.Calls {
		if c.Ctx.Inside(l) && c.Order < bind.Order && mentions(c.Node, bind.Name) {
			first := true
			for _, other := range s.Binds {
				first = first && !(other.Name == bind.Name && other.Ctx.Inside(l) && other.Order < c.Order)
			}
			if first {
				return true
			}
		}
	}
	return false
}

// builtInside tells whether the graph is made anew in each iteration: the loss is bound in the loop, or made in the
// expression itself. A graph made before the loop has to be retained.
func builtInside(s *flow.Scope, b backward, l *flow.Loop) bool {
	x := b.call.Recv
	if len(b.call.Node.Args) > 0 && b.call.Node.Args[0].Name == "" {
		x = b.call.Node.Args[0].Value
	}
	for _, bind := range s.Binds {
		if _, target := bind.Node.(*pysource.For); !target && bind.Ctx.Inside(l) && bind.Expr != nil && mentions(x, bind.Name) {
			return true
		}
	}
	made := false
	pysource.Walk(x, func(n pysource.Node) bool {
		if c, ok := n.(*pysource.Call); ok {
			site := callSite(s, c)
			made = made || site != nil && (modelRun(site) || site.Callee.Kind == flow.Criterion)
		}
		return !made
	})
	return made
}

// needsGraphAgain tells whether a later backward or autograd.grad in the loop runs over a graph again.
func needsGraphAgain(s *flow.Scope, later []backward, b backward, l *flow.Loop) bool {
	for _, o := range later {
		if o.call.Ctx.Inside(l) {
			return true
		}
	}
	for _, c := range s.Calls {
		if c.Order > b.call.Order && c.Ctx.Inside(l) && (c.Name == "torch.autograd.grad" || s.CallReaches(c, "backward") && c.Method != "backward") {
			return true
		}
	}
	// A backward inside a loop over losses or tasks shares the graph with its own next turn.
	return l.Kind == flow.OtherLoop && l.Parent != nil || l.Kind == flow.OtherLoop && words(l.Iter, func(w string) bool { return strings.Contains(strings.ToLower(w), "loss") })
}

// createGraph is LM006. zero_grad() breaks the cycle: since PyTorch 2.0 it sets every .grad to None, before that it detached them
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/optim/optimizer.py: zero_grad). Whoever calls the function may do so.
func createGraph(p *pass) {
	for _, s := range p.m.Scopes {
		for _, b := range p.backwards(s) {
			switch {
			case !b.create:
			case p.sourceHas("zero_grad", ".grad = None", "del p.grad") || s.Func != nil && b.call.Ctx.InnermostLoop() == nil:
				p.report(b.call.Node, Note,
					"backward(create_graph=True) ties each parameter to its gradient in a reference cycle: until the gradients are cleared, the graph stays, whoever drops the loss",
					"clear the gradients once they have been used (optimizer.zero_grad() after the step); where nothing reads .grad, torch.autograd.grad(loss, params, create_graph=True) makes no cycle")
			default:
				p.report(b.call.Node, Warning,
					"backward(create_graph=True) ties each parameter to its gradient in a reference cycle, and nothing here clears the gradients: the graph stays until the garbage collector runs",
					"set every .grad to None once it has been used (optimizer.zero_grad() after the step); where nothing reads .grad, torch.autograd.grad(loss, params, create_graph=True) makes no cycle")
			}
		}
	}
}

var hookRegistrations = map[string]bool{
	"register_forward_hook": true, "register_forward_pre_hook": true, "register_full_backward_hook": true, "register_backward_hook": true,
}

// hookStores is LM008.
func hookStores(p *pass) {
	removes := p.sourceHas(".remove()")
	p.hookObjects(removes)
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if !hookRegistrations[c.Method] || c.Recv == nil || len(c.Node.Args) == 0 {
				continue
			}
			at := p.keptByHook(s, c.Node.Args[0].Value)
			switch {
			case at == nil || removes || p.emptied(at):
			case strings.Contains(c.Method, "backward"):
				p.report(at, Note,
					"this hook adds gradients to a container at every backward, and no handle.remove() ends it",
					"empty the container after use and remove the handle, or keep them on the CPU")
			default:
				p.report(at, Warning,
					"this hook adds a tensor to a container at every forward, graph and GPU memory included, and no handle.remove() ends it",
					"empty the container after use and remove the handle; keep `output.detach().cpu()` (of a tuple, each tensor in it) where no loss is computed from it")
			}
		}
	}
}

// emptied tells whether the container of an append is emptied or made anew somewhere in the file: its tensors are for one forward, and a loss
// may need their graph.
func (p *pass) emptied(at pysource.Node) bool {
	c, ok := at.(*pysource.Call)
	if !ok {
		return false
	}
	f, ok := c.Func.(*pysource.Attribute)
	if !ok {
		return false
	}
	name := flow.Last(flow.Key(f.X))
	if name == "" {
		return false
	}
	text := string(p.m.File.Source)
	return strings.Contains(text, "del self."+name+"[") || strings.Contains(text, "del "+name+"[") || strings.Contains(text, name+".pop(") || strings.Contains(text, name+".clear()") || strings.Contains(text, name+"[:]") || strings.Count(text, name+" = []") > 1 || strings.Count(text, name+" = {}") > 1
}

// hookObjects finds classes whose objects are forward hooks: __call__ takes a module, its input and its output, and keeps the output.
func (p *pass) hookObjects(removes bool) {
	for _, c := range p.m.Classes {
		call := c.Methods["__call__"]
		if call == nil || c.Module || len(call.Node.Params) != 4 || !hookSignature(call.Node.Params[1:]) || p.clears(call) {
			continue
		}
		for _, st := range call.Node.Body {
			at := growingAppend(st, paramNames(call.Node.Params[2:]))
			if at == nil {
				continue
			}
			severity := Warning
			if removes || p.emptied(at) || c.Methods["clear"] != nil || c.Methods["reset"] != nil {
				severity = Note
			}
			p.report(at, severity,
				"this hook keeps what it gets at every forward, graph and GPU memory included, until its list is emptied",
				"keep `"+call.Node.Params[3].Name+".detach()` (with .cpu() where it may stay there) if no loss is computed from it, and empty the list right after use")
			break
		}
	}
}

// hookSignature recognises (module, input, output) under the names people give them.
func hookSignature(params []pysource.Param) bool {
	module, in, out := strings.ToLower(params[0].Name), strings.ToLower(params[1].Name), strings.ToLower(params[2].Name)
	return (strings.HasPrefix(module, "mod") || oneOf(module, "m", "layer", "_", "net", "self_module")) && strings.Contains(in, "in") && strings.Contains(out, "out")
}

// keptByHook finds the place where a hook function adds one of its tensors to an outer container.
func (p *pass) keptByHook(s *flow.Scope, x pysource.Expr) pysource.Node {
	switch x := x.(type) {
	case *pysource.Lambda:
		return growingAppend(x.Body, paramNames(x.Params))
	case *pysource.Name, *pysource.Attribute:
		return p.namedHook(flow.Last(flow.Key(x)))
	case *pysource.Call: // a factory: register_forward_hook(save_to("layer1"))
		return p.namedHook(flow.Last(p.m.Dotted(x.Func)))
	}
	return nil
}

func (p *pass) namedHook(name string) pysource.Node {
	for _, fn := range p.m.All {
		if fn.Name != name && !(fn.Outer != nil && fn.Outer.Name == name) {
			continue
		}
		if p.clears(fn) {
			return nil
		}
		for _, st := range fn.Node.Body {
			if at := growingAppend(st, paramNames(fn.Node.Params)); at != nil {
				return at
			}
		}
	}
	return nil
}

func (p *pass) clears(fn *flow.Function) bool {
	return bodyHas(fn.Node.Body, func(w string) bool { return w == "clear" || w == "pop" })
}

func paramNames(params []pysource.Param) []string {
	var names []string
	for _, prm := range params {
		if prm.Name != "self" && prm.Name != "module" {
			names = append(names, prm.Name)
		}
	}
	return names
}

// growingAppend finds "xs.append(output)" whose argument is one of the names, neither detached nor moved.
func growingAppend(n pysource.Node, names []string) pysource.Node {
	var at pysource.Node
	pysource.Walk(n, func(n pysource.Node) bool {
		c, ok := n.(*pysource.Call)
		if !ok || at != nil || len(c.Args) != 1 {
			return at == nil
		}
		f, ok := c.Func.(*pysource.Attribute)
		if !ok || f.Attr != "append" || words(c, func(w string) bool {
			return oneOf(w, "detach", "cpu", "item", "numpy", "shape", "size", "mean", "numel", "nelement", "dim", "len")
		}) {
			return true
		}
		for _, name := range names {
			if mentions(c.Args[0].Value, name) {
				at = c
			}
		}
		return at == nil
	})
	return at
}

// tensorsLogged is LM009.
func tensorsLogged(p *pass) {
	for _, s := range p.m.Scopes {
		lightning := s.Func != nil && s.Func.Class != nil && s.Func.Class.Lightning
		for _, c := range s.Calls {
			if !(c.Name == "wandb.log" || c.Name == "mlflow.log_metrics") || len(c.Args) == 0 || !c.Args[0].HasGraph() {
				continue
			}
			p.report(c.Node, Note, "a tensor with its graph goes to the logger, which may keep it until it is written out",
				"log numbers: `.item()` where it is a single one, or `.detach()` where it is not, or waiting for the GPU matters")
		}
		if lightning && oneOf(s.Func.Name, "training_step", "validation_step", "test_step") && collectsOutputs(s.Func) {
			p.loggedReturn(s)
		}
	}
	p.metricNeverReset()
}

// collectsOutputs tells whether the class has an epoch-end hook that is given what the steps returned; without one Lightning drops it.
// A fragment without any other method may have one elsewhere.
func collectsOutputs(fn *flow.Function) bool {
	stage, _, _ := strings.Cut(fn.Name, "_")
	end := fn.Class.Methods[stage+"_epoch_end"]
	return end != nil && len(end.Node.Params) > 1 || len(fn.Class.Methods) == 1
}

// loggedReturn looks at what a Lightning step returns besides the loss.
func (p *pass) loggedReturn(s *flow.Scope) {
	for _, r := range s.Returns {
		d, ok := r.X.(*pysource.Dict)
		if !ok {
			continue
		}
		for i, k := range d.Keys {
			name, ok := k.(*pysource.String)
			if !ok || name.Value == "loss" || i >= len(d.Values) {
				continue
			}
			if words(d.Values[i], func(w string) bool { return oneOf(w, "detach", "item", "cpu") }) {
				continue
			}
			if v := p.returnedValue(s, d.Values[i]); v.Kind == flow.Tensor && !v.Reduced {
				p.report(d.Values[i], Note, "Lightning keeps what a step returns as `"+name.Value+"` on the GPU where an epoch-end hook collects it",
					"return `.detach().cpu()`, or append it to a list of your own and empty that at the end of the epoch")
			}
		}
	}
}

func (p *pass) returnedValue(s *flow.Scope, x pysource.Expr) flow.Value {
	if key := flow.Key(x); key != "" {
		return s.Holds(key)
	}
	return flow.Value{}
}

// metricNeverReset finds torchmetrics objects that are updated in a loader's loop and never reset.
func (p *pass) metricNeverReset() {
	if !p.imports("torchmetrics") || p.sourceHas(".reset()", "LightningModule", "self.log(") {
		return
	}
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if c.Method == "update" && c.Recv != nil && inLoaderLoop(c) && strings.HasPrefix(p.origin(s, flow.Key(c.Recv)), "torchmetrics.") && !madePerCall(s, flow.Key(c.Recv)) {
				p.report(c.Node, Note, "this metric is updated in every batch and never reset: metrics that keep their inputs grow over all epochs",
					"call `"+flow.Key(c.Recv)+".reset()` after each epoch")
				return
			}
		}
	}
}

// madePerCall tells whether a function makes the metric itself, outside any loop of its own: each call has a new one.
func madePerCall(s *flow.Scope, key string) bool {
	for _, b := range s.Binds {
		if b.Name == key {
			return s.Func != nil && b.Ctx.InnermostLoop() == nil && !epochsInside(s)
		}
	}
	return false
}

func epochsInside(s *flow.Scope) bool {
	for _, l := range s.Loops {
		if l.Kind == flow.EpochLoop {
			return true
		}
	}
	return false
}

// origin is the dotted name of the call that made what a name holds.
func (p *pass) origin(s *flow.Scope, key string) string {
	for _, scope := range []*flow.Scope{s, p.m.Scopes[0]} {
		for _, b := range scope.Binds {
			if c, ok := b.Expr.(*pysource.Call); ok && b.Name == key {
				x := p.m.Dotted(c.Func)
				if x == "" {
					if a, ok := c.Func.(*pysource.Attribute); ok {
						if inner, ok := a.X.(*pysource.Call); ok {
							x = p.m.Dotted(inner.Func)
						}
					}
				}
				return x
			}
		}
	}
	return ""
}

// attributeCache is LM014.
func attributeCache(p *pass) {
	for _, s := range p.m.Scopes {
		if s.Func == nil || s.Func.Class == nil || !s.Func.Class.Module || s.Func.Name != "forward" {
			continue
		}
		for _, b := range s.Binds {
			if strings.HasPrefix(b.Name, "self.") && b.Value.HasGraph() && !b.Value.Reduced {
				p.report(b.Node, Note, "`"+b.Name+"` holds this forward's activation, and its graph, until the next forward",
					"keep it in a local name and return it, or store `.detach()` if only its values are needed")
			}
		}
	}
}

// longLived is LM015.
func longLived(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			loop := c.Ctx.InnermostLoop()
			if loop == nil || loop.Kind != flow.EpochLoop || !evaluationName(c.Method) || c.Recv != nil && c.Method == "eval" {
				continue
			}
			for _, b := range s.Binds {
				inner := b.Ctx.InnermostLoop()
				if b.Order > c.Order || inner == nil || inner.Parent != loop || !b.Value.HasGraph() || b.Value.Reduced || deletedBefore(s, b.Name, b.Order, c.Order) {
					continue
				}
				p.report(c.Node, Note, "`"+b.Name+"` of the last training batch is still alive while `"+c.Method+"` runs, with its graph where backward did not free it",
					"put the training step into a function of its own, or `del "+b.Name+"` first where nothing reads it later")
				break
			}
		}
	}
}

func deletedBefore(s *flow.Scope, name string, from, until int) bool {
	for _, d := range s.Deletes {
		if d.Name == name && d.Order > from && d.Order < until {
			return true
		}
	}
	return false
}
