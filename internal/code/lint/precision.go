package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// float64Use is LM016.
func float64Use(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			switch {
			case c.RecvValue.Kind == flow.Model && (c.Method == "double" || c.Method == "to" && toDouble(c.Node)), c.Result.Kind == flow.Model && isDouble(keyword(c.Node, "dtype")):
				p.doubled(c, p.doubleSeverity(s, c), "the model is in float64: parameters, gradients, optimizer state and activations all take twice the memory, and most GPUs compute it many times slower",
					"unless its results need the digits, keep it in float32 and convert its inputs with .float(), which NumPy makes in float64; if a part needs the precision, convert that part alone")
			case oneOf(c.Name, "torch.set_default_dtype", "torch.set_default_tensor_type") && len(c.Node.Args) > 0 && isDouble(c.Node.Args[0].Value):
				p.doubled(c, p.doubleSeverity(s, c), "every tensor made from here on is float64 and takes twice the memory",
					"unless the results need the digits, keep float32 as the default and convert what needs the precision; what comes from NumPy in float64 then needs .float()")
			case c.Ctx.InnermostLoop() != nil && p.inTrainingLoop(s, c.Ctx) && (c.Method == "double" && c.RecvValue.IsTensor() || factoryDouble(c)):
				p.doubled(c, Note, "a float64 tensor in the training loop takes twice the memory, and what it is combined with becomes float64 too",
					"use float32 (`.float()`) unless the precision is needed")
			case (c.Method == "to" || c.Method == "cuda") && c.Recv != nil && p.doubleFromNumpy(c.Recv) && keyword(c.Node, "dtype") == nil && len(c.Node.Args) < 2:
				p.doubled(c, Note, "NumPy makes float64 by default: this goes to the GPU at twice the size",
					"convert first: `.float()`, or dtype=np.float32 where the array is made")
			}
		}
	}
}

// doubled reports double precision, unless an option asks for it or the file is about what needs it.
func (p *pass) doubled(c *flow.Call, severity Severity, message, fix string) {
	if !askedFor(c.Ctx) && !p.exact() {
		p.report(c.Node, severity, message, fix)
	}
}

// exact tells whether a file is about computations that need the digits, by what it uses and speaks of: differential equations, derivatives of
// derivatives, matrices that are factored, simulated physics, results that are compared digit by digit.
func (p *pass) exact() bool {
	return p.sourceHas(
		"gradcheck", "gradgradcheck", "assert_close", "assert_allclose", "torch.allclose",
		"torchdiffeq", "torchsde", "odeint", "solve_ivp", "gpytorch", "botorch", "pyro", "scipy", "sympy", "cvxpy", "qpth", "geoopt", "e3nn", "from ase", "import ase",
		"torch.linalg", "torch.inverse", "eigh", "cholesky", "logdet", "triangular_solve", "lstsq", "lanczos", "Lanczos", "LBFGS",
		"hessian", "Hessian", "jacobian", "Jacobian", "create_graph=True", "hyperbolic", "poincare", "sinkhorn", "Sinkhorn",
		"physic", "Physic", "PINN", "pinn", "hamiltonian", "Hamiltonian", "lagrangian", "Lagrangian", "schrodinger", "Schrodinger", "navier", "Navier",
		"quantum", "Quantum", "molecul", "Molecul", "Gaussian process", "GaussianProcess", "collocation", "finite difference", "finite_difference",
	) || p.doubleByDesign()
}

// doubleByDesign tells whether a file names a type once, in a line of its own, for everything it makes: dtype = torch.float64.
func (p *pass) doubleByDesign() bool {
	return slices.ContainsFunc(p.m.Scopes[0].Binds, func(b *flow.Bind) bool {
		return b.Expr != nil && isDouble(b.Expr) && containsAny(strings.ToLower(b.Name), "type", "precision", "real")
	})
}

