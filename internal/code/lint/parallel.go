package lint

import (
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// neverTrains tells whether a DataParallel is taken off again, or only infers where it is made: no gradients and no optimizer state then.
func (p *pass) neverTrains(s *flow.Scope, c *flow.Call) bool {
	name := wrapperName(s, c.Node)
	if unwrapped(s, c, name) || onlyEvaluated(s, c, name) || afterTraining(s, c) {
		return true
	}
	models := wrappedNames(s, c)
	return !p.trainsHere(s, models) && p.infersHere(s, c, models)
}

// onlyEvaluated tells whether a function gives a wrapper a name of its own and only evaluates with it, while it trains what is wrapped by another name.
func onlyEvaluated(s *flow.Scope, wrap *flow.Call, name string) bool {
	if s.Func == nil || name == "" || strings.Contains(name, ".") || len(wrap.Node.Args) == 0 || flow.Key(wrap.Node.Args[0].Value) == name || declaredOutside(s, name) {
		return false
	}
	if slices.ContainsFunc(s.Returns, func(r *flow.Exit) bool { return r.X != nil && mentions(r.X, name) }) ||
		slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool { return b.Expr != nil && flow.Key(b.Expr) == name }) {
		return false
	}
	evaluated := false
	for _, c := range s.Calls {
		switch {
		case c == wrap:
		case flow.Key(c.Node.Func) == name, slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return mentions(a.Value, name) }):
			quiet := c.Ctx.NoGrad == flow.Off || flow.Key(c.Node.Func) != name && (evaluationName(c.Method) || takesFeatures(c.Method))
			if !quiet && !oneOf(c.Method, "print", "len", "isinstance", "hasattr") {
				return false
			}
			evaluated = evaluated || quiet
		case c.Recv != nil && flow.Key(c.Recv) == name && !oneOf(c.Method, "eval", "cuda", "to"):
			return false
		}
	}
	return evaluated
}

// takesFeatures knows the names of functions that run a model for its features: extract_features, compute_embeddings.
func takesFeatures(name string) bool {
	return slices.ContainsFunc(tokens(name), func(t string) bool { return oneOf(t, "extract", "features", "embeddings", "encode") })
}

// afterTraining tells whether a wrapper is made when all the training of a body is over: for the last test.
func afterTraining(s *flow.Scope, wrap *flow.Call) bool {
	before := false
	for _, c := range s.Calls {
		if !s.CallReaches(c, "backward") {
			continue
		}
		if c.Order > wrap.Order {
			return false
		}
		before = true
	}
	return before && wrap.Ctx.InnermostLoop() == nil
}

// wrappedNames are the name of a wrapper, empty where it has none, and those of what it is made of.
func wrappedNames(s *flow.Scope, c *flow.Call) []string {
	models := []string{wrapperName(s, c.Node)}
	for _, a := range c.Node.Args[:min(1, len(c.Node.Args))] {
		pysource.Walk(a.Value, func(n pysource.Node) bool {
			if x, ok := n.(pysource.Expr); ok && flow.Key(x) != "" && flow.Key(x) != "self" {
				models = append(models, flow.Key(x))
				return false
			}
			return true
		})
	}
	return models
}

// trainsWrapped tells whether something is seen to train what a DataParallel wraps: the body itself, the file where the model is a name of the file,
// the class that keeps it. What is returned, or kept by a class that trains nothing itself, is trained where some file of the project trains at all.
func (p *pass) trainsWrapped(s *flow.Scope, c *flow.Call) (known bool, needs Trait) {
	models := wrappedNames(s, c)
	if p.evaluationFile() || p.evaluationClass(s) {
		return false, 0
	}
	if slices.ContainsFunc(c.Ctx.Branches(nil), func(b *flow.Context) bool { return !b.Else && b.Test != nil && words(b.Test, evaluationName) }) {
		return false, 0 // if args.eval_only
	}
	if p.partlyTeaches(s, c) || onlyTeaches(s, models) || slices.ContainsFunc(models, standsBeside) || s.Func != nil && evaluationName(s.Func.Name) && len(p.backwards(s)) == 0 {
		return false, 0
	}
	if p.trainsHere(s, models) {
		return true, 0
	}
	name := models[0]
	if s.Func == nil {
		return slices.ContainsFunc(p.m.Scopes, func(o *flow.Scope) bool { return len(p.backwards(o)) > 0 }), 0
	}
	if !strings.HasPrefix(name, "self.") && !returnsWrapped(s, c) && !declaredOutside(s, name) {
		return false, 0 // what the callers train is something else
	}
	if slices.ContainsFunc(p.m.CallSites(s.Func), func(site *flow.Call) bool { return p.trainsHere(site.Scope, models) }) {
		return true, 0
	}
	if class := s.Func.Class; class != nil && !p.m.ClassDoes(class.Name, "backward") && !trainingName(class.Name) && !containsAny(class.Name, "Base", "Model", "Abstract") {
		return false, 0
	}
	return true, Trains
}

