package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// evalWithoutNoGrad is LM003.
func evalWithoutNoGrad(p *pass) {
	if p.gradOffEverywhere() {
		return
	}
	for _, s := range p.m.Scopes {
		if !s.Func.Quiet() && !trainingStep(s.Func) {
			p.evalScope(s)
		}
	}
}

// gradOffEverywhere tells whether the file switches autograd off for good.
func (p *pass) gradOffEverywhere() bool {
	for _, c := range p.m.Scopes[0].Calls {
		if c.Method == "set_grad_enabled" && len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value) && !c.Ctx.Within(func(x *flow.Context) bool { return x.With == c.Node }) {
			return true
		}
	}
	return p.sourceHas("inference_mode().__enter__", "no_grad().__enter__")
}

// wantsGradients tells whether a body computes gradients other than by backward: attacks, saliency, gradient penalties.
func (p *pass) wantsGradients(s *flow.Scope) bool {
	if p.importsGradients() {
		return true
	}
	for _, c := range s.Calls {
		if strings.HasPrefix(c.Name, "torch.autograd.") && c.Method != "Variable" || strings.HasPrefix(c.Name, "torch.func.") || c.Method == "requires_grad_" && !(len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value)) ||
			c.Method == "register_hook" || c.Method == "register_full_backward_hook" || c.Method == "retain_grad" || s.CallReaches(c, "grad") {
			return true
		}
	}
	for _, b := range s.Binds {
		if strings.HasSuffix(b.Name, ".requires_grad") && !isFalse(b.Expr) {
			return true
		}
	}
	for _, c := range s.Calls {
		if c.Method == "step" && c.RecvValue.Kind == flow.Optimizer {
			return bodyHas(s.Body, explainsModel) // a training: what reads .grad here looks at the parameters' gradients
		}
	}
	return bodyHas(s.Body, func(w string) bool { return w == "grad" || attacks(w) })
}

// attacks knows the words of code that differentiates with respect to its input, whoever does it: im_adv, make_adv, attack_kwargs.
func attacks(name string) bool {
	for _, w := range tokens(name) {
		if oneOf(w, "adv", "adversarial", "attack", "attacker", "perturb", "perturbation", "pgd", "fgsm", "saliency", "gradcam", "cam") {
			return true
		}
	}
	return false
}

// explainsModel knows the words of code that shows what a trained model looked at by its gradients: generate_gradcam.
func explainsModel(name string) bool {
	for _, w := range tokens(name) {
		if oneOf(w, "saliency", "gradcam") {
			return true
		}
	}
	return false
}

// calledWithoutGrad tells whether every call of the function in this file runs without recording.
func (p *pass) calledWithoutGrad(s *flow.Scope) bool {
	if s.Func == nil {
		return false
	}
	sites := p.m.CallSites(s.Func)
	for _, c := range sites {
		if c.Ctx.NoGrad == flow.Recording {
			return false
		}
	}
	return len(sites) > 0
}

func (p *pass) evalScope(s *flow.Scope) {
	byName := s.Func != nil && evaluationName(s.Func.Name) && !unitTest(s.Func)
	module, backs := inModule(s), p.backwards(s)
	reported := map[string]bool{}
	for _, c := range s.Calls {
		if c.Ctx.NoGrad != flow.Recording || module && !overLoader(c.Ctx) {
			continue
		}
		run := modelRun(c)
		if c.Callee.Class == "torch.nn.Embedding" || !run && (!stepRun(s, c) || readsData(c)) || p.inTraining(s, c) || guarded(s, c, run) || p.graphWanted(s, c) {
			continue
		}
		key := modelKey(c)
		if reported[key] {
			continue
		}
		from, switched := p.evalSwitch(s, c, key)
		if !run {
			switched = switched && overLoader(c.Ctx)
		}
		overData := byName && len(backs) == 0 && inLoaderLoop(c) || overTestData(c, backs)
		if !switched && !overData && !(run && p.inferenceObject(s, c, key)) || stopped(backs, c) {
			continue
		}
		if (switched || byName) && backwardAfter(s, backs, from, key) || p.frozen(key) || p.frozenClass(s, c) || p.frozenPart(s, key) {
			continue
		}
		if c.Callee.Guess && p.loaderAlone() {
			continue // whose model it is cannot be told
		}
		if p.wantsGradients(s) || p.calledWithoutGrad(s) || p.trainedByCaller(s, maxCallers) || p.modulesDifferentiate() {
			return
		}
		reported[key] = true
		p.reportEval(s, c, switched)
	}
}