// doubleSeverity is a note where the author shows that the precision is meant: by a comment beside the line, or by taking it back in the same body.
func (p *pass) doubleSeverity(s *flow.Scope, c *flow.Call) Severity {
	line := p.m.File.Position(c.Node.Start).Line
	for at := max(1, line-1); at <= line; at++ {
		if _, comment, ok := strings.Cut(strings.ToLower(p.m.File.Line(at)), "#"); ok && containsAny(comment, "precis", "accura", "double", "float64", "stab", "numeric", "digit", "nan", "exact") {
			return Note
		}
	}
	back := func(o *flow.Call) bool {
		return o.Order > c.Order && (o.Name == c.Name && c.Name != "" && strings.HasPrefix(c.Name, "torch.set_default") ||
			o.Recv != nil && c.Recv != nil && flow.Key(o.Recv) == flow.Key(c.Recv) && (o.Method == "float" || o.Method == "to" && !toDouble(o.Node) && words(o.Node, func(w string) bool { return w == "float32" || w == "float" || w == "dtype" })))
	}
	if slices.ContainsFunc(s.Calls, back) {
		return Note
	}
	return Warning
}

// askedFor tells whether a place is reached only where an option says that double precision is wanted.
func askedFor(ctx *flow.Context) bool {
	for _, b := range ctx.Branches(nil) {
		if words(b.Test, doubleWord) || texts(b.Test, "double", "float64", "fp64", "64") {
			return true
		}
	}
	return false
}

func doubleWord(w string) bool {
	return containsAny(strings.ToLower(w), "double", "precision", "float64", "fp64", "f64", "dtype")
}

func toDouble(c *pysource.Call) bool {
	return isDouble(positional(c, 0)) || isDouble(keyword(c, "dtype"))
}

func isDouble(x pysource.Expr) bool {
	if x == nil {
		return false
	}
	return oneOf(flow.Last(flow.Key(x)), "float64", "double", "DoubleTensor")
}

func factoryDouble(c *flow.Call) bool {
	return strings.HasPrefix(c.Name, "torch.") && strings.Count(c.Name, ".") == 1 && isDouble(keyword(c.Node, "dtype"))
}

func (p *pass) inTrainingLoop(s *flow.Scope, ctx *flow.Context) bool {
	for _, b := range p.backwards(s) {
		if l := b.call.Ctx.InnermostLoop(); l != nil && ctx.Inside(l) {
			return true
		}
	}
	return false
}

// doubleFromNumpy recognises torch.from_numpy(np.random.rand(…)) and its like.
func (p *pass) doubleFromNumpy(x pysource.Expr) bool {
	c, ok := x.(*pysource.Call)
	if !ok || p.m.Dotted(c.Func) != "torch.from_numpy" || len(c.Args) == 0 {
		return false
	}
	inner, ok := c.Args[0].Value.(*pysource.Call)
	if !ok || keyword(inner, "dtype") != nil {
		return false
	}
	name := p.m.Dotted(inner.Func)
	return oneOf(name, "numpy.random.rand", "numpy.random.randn", "numpy.random.random", "numpy.random.normal", "numpy.random.uniform",
		"numpy.zeros", "numpy.ones", "numpy.empty", "numpy.linspace")
}

// logitsUpcast is LM034.
func logitsUpcast(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			switch {
			case p.upcasts(c) && logitsName(c.Recv) && lossAfter(s, c.Order) && !computesWith(s, c):
				// Without the conversion the loss has the logits' own type, and under autocast or torch.compile the copy is made or left out in any case.
				p.report(c.Node, Note,
					"the logits are copied to float32 before the loss: batch × length × vocabulary × 4 bytes more, often the largest tensor of the step",
					"a fused or chunked linear cross-entropy needs no such copy and keeps the loss in float32")
			case softmaxOfLogits(c) && feedsCrossEntropy(s, c):
				p.report(c.Node, Warning,
					"cross_entropy applies log-softmax itself: this softmax keeps a second tensor of the size of the logits for backward, and changes the loss",
					"pass the raw logits to the loss; take the softmax only where probabilities are wanted")
			case modelRun(c) && isTrue(keyword(c.Node, "output_hidden_states")) && p.inTraining(s, c):
				p.report(c.Node, Note, "output_hidden_states=True returns every layer's output, which then lives as long as the result does",
					"leave it off unless the loss needs the hidden states")
			}
		}
	}
}