// evaluationFile tells whether a file evaluates by its name, and trains nothing itself.
func (p *pass) evaluationFile() bool {
	name := strings.TrimSuffix(p.m.Path[strings.LastIndexByte(p.m.Path, '/')+1:], ".py")
	if strings.Contains(strings.ToLower(name), "train") || !evaluationName(name) && !slices.Contains(tokens(name), "demo") {
		return false
	}
	return !slices.ContainsFunc(p.m.Scopes, func(s *flow.Scope) bool {
		return slices.ContainsFunc(s.Calls, func(c *flow.Call) bool { return c.Method == "backward" || c.Method == "manual_backward" })
	})
}

// evaluationClass tells whether a body is a method of a class that evaluates by its name, and trains nothing itself.
func (p *pass) evaluationClass(s *flow.Scope) bool {
	if s.Func == nil || s.Func.Class == nil {
		return false
	}
	name := s.Func.Class.Name
	return evaluationName(name) && !trainingName(name) && !p.m.ClassDoes(name, "backward") && !p.m.ClassDoes(name, "step")
}

// returnsWrapped tells whether a function hands a wrapper to its callers.
func returnsWrapped(s *flow.Scope, c *flow.Call) bool {
	name := wrapperName(s, c.Node)
	return slices.ContainsFunc(s.Returns, func(r *flow.Exit) bool {
		owner, _, _ := strings.Cut(name, ".") // model of model.encoder
		return r.X != nil && (around(r.X, c.Node) || name != "" && (mentions(r.X, name) || owner != "self" && mentions(r.X, owner)))
	})
}

// onlyTeaches tells whether a body switches one of the models to eval mode or freezes it, and never trains it: a teacher, a loss network.
func onlyTeaches(s *flow.Scope, models []string) bool {
	still := false
	for _, c := range s.Calls {
		if c.Recv == nil || !slices.Contains(models, flow.Key(c.Recv)) || flow.Key(c.Recv) == "" {
			continue
		}
		off := len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value)
		switch {
		case c.Method == "eval", oneOf(c.Method, "train", "requires_grad_") && off:
			still = true
		case oneOf(c.Method, "train", "parameters", "named_parameters", "requires_grad_", "zero_grad"):
			return false
		}
	}
	return still
}

// neverRun tells whether a wrapper gets a name that the file never speaks of again.
func (p *pass) neverRun(s *flow.Scope, c *flow.Call) bool {
	name := wrapperName(s, c.Node)
	if name == "" || strings.Contains(name, ".") || s.Func != nil && declaredOutside(s, name) {
		return false
	}
	said := 0
	pysource.WalkBody(p.m.File.Body, func(n pysource.Node) bool {
		if x, ok := n.(*pysource.Name); ok && x.ID == name {
			said++
		}
		return said < 2
	})
	return said == 1
}

// againstDDP is a remark that something does not run under DistributedDataParallel.
var againstDDP = regexp.MustCompile(`(?i)#.*(not|n't|cannot) (yet )?(work|run|support|compatible)\w*\b.*\b(ddp|DistributedDataParallel)\b|#.*\b(ddp|DistributedDataParallel)\b.*(not|n't|cannot) (be |yet )?(work|run|support|compatible|used)`)

// speaksAgainstDDP tells whether a comment of the file says so.
func (p *pass) speaksAgainstDDP() bool {
	return p.sourceHas("DDP", "ddp", "DistributedDataParallel") && slices.ContainsFunc(p.m.File.Comments, func(c pysource.Comment) bool {
		return containsAny(c.Text, "DDP", "ddp", "DistributedDataParallel") && againstDDP.MatchString(c.Text)
	})
}

// partlyTeaches tells whether a part of what is wrapped is only run: the network behind a trained image, the loss network behind a generator. Little of it is
// trained then.
func (p *pass) partlyTeaches(s *flow.Scope, c *flow.Call) bool {
	if len(c.Node.Args) == 0 {
		return false
	}
	key, found := flow.Key(c.Node.Args[0].Value), false
	for _, b := range s.Binds {
		made, ok := b.Expr.(*pysource.Call)
		if key == "" || b.Name != key || b.Order >= c.Order || !ok || made == c.Node {
			continue
		}
		pysource.Walk(made, func(n pysource.Node) bool {
			x, ok := n.(*pysource.Name)
			found = found || ok && x.ID != key && s.Holds(x.ID).Kind == flow.Model && onlyTeaches(s, []string{x.ID})
			return !found
		})
	}
	return found
}

// standsBeside knows the names of models that help to train another and are not trained themselves.
func standsBeside(name string) bool {
	return slices.ContainsFunc(tokens(flow.Last(name)), func(t string) bool {
		return oneOf(t, "teacher", "ema", "vgg", "inception", "lpips", "extractor", "reference", "frozen", "old", "averaged")
	})
}

// wrapperName is the name that a call, or what is made of it at once, is given to; empty where there is none.
func wrapperName(s *flow.Scope, c *pysource.Call) string {
	for _, b := range s.Binds {
		if b.Expr != nil && around(b.Expr, c) {
			return b.Name
		}
	}
	return ""
}