// stopped tells whether the call stands in a loop that also trains, and so belongs to the training.
func stopped(backs []backward, c *flow.Call) bool {
	l := c.Ctx.InnermostLoop()
	for _, b := range backs {
		if l != nil && b.call.Ctx.InnermostLoop() == l && b.call.Order > c.Order {
			return true
		}
	}
	return false
}

// guarded tells whether what is run switches autograd off in one of its branches: a forward that is told to infer.
func guarded(s *flow.Scope, c *flow.Call, model bool) bool {
	facts := s.Facts(c)
	if model {
		facts = s.Forward(c)
	}
	return facts != nil && facts.Guarded
}

// unitTest tells whether a function is a test of a test runner: named so, and given nothing to evaluate.
func unitTest(fn *flow.Function) bool {
	if !strings.HasPrefix(fn.Name, "test_") {
		return false
	}
	for _, prm := range fn.Node.Params {
		if strings.Contains(prm.Name, "loader") || strings.Contains(prm.Name, "model") || strings.Contains(prm.Name, "epoch") || prm.Name == "net" {
			return false
		}
	}
	return true
}

// stepRun tells whether a call runs a function of the project that runs a model while recording, and nothing more: one batch of
// an evaluation.
func stepRun(s *flow.Scope, c *flow.Call) bool {
	facts := s.Facts(c)
	return facts != nil && facts.Runs && !facts.NoGrad && !facts.Backward && facts.Backs == 0 && !s.CallReaches(c, "backward")
}

// readsData tells whether a call is a method of a dataset, by its class or by its name: it reads samples, whatever else it runs.
func readsData(c *flow.Call) bool {
	if c.RecvValue.Kind == flow.Dataset || c.RecvValue.Kind == flow.Loader {
		return true
	}
	name := strings.ReplaceAll(strings.ToLower(flow.Last(flow.Key(c.Recv))), "_", "")
	return c.Recv != nil && containsAny(name, "dataset", "reader", "sampler", "tokenizer", "loader")
}

// inferenceObject tells whether a method runs a model that its class switched to eval mode for good, and gives back nothing that a
// gradient could go through.
func (p *pass) inferenceObject(s *flow.Scope, c *flow.Call, key string) bool {
	if s.Func == nil || s.Func.Class == nil || s.Func.Class.Module || !strings.HasPrefix(key, "self.") || len(s.Returns) == 0 {
		return false
	}
	evaluates := false
	for _, fn := range s.Func.Class.Methods {
		if fn.Scope == nil {
			continue
		}
		for _, o := range fn.Scope.Calls {
			switch {
			case o.Method == "backward" || o.Method == "train" && o.Recv != nil && flow.Key(o.Recv) == key:
				return false
			case o.Method == "eval" && o.Recv != nil && flow.Key(o.Recv) == key:
				evaluates = true
			}
		}
	}
	for _, r := range s.Returns {
		if r.Value.HasGraph() || r.X == nil || !words(r.X, cutsGraph) {
			return false
		}
	}
	return evaluates
}

// cutsGraph are the methods after which nothing can be back-propagated.
func cutsGraph(w string) bool {
	return oneOf(w, "detach", "numpy", "item", "tolist", "argmax", "asnumpy", "to_numpy")
}