// computesWith tells whether something other than the loss is computed from the converted logits first, such as a cap or a temperature: there the
// precision may be wanted.
func computesWith(s *flow.Scope, upcast *flow.Call) bool {
	names, until := []string{}, firstLoss(s, upcast.Order)
	for _, b := range s.Binds {
		if b.Expr == nil || b.Order > until || b.Order < upcast.Order && !around(b.Expr, upcast.Node) || !around(b.Expr, upcast.Node) && !mentionsAny(b.Expr, names) {
			continue
		}
		switch {
		case reshaped(b.Expr, upcast.Node, names):
			names = append(names, b.Name)
		case !words(b.Expr, func(w string) bool { return oneOf(w, "size", "shape", "argmax") }):
			return true
		}
	}
	return inArithmetic(s, upcast.Node)
}

// reshaped tells whether an expression is the converted logits, or a part or another shape of them.
func reshaped(x pysource.Expr, upcast *pysource.Call, names []string) bool {
	for {
		switch y := x.(type) {
		case *pysource.Subscript:
			x = y.X
		case *pysource.Call:
			if y == upcast {
				return true
			}
			a, ok := y.Func.(*pysource.Attribute)
			if !ok || !oneOf(a.Attr, "view", "reshape", "contiguous", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "to", "float", "cuda", "clone", "size") {
				return false
			}
			x = a.X
		case *pysource.Attribute:
			return oneOf(y.Attr, "shape", "device", "dtype", "T", "mT")
		default:
			return mentionsAny(x, names) && flow.Key(x) != ""
		}
	}
}

// inArithmetic tells whether a call is an operand: logits.float() / temperature.
func inArithmetic(s *flow.Scope, c *pysource.Call) bool {
	found := false
	pysource.WalkBody(s.Body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Binary:
			found = found || around(n.Left, c) && reshaped(n.Left, c, nil) || around(n.Right, c) && reshaped(n.Right, c, nil)
		}
		return !found
	})
	return found
}

func (p *pass) upcasts(c *flow.Call) bool {
	if c.Recv == nil {
		return false
	}
	if c.Method == "float" && len(c.Node.Args) == 0 {
		return true
	}
	if c.Method != "to" || len(c.Node.Args) == 0 {
		return false
	}
	return oneOf(p.m.Dotted(c.Node.Args[0].Value), "torch.float32", "torch.float") || oneOf(p.m.Dotted(orName(keyword(c.Node, "dtype"))), "torch.float32", "torch.float")
}

func orName(x pysource.Expr) pysource.Expr {
	if x == nil {
		return &pysource.Name{}
	}
	return x
}

// logitsName tells whether a chain of calls and subscripts starts at something called logits.
func logitsName(x pysource.Expr) bool {
	for {
		switch y := x.(type) {
		case *pysource.Call:
			x = y.Func
			continue
		case *pysource.Subscript:
			x = y.X
			continue
		case *pysource.Attribute:
			if y.Attr != "logits" {
				x = y.X
				continue
			}
			return true
		case *pysource.Name:
			return oneOf(strings.ToLower(y.ID), "logits", "lm_logits", "shift_logits", "prediction_logits")
		}
		return false
	}
}

func isCrossEntropy(c *flow.Call) bool {
	return oneOf(flow.Last(c.Name), "cross_entropy", "CrossEntropyLoss") || c.Callee.Kind == flow.Criterion
}

func lossAfter(s *flow.Scope, order int) bool { return firstLoss(s, order) >= 0 }

// firstLoss is the place of the first cross-entropy that is recorded from a place on; negative where there is none.
func firstLoss(s *flow.Scope, order int) int {
	for _, c := range s.Calls {
		if c.Order >= order && isCrossEntropy(c) && c.Ctx.NoGrad == flow.Recording {
			return c.Order
		}
	}
	return -1
}

func softmaxOfLogits(c *flow.Call) bool {
	return oneOf(c.Name, "torch.softmax", "torch.nn.functional.softmax") && len(c.Node.Args) > 0
}

// feedsCrossEntropy tells whether the softmax's result is what cross_entropy gets first.
func feedsCrossEntropy(s *flow.Scope, softmax *flow.Call) bool {
	name := ""
	for _, b := range s.Binds {
		if b.Expr == pysource.Expr(softmax.Node) {
			name = b.Name
		}
	}
	for _, c := range s.Calls {
		if flow.Last(c.Name) != "cross_entropy" && !(c.Callee.Kind == flow.Criterion && !c.Callee.Guess) || len(c.Node.Args) == 0 {
			continue
		}
		first := c.Node.Args[0].Value
		if flow.Last(c.Name) == "cross_entropy" && (first == pysource.Expr(softmax.Node) || name != "" && flow.Key(first) == name && c.Order > softmax.Order) {
			return true
		}
	}
	return false
}