// unwrapped tells whether the wrapped model is taken out before the wrapper runs: model = DataParallel(model).module.
func unwrapped(s *flow.Scope, c *flow.Call, name string) bool {
	for _, b := range s.Binds {
		a, ok := b.Expr.(*pysource.Attribute)
		if !ok || a.Attr != "module" {
			continue
		}
		if around(a.X, c.Node) {
			return true
		}
		if name == "" || b.Name != name || flow.Key(a.X) != name || b.Order < c.Order || len(b.Ctx.Branches(nil)) > len(c.Ctx.Branches(nil)) {
			continue
		}
		return !slices.ContainsFunc(s.Calls, func(o *flow.Call) bool { return o.Order > c.Order && o.Order < b.Order && mentions(o.Node, name) })
	}
	return false
}

// trainsHere tells whether a body trains, or hands one of the models to something that may.
func (p *pass) trainsHere(s *flow.Scope, models []string) bool {
	if len(p.backwards(s)) > 0 {
		return true
	}
	for _, c := range s.Calls {
		switch {
		case c.Result.Kind == flow.Optimizer && !c.Result.Guess, s.CallReaches(c, "backward"), isStep(c):
			return true
		case c.Method == "train" && c.Recv != nil && slices.Contains(models, flow.Key(c.Recv)) && !(len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value)):
			return true
		case givenTo(c, models) && (trainingName(c.Method) || c.Result.Class != "" && p.m.ClassDoes(c.Result.Class, "backward")), trainingName(c.Method) && trainer(s, c, models):
			return true
		}
	}
	return false
}

// trainer tells whether a method is called on something that trains by its name, or that was given one of the models: not an encoder of labels.
func trainer(s *flow.Scope, c *flow.Call, models []string) bool {
	if c.Recv == nil || c.RecvValue.Kind == flow.Model {
		return false
	}
	key := flow.Key(c.Recv)
	return trainingName(key) || key != "" && slices.ContainsFunc(s.Calls, func(o *flow.Call) bool { return givenTo(o, models) && boundTo(s, o, key) })
}

// givenTo tells whether a call is given one of the models.
func givenTo(c *flow.Call, models []string) bool {
	return slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool {
		return slices.Contains(models, flow.Key(a.Value)) && flow.Key(a.Value) != ""
	})
}

func trainingName(name string) bool {
	return containsAny(strings.ReplaceAll(strings.ToLower(name), "pretrain", ""), "train", "fit", "optim", "learn", "solver", "finetune", "search", "runner", "agent", "experiment", "distill")
}

// infersHere tells whether a body uses a model for inference: it is switched to eval mode or frozen for good, autograd is off, or the model
// only goes to an evaluation.
func (p *pass) infersHere(s *flow.Scope, made *flow.Call, models []string) bool {
	if made.Ctx.NoGrad == flow.Off || p.gradOffEverywhere() {
		return true
	}
	quiet, recorded, evaluated := false, false, false
	for _, c := range s.Calls {
		own := c.Recv != nil && slices.Contains(models, flow.Key(c.Recv)) && flow.Key(c.Recv) != ""
		off := len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value)
		switch {
		case c.Method == "set_grad_enabled" && off && !c.Ctx.Within(func(x *flow.Context) bool { return x.With == c.Node }):
			return true
		case own && (c.Method == "eval" || oneOf(c.Method, "train", "requires_grad_") && off) && holds(c.Ctx, made.Ctx):
			return true
		case modelRun(c) && modelKey(c) == models[0]:
			quiet, recorded = quiet || c.Ctx.NoGrad == flow.Off, recorded || c.Ctx.NoGrad != flow.Off
		case c.Node != made.Node && givenTo(c, models[:1]) && !oneOf(c.Method, "print", "len"):
			evaluated, recorded = evaluated || evaluationName(c.Method), recorded || !evaluationName(c.Method)
		}
	}
	return (quiet || evaluated) && !recorded
}

// givesLoss tells whether the wrapped model computes its loss itself.
func (p *pass) givesLoss(s *flow.Scope, c *flow.Call) bool {
	isLoss := func(w string) bool {
		return slices.ContainsFunc(tokens(w), func(t string) bool { return oneOf(t, "loss", "losses") })
	}
	name := wrapperName(s, c.Node)
	for _, scope := range p.m.Scopes {
		for _, b := range scope.Binds {
			run, ok := b.Expr.(*pysource.Call)
			if ok && name != "" && flow.Key(run.Func) == name && isLoss(b.Name) {
				return true
			}
		}
	}
	if len(c.Args) == 0 {
		return false
	}
	class := p.m.Classes[c.Args[0].Class]
	if class == nil || class.Methods["forward"] == nil || class.Methods["forward"].Scope == nil {
		return false
	}
	return slices.ContainsFunc(class.Methods["forward"].Scope.Returns, func(r *flow.Exit) bool { return r.X != nil && words(r.X, isLoss) })
}