func (p *pass) reportEval(s *flow.Scope, c *flow.Call, switched bool) {
	severity, cost := Warning, "every activation of this call stays until its result is dropped"
	if inLoaderLoop(c) && (p.imports("torch") || !c.Callee.Guess) {
		cost = "each batch keeps all its activations as if it were trained on"
		if switched && modelRun(c) && !everyFew(c) && !p.doubted(s, c) { // by its name alone it may be anything
			severity = Error
		}
	}
	message := "this evaluation records a graph: " + cost
	if switched {
		message = "the model is in eval mode, yet this call records a graph: " + cost
	}
	if p.volatile(s) {
		message = "`volatile=True` does nothing since PyTorch 0.4, so " + message
	}
	frozen := p.frozenBefore(s, modelKey(c), maxCallers)
	if frozen {
		message = "this evaluation records a graph, of the layers that are not frozen"
	}
	fix := p.underNoGrad() + "; model.eval() only switches dropout and batch norm"
	doubt := true
	switch {
	case TrainableElsewhere(s, c):
		severity, fix = Note, "unless a caller back-propagates what `"+s.Func.Name+"` returns, "+fix
	case p.library(s) != "":
		severity, fix = Note, "unless "+p.library(s)+", which may call `"+s.Func.Name+"`, switches autograd off itself, "+fix
	case throughHooks(s, c):
		severity, fix = Note, "unless somebody back-propagates what the hooks keep, "+fix
	case p.remarked(c):
		severity, fix = Note, "a comment here speaks of no_grad: if nothing speaks against it, "+fix
	case c.Ctx.InnermostLoop() == nil && p.madeUp(s, c):
		severity, doubt = Note, false // a look at the shapes
	case frozen:
		severity, doubt = Note, false // little is recorded
	case handsGraph(s, c):
		doubt, fix = false, "unless something back-propagates what `"+s.Func.Name+"` returns, "+fix
	default:
		doubt = false
	}
	p.report(c.Node, severity, message, fix)
	p.explains(c.Ctx.InnermostLoop())
	p.within(s)
	p.needs(SwitchesOff | Differentiates)
	if severity == Error && p.unused(s.Func) {
		p.needs(Called)
	}
	if doubt {
		p.byHand()
	}
}

// doubted tells whether something speaks against a graph, or for one that is wanted, without deciding it: a caller in this file switches autograd off, the
// file freezes something, was written for a PyTorch whose volatile inputs record nothing, or what the function gives back has a graph.
func (p *pass) doubted(s *flow.Scope, c *flow.Call) bool {
	quiet := s.Func != nil && slices.ContainsFunc(p.m.CallSites(s.Func), func(site *flow.Call) bool { return site.Ctx.NoGrad != flow.Recording })
	return quiet || p.volatile(s) || handsGraph(s, c) || p.sourceHas(oldWords...) ||
		p.sourceHas("freeze(", "set_requires_grad", "requires_grad_(False", ".requires_grad = False", ".requires_grad=False")
}

// everyFew tells whether only one iteration in many comes to a call: pictures at every hundredth step.
func everyFew(c *flow.Call) bool {
	return slices.ContainsFunc(c.Ctx.Branches(c.Ctx.InnermostLoop()), func(b *flow.Context) bool { return !b.Else && modulus(b.Test) != nil })
}

// madeUp tells whether a call is given a batch that was made up on the spot.
func (p *pass) madeUp(s *flow.Scope, c *flow.Call) bool {
	fills := func(x pysource.Node) bool {
		found := false
		pysource.Walk(x, func(n pysource.Node) bool {
			call, ok := n.(*pysource.Call)
			found = found || ok && oneOf(p.m.Dotted(call.Func), "torch.randn", "torch.rand", "torch.zeros", "torch.ones", "torch.empty", "torch.randint")
			return !found
		})
		return found
	}
	for i, a := range c.Node.Args {
		if c.Args[i].Kind != flow.Leaf {
			continue
		}
		key := flow.Key(a.Value)
		if fills(a.Value) || key != "" && slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool { return b.Name == key && b.Expr != nil && fills(b.Expr) }) {
			return true
		}
	}
	return false
}

// remarked tells whether a comment beside a call, or above the loop or the statement it stands in, speaks of switching autograd off: whoever wrote it
// tried, and had a reason not to.
func (p *pass) remarked(c *flow.Call) bool {
	places := []int{p.m.File.Position(c.Node.Start).Line}
	if l := c.Ctx.InnermostLoop(); l != nil {
		places = append(places, p.m.File.Position(l.Node.Pos().Start).Line)
	}
	for _, line := range places {
		for at := max(1, line-2); at <= line; at++ {
			if _, comment, ok := strings.Cut(p.m.File.Line(at), "#"); ok && containsAny(comment, "no_grad", "inference_mode", "no grad") {
				return true
			}
		}
	}
	return false
}

// frozenClass tells whether a class switches off the gradients of the model that runs: by what the call shows, or by what the callers of the function
// hand over.
func (p *pass) frozenClass(s *flow.Scope, c *flow.Call) bool {
	return s.FrozenModel(c) || p.frozenParam(s, modelKey(c), maxCallers)
}

// frozenPart tells it of a part of self, which a method of the class or an inherited one freezes.
func (p *pass) frozenPart(s *flow.Scope, key string) bool {
	rest, own := strings.CutPrefix(key, "self.")
	part, _, _ := strings.Cut(rest, ".")
	return own && s.Func != nil && s.Func.Class != nil && p.m.FrozenPart(s.Func.Class, part)
}