// deprecatedAMP is LM025. torch.cuda.amp warns since PyTorch 2.3 (GradScaler) and 2.4 (autocast).
func deprecatedAMP(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if !oneOf(c.Name, "torch.cuda.amp.autocast", "torch.cuda.amp.GradScaler", "torch.cuda.amp.autocast_mode.autocast") {
				continue
			}
			last := flow.Last(c.Name)
			fix := "`torch.amp." + last + "(\"cuda\", …)`"
			if last == "GradScaler" {
				fix += " (PyTorch 2.3 or newer)"
			} else {
				fix += " (PyTorch 1.12 or newer)"
			}
			p.report(c.Node, Note, "torch.cuda.amp."+last+" is deprecated and warns at every use", fix)
		}
	}
}

// tensorOfTensor is LM026.
func tensorOfTensor(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if c.Name != "torch.tensor" || len(c.Args) == 0 || c.Node.Args[0].Name != "" {
				continue
			}
			if _, name := c.Node.Args[0].Value.(*pysource.Name); !name || !c.Args[0].IsTensor() || c.Args[0].Guess || p.typeAsked(c) || fromMethod(s, c) || sometimesOther(s, c) {
				continue
			}
			what := p.text(c.Node.Args[0].Value)
			p.report(c.Node, Note, "`"+what+"` is a tensor already: torch.tensor copies it and warns", "`"+what+p.copiedAs(c.Node)+"`"+" copies it without the warning")
		}
	}
}

// copiedAs is what to call on a tensor in the place of torch.tensor, with the arguments that it was given.
func (p *pass) copiedAs(c *pysource.Call) string {
	to, tail := "", ""
	for _, a := range c.Args[1:] {
		switch {
		case oneOf(a.Name, "dtype", "device"):
			to += ", " + a.Name + "=" + p.text(a.Value)
		case a.Name == "requires_grad":
			tail = ".requires_grad_(" + p.text(a.Value) + ")"
		}
	}
	if to != "" {
		to = ".to(" + to[2:] + ")"
	}
	return ".detach().clone()" + to + tail
}

// sometimesOther tells whether the argument of a call is something else than a tensor in one of the branches that lead there, such as a list.
func sometimesOther(s *flow.Scope, c *flow.Call) bool {
	key := flow.Key(c.Node.Args[0].Value)
	return slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool {
		return b.Name == key && b.Order < c.Order && (!b.Value.IsTensor() || b.Value.Guess)
	})
}

// fromMethod tells whether the argument of a call is what a method of something like a model gave: predict() of another library gives an array.
func fromMethod(s *flow.Scope, c *flow.Call) bool {
	key := flow.Key(c.Node.Args[0].Value)
	return slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool {
		made, ok := b.Expr.(*pysource.Call)
		if b.Name != key || !ok {
			return false
		}
		site := callSite(s, made)
		return site != nil && site.Recv != nil && !site.RecvValue.IsTensor() && !modelRun(site) && !strings.HasPrefix(site.Name, "torch.")
	})
}

// typeAsked tells whether a call stands where the program asks for the type of its argument: it knows better what it is.
func (p *pass) typeAsked(c *flow.Call) bool {
	what := c.Node.Args[0].Value
	asks := func(test pysource.Expr) bool {
		found := false
		pysource.Walk(test, func(n pysource.Node) bool {
			ask, ok := n.(*pysource.Call)
			found = found || ok && oneOf(flow.Key(ask.Func), "isinstance", "type", "torch.is_tensor") && len(ask.Args) > 0 && flow.Key(ask.Args[0].Value) == flow.Key(what)
			return !found
		})
		return found
	}
	if slices.ContainsFunc(c.Ctx.Branches(nil), func(b *flow.Context) bool { return b.Test != nil && asks(b.Test) }) {
		return true
	}
	found := false
	pysource.WalkBody(c.Scope.Body, func(n pysource.Node) bool {
		x, ok := n.(*pysource.Conditional)
		found = found || ok && around(x, c.Node) && asks(x.Test)
		return !found
	})
	return found
}