// frozenParam tells it of a parameter: every caller in the file hands over such a model, or a parameter of its own of which that is true.
func (p *pass) frozenParam(s *flow.Scope, key string, depth int) bool {
	if s.Func == nil || depth == 0 || !hasParam(s.Func.Node, key) {
		return false
	}
	sites := p.m.CallSites(s.Func)
	for _, site := range sites {
		v, x, ok := site.Passed(s.Func, key)
		if !ok || !p.m.Frozen(v.Class) && !(x != nil && p.frozenParam(site.Scope, flow.Key(x), depth-1)) {
			return false
		}
	}
	return len(sites) > 0
}

// frozenBefore tells whether the program switches off the gradients of all parameters of the model in a loop: of one at the margin of the file or in
// the same body, or of what every caller in the file hands over. Layers that are put in afterwards may record.
func (p *pass) frozenBefore(s *flow.Scope, key string, depth int) bool {
	if key == "" || depth == 0 || p.sourceHas("requires_grad = True", "requires_grad=True", "requires_grad_(True)", "requires_grad_()", "unfreeze") {
		return false
	}
	if s.Func != nil && hasParam(s.Func.Node, key) {
		sites := p.m.CallSites(s.Func)
		for _, site := range sites {
			_, x, ok := site.Passed(s.Func, key)
			if !ok || x == nil || !p.frozenBefore(site.Scope, flow.Key(x), depth-1) {
				return false
			}
		}
		return len(sites) > 0
	}
	return p.freezesAll(s, key) || p.freezesAll(p.m.Scopes[0], key)
}

// freezesAll tells whether a body loops over all parameters of a model, or of the one that it is a part of, and switches their gradients off.
func (p *pass) freezesAll(s *flow.Scope, key string) bool {
	return slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool {
		l := b.Ctx.InnermostLoop()
		if !strings.HasSuffix(b.Name, ".requires_grad") || !isFalse(b.Expr) || l == nil || len(l.Body) != 1 || len(b.Ctx.Branches(l)) > 0 {
			return false
		}
		iter, ok := l.Iter.(*pysource.Call)
		if !ok {
			return false
		}
		model, whole := strings.CutSuffix(flow.Key(iter.Func), ".parameters")
		return whole && (model == key || strings.HasPrefix(key, model+"."))
	})
}

// volatile tells whether a body relies on what switched autograd off before PyTorch 0.4
// (https://github.com/pytorch/pytorch/releases/tag/v0.4.0, "What about volatile?").
func (p *pass) volatile(s *flow.Scope) bool {
	for _, c := range s.Calls {
		if isTrue(keyword(c.Node, "volatile")) {
			return true
		}
	}
	return false
}

func modelRun(c *flow.Call) bool {
	return c.Callee.Kind == flow.Model || c.RecvValue.Kind == flow.Model && oneOf(c.Method, "forward", "__call__")
}

func modelKey(c *flow.Call) string {
	if c.Callee.Kind == flow.Model {
		return flow.Key(c.Node.Func)
	}
	if modelRun(c) {
		return flow.Key(c.Recv)
	}
	return flow.Key(c.Node.Func)
}

func inLoaderLoop(c *flow.Call) bool {
	return c.Ctx.Within(func(x *flow.Context) bool { return x.Loop != nil && x.Loop.Kind == flow.LoaderLoop })
}

// overTestData tells whether the call stands in a loop over a loader whose name promises evaluation, with no backward in it.
func overTestData(c *flow.Call, backs []backward) bool {
	return c.Ctx.Within(func(x *flow.Context) bool {
		if x.Loop == nil || x.Loop.Kind != flow.LoaderLoop || !words(x.Loop.Iter, testLoader) {
			return false
		}
		for _, b := range backs {
			if b.call.Ctx.Inside(x.Loop) {
				return false
			}
		}
		return true
	})
}

// testLoader knows val_loader, test_dl, testloader, valid_dataloader and their like.
func testLoader(name string) bool {
	n := strings.ToLower(name)
	if !strings.Contains(n, "loader") && !strings.HasSuffix(n, "_dl") {
		return false
	}
	return strings.HasPrefix(n, "test") || strings.HasPrefix(n, "val") || strings.HasPrefix(n, "eval") || strings.HasPrefix(n, "dev_")
}

// inTraining tells whether a backward runs on the call's own result.
func (p *pass) inTraining(s *flow.Scope, c *flow.Call) bool {
	for _, b := range p.backwards(s) {
		if b.value.Shares(c.Result) {
			return true
		}
	}
	return false
}

// evalSwitch finds the last switch of this model to eval mode that holds where the call stands.
func (p *pass) evalSwitch(s *flow.Scope, at *flow.Call, key string) (order int, ok bool) {
	names := p.aliases(key)
	trained := false // by this very name: what another model is switched to does not matter then
	for _, c := range s.Calls {
		if c.Order > at.Order || c.Recv == nil || c.Method != "eval" && c.Method != "train" {
			continue
		}
		if by := recv(c); by == "" || !slices.Contains(names, by) && !(by == "self" && strings.HasPrefix(key, "self")) {
			continue
		}
		switch {
		case c.Method == "train" && !(len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value)):
			order, ok, trained = 0, false, trained || recv(c) == key
		case trained && recv(c) != key:
		case (c.Method == "eval" || c.Method == "train") && holds(c.Ctx, at.Ctx):
			order, ok, trained = c.Order, true, false
		}
	}
	return order, ok
}

func recv(c *flow.Call) string { return flow.Key(c.Recv) }

// aliases are a model's own key and those of what it was made of: self.network of self.parallel = DataParallel(self.network).
func (p *pass) aliases(key string) []string {
	names := []string{key}
	for _, s := range p.m.Scopes {
		for _, b := range s.Binds {
			if b.Name != key || b.Expr == nil || b.Value.Kind != flow.Model {
				continue
			}
			pysource.Walk(source(b), func(n pysource.Node) bool {
				x, ok := n.(pysource.Expr)
				if !ok {
					return true
				}
				if k := flow.Key(x); k != "" && k != "self" && len(names) < maxDerived {
					names = append(names, k)
					return false
				}
				return true
			})
		}
	}
	return names
}

// source is what a name was made of: of a, b = prepare(a, b) the argument at its own place.
func source(b *flow.Bind) pysource.Expr {
	a, ok := b.Node.(*pysource.Assign)
	if !ok {
		return b.Expr
	}
	targets, several := a.Targets[0].(*pysource.Sequence)
	c, call := b.Expr.(*pysource.Call)
	if !several || !call || len(targets.Items) != len(c.Args) {
		return b.Expr
	}
	for i, t := range targets.Items {
		if flow.Key(t) == b.Name {
			return c.Args[i].Value
		}
	}
	return b.Expr
}

// holds tells whether what ran in one place certainly ran before another: no branch of its own around it.
func holds(ctx, at *flow.Context) bool {
	for ; ctx != nil; ctx = ctx.Parent {
		if ctx.Test != nil || ctx.Except != nil {
			inner := ctx
			return at.Within(func(x *flow.Context) bool { return x == inner })
		}
	}
	return true
}

// backwardAfter tells whether a backward runs between the switch to eval mode and the next switch back.
func backwardAfter(s *flow.Scope, backs []backward, from int, key string) bool {
	until := 1 << 30
	for _, c := range s.Calls {
		if c.Order > from && c.Order < until && c.Method == "train" && c.Recv != nil && flow.Key(c.Recv) == key {
			until = c.Order
		}
	}
	for _, b := range backs {
		if b.call.Order > from && b.call.Order < until {
			return true
		}
	}
	return false
}

// frozen tells whether the model's parameters are switched off somewhere in the file: nothing is recorded then.
func (p *pass) frozen(key string) bool {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if c.Method == "requires_grad_" && c.Recv != nil && strings.HasPrefix(flow.Key(owner(c.Recv)), key) && len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value) {
				return true
			}
		}
		for _, l := range s.Loops {
			if l.Iter != nil && mentions(l.Iter, key) && bodySetsRequiresGrad(l.Body) {
				return true
			}
		}
	}
	return false
}

func bodySetsRequiresGrad(body []pysource.Stmt) bool {
	for _, st := range body {
		a, ok := st.(*pysource.Assign)
		if ok && strings.HasSuffix(flow.Key(a.Targets[0]), ".requires_grad") && isFalse(a.Value) {
			return true
		}
		if x, ok := st.(*pysource.ExprStmt); ok && words(x, func(w string) bool { return w == "requires_grad_" }) {
			return true
		}
	}
	return false
}
