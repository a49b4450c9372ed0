package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// shapeMismatch is LM030: a Linear behind convolutions whose flattened size follows from the literals.
func shapeMismatch(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if c.Callee.Kind != flow.Model || c.Callee.Class == "" || len(c.Node.Args) == 0 {
				continue
			}
			class := p.m.Classes[c.Callee.Class]
			dims := p.inputShape(s, c.Node.Args[0].Value)
			if c.Callee.Class == "torch.nn.Sequential" && len(dims) > 1 {
				p.sequentialMismatch(s, c, dims)
			}
			if class == nil || class.Ambiguous || len(dims) < 2 || class.Methods["forward"] == nil || class.Methods["__init__"] == nil {
				continue
			}
			w := &shaper{p: p, scope: class.Methods["__init__"].Scope, layers: layersOf(class), env: map[string][]int64{}}
			w.forward(class.Methods["forward"].Node, dims[1:])
			p.reportShape(w, dims)
		}
	}
}

// sequentialMismatch follows the layers of a plain nn.Sequential.
func (p *pass) sequentialMismatch(s *flow.Scope, c *flow.Call, dims []int64) {
	x := onlyBinding(s, flow.Key(c.Node.Func))
	for range lookBack { // nn.Sequential(…).to(device)
		made, ok := x.(*pysource.Call)
		if !ok {
			return
		}
		if p.m.Dotted(made.Func) == "torch.nn.Sequential" {
			w := &shaper{p: p, scope: s}
			w.sequence(made, dims[1:])
			p.reportShape(w, dims)
			return
		}
		a, ok := made.Func.(*pysource.Attribute)
		if !ok {
			return
		}
		x = a.X
	}
}

func (p *pass) reportShape(w *shaper, dims []int64) {
	if w.bad == nil || p.reportedAt(w.bad) {
		return
	}
	p.report(w.bad, Error,
		fmt.Sprintf("this layer expects %d features, but %d arrive from an input of %s: the first forward fails with \"mat1 and mat2 shapes cannot be multiplied\"", w.want, w.got, shapeText(dims)),
		fmt.Sprintf("nn.Linear(%d, …), or nn.AdaptiveAvgPool2d before it, or nn.LazyLinear", w.got))
}

func shapeText(dims []int64) string {
	text := "batch"
	for _, d := range dims[1:] {
		text += fmt.Sprintf(" × %d", d)
	}
	return text
}

// inputShape finds the literal shape of an argument made by torch.randn and its like.
func (p *pass) inputShape(s *flow.Scope, x pysource.Expr) []int64 {
	for range 4 {
		c, ok := x.(*pysource.Call)
		if !ok {
			if x = onlyBinding(s, flow.Key(x)); x == nil {
				return nil
			}
			continue
		}
		if oneOf(p.m.Dotted(c.Func), "torch.randn", "torch.rand", "torch.zeros", "torch.ones", "torch.empty") {
			return foldDims(s, c)
		}
		a, ok := c.Func.(*pysource.Attribute)
		if !ok || !oneOf(a.Attr, "to", "cuda", "requires_grad_", "float") {
			return nil
		}
		x = a.X
	}
	return nil
}

// onlyBinding is what a name is given, where that happens once.
func onlyBinding(s *flow.Scope, key string) pysource.Expr {
	var x pysource.Expr
	for _, b := range s.Binds {
		if key == "" || b.Name != key {
			continue
		}
		if x != nil || b.Expr == nil {
			return nil
		}
		x = b.Expr
	}
	return x
}

// foldDims computes the sizes a factory is called with; a batch that is not known counts as 1.
func foldDims(s *flow.Scope, c *pysource.Call) []int64 {
	var sizes []pysource.Expr
	for _, a := range c.Args {
		if a.Name == "" && a.Star == 0 {
			sizes = append(sizes, a.Value)
		}
	}
	if len(sizes) == 1 {
		if list, ok := sizes[0].(*pysource.Sequence); ok {
			sizes = list.Items
		}
	}
	var dims []int64
	for i, x := range sizes {
		n, ok := s.Int(x)
		if !ok && i == 0 {
			n, ok = 1, true
		}
		if !ok || n <= 0 {
			return nil
		}
		dims = append(dims, n)
	}
	return dims
}

// layersOf maps self.attributes to the calls that make them in __init__; one made twice is left out.
func layersOf(class *flow.Class) map[string]*pysource.Call {
	layers := map[string]*pysource.Call{}
	for _, b := range class.Methods["__init__"].Scope.Binds {
		c, ok := b.Expr.(*pysource.Call)
		if !ok || layers[b.Name] != nil {
			layers[b.Name] = nil
			continue
		}
		layers[b.Name] = c
	}
	return layers
}

// shaper follows one sample's shape (no batch dimension) through forward.
type shaper struct {
	p         *pass
	scope     *flow.Scope // of __init__, where the layers' sizes are folded
	layers    map[string]*pysource.Call
	env       map[string][]int64
	bad       pysource.Node
	want, got int64
}

func (w *shaper) forward(f *pysource.Function, dims []int64) {
	if len(f.Params) < 2 {
		return
	}
	w.env[f.Params[1].Name] = dims
	for _, st := range f.Body {
		switch st := st.(type) {
		case *pysource.Assign:
			shape := w.shape(st.Value)
			if key := flow.Key(st.Targets[0]); key != "" && st.Op == "" {
				w.env[key] = shape
			}
		case *pysource.Return:
			w.shape(st.X)
		case *pysource.ExprStmt:
		default:
			return // a branch or a loop: the shape is no longer certain
		}
		if w.bad != nil {
			return
		}
	}
}

// shape is the shape of an expression, nil where it is not known.
func (w *shaper) shape(x pysource.Expr) []int64 {
	switch x := x.(type) {
	case *pysource.Name:
		return w.env[x.ID]
	case *pysource.Call:
		return w.call(x)
	}
	return nil
}

func (w *shaper) call(c *pysource.Call) []int64 {
	if len(c.Args) == 0 && !isMethod(c) {
		return nil
	}
	name := w.p.m.Dotted(c.Func)
	if layer := w.layers[name]; layer != nil && len(c.Args) == 1 {
		return w.layer(c, layer, w.shape(c.Args[0].Value))
	}
	switch name {
	case "torch.relu", "torch.nn.functional.relu", "torch.nn.functional.gelu", "torch.sigmoid", "torch.tanh", "torch.nn.functional.dropout", "torch.nn.functional.silu":
		return w.shape(c.Args[0].Value)
	case "torch.nn.functional.max_pool2d", "torch.nn.functional.avg_pool2d":
		if len(c.Args) == 2 {
			k, ok := w.scope.Int(c.Args[1].Value)
			return pooled(w.shape(c.Args[0].Value), k, k, 0, ok)
		}
	case "torch.flatten":
		if n, ok := w.scope.Int(second(c)); ok && n == 1 {
			return flat(w.shape(c.Args[0].Value))
		}
	}
	a, ok := c.Func.(*pysource.Attribute)
	if ok && (a.Attr == "view" || a.Attr == "reshape") && len(c.Args) == 2 && minusOne(c.Args[1].Value) {
		return flat(w.shape(a.X))
	}
	if ok && a.Attr == "flatten" && len(c.Args) == 1 {
		return flat(w.shape(a.X))
	}
	return nil
}

func isMethod(c *pysource.Call) bool { _, ok := c.Func.(*pysource.Attribute); return ok }

func second(c *pysource.Call) pysource.Expr {
	if len(c.Args) > 1 {
		return c.Args[1].Value
	}
	return nil
}

func minusOne(x pysource.Expr) bool {
	u, ok := x.(*pysource.Unary)
	if !ok || u.Op != "-" {
		return false
	}
	n, ok := literal(u.X)
	return ok && n == 1
}

func flat(dims []int64) []int64 {
	if dims == nil {
		return nil
	}
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return []int64{n}
}

// layer applies one module; the formulas are those of the Conv2d, MaxPool2d and Linear pages of the PyTorch 2.11 documentation.
func (w *shaper) layer(call, layer *pysource.Call, in []int64) []int64 {
	if in == nil {
		return nil
	}
	switch flow.Last(w.p.m.Dotted(layer.Func)) {
	case "ReLU", "GELU", "SiLU", "Dropout", "Dropout2d", "BatchNorm2d", "BatchNorm1d", "Identity", "Sigmoid", "Tanh", "LeakyReLU", "ELU":
		return in
	case "Flatten":
		return flat(in)
	case "Sequential":
		return w.sequence(layer, in)
	case "Conv2d":
		return w.conv(layer, in)
	case "MaxPool2d", "AvgPool2d":
		k, ok := w.arg(layer, 0, "kernel_size", 0)
		stride, ok2 := w.arg(layer, 1, "stride", k)
		pad, ok3 := w.arg(layer, 2, "padding", 0)
		return pooled(in, k, stride, pad, ok && ok2 && ok3 && keyword(layer, "ceil_mode") == nil && keyword(layer, "dilation") == nil)
	case "Linear":
		want, ok := w.arg(layer, 0, "in_features", 0)
		out, ok2 := w.arg(layer, 1, "out_features", 0)
		got := in[len(in)-1]
		if ok && want != got && len(in) == 1 {
			w.bad, w.want, w.got = call, want, got
			return nil
		}
		if !ok || !ok2 {
			return nil
		}
		return append(append([]int64{}, in[:len(in)-1]...), out)
	}
	return nil
}

// sequence applies the layers of an nn.Sequential written out in place.
func (w *shaper) sequence(c *pysource.Call, in []int64) []int64 {
	for _, a := range c.Args {
		layer, ok := a.Value.(*pysource.Call)
		if !ok || a.Star > 0 || w.bad != nil {
			return nil
		}
		in = w.layer(layer, layer, in)
	}
	return in
}

func (w *shaper) conv(layer *pysource.Call, in []int64) []int64 {
	out, ok := w.arg(layer, 1, "out_channels", 0)
	k, ok2 := w.arg(layer, 2, "kernel_size", 0)
	stride, ok3 := w.arg(layer, 3, "stride", 1)
	pad, ok4 := w.arg(layer, 4, "padding", 0)
	dilation, ok5 := w.arg(layer, 5, "dilation", 1)
	if len(in) != 3 || !ok || !ok2 || !ok3 || !ok4 || !ok5 || stride < 1 || k < 1 {
		return nil
	}
	h, wd := (in[1]+2*pad-dilation*(k-1)-1)/stride+1, (in[2]+2*pad-dilation*(k-1)-1)/stride+1
	if h < 1 || wd < 1 {
		return nil
	}
	return []int64{out, h, wd}
}

func pooled(in []int64, k, stride, pad int64, ok bool) []int64 {
	if len(in) != 3 || !ok || k < 1 || stride < 1 {
		return nil
	}
	h, w := (in[1]+2*pad-k)/stride+1, (in[2]+2*pad-k)/stride+1
	if h < 1 || w < 1 {
		return nil
	}
	return []int64{in[0], h, w}
}

// arg folds an argument given by place or name; absent means the default.
func (w *shaper) arg(c *pysource.Call, i int, name string, absent int64) (int64, bool) {
	x := keyword(c, name)
	if x == nil {
		x = positional(c, i)
	}
	if x == nil {
		return absent, !splat(c) && absent != 0 || name == "padding"
	}
	return w.scope.Int(x)
}

// backwardOnLeaves is LM031.
func backwardOnLeaves(p *pass) {
	for _, s := range p.m.Scopes {
		for _, b := range p.backwards(s) {
			v := b.call.RecvValue
			if b.call.Method != "backward" || v.Kind != flow.Leaf || v.HasGraph() || v.Grad || v.Trained || s.Func != nil && s.Func.NoGrad || p.madeElsewhere(s, b.call.Recv, lookBack) {
				continue
			}
			severity := Warning
			if b.call.Recv != nil && p.allSeen(s, b.call.Recv, lookBack) {
				severity = Error
			}
			p.report(b.call.Node, severity,
				"nothing this is computed from requires gradients: backward() raises \"element 0 of tensors does not require grad\" the first time it runs",
				"make the tensors to be trained with requires_grad=True, or use a module's parameters")
		}
	}
}

// allSeen tells whether everything a value is computed from is made in this body: none of it is given, or comes from another.
func (p *pass) allSeen(s *flow.Scope, x pysource.Expr, depth int) bool {
	seen := true
	pysource.Walk(x, func(n pysource.Node) bool {
		if c, ok := n.(*pysource.Call); ok && oneOf(p.m.Dotted(c.Func), "torch.randn", "torch.rand", "torch.zeros", "torch.ones", "torch.empty", "torch.full", "torch.linspace", "torch.arange") {
			return false // given are the sizes alone
		}
		name, ok := n.(*pysource.Name)
		if !ok || !seen {
			return seen
		}
		if p.m.Imports[name.ID] != "" || oneOf(name.ID, "torch", "F", "nn") {
			return true
		}
		from := p.written(s, name)
		seen = depth > 0 && (s.Func == nil || !hasParam(s.Func.Node, name.ID)) && (from != pysource.Expr(name) && p.allSeen(s, from, depth-1) || isTargetAnywhere(s, name.ID))
		return seen
	})
	return seen
}

// isTargetAnywhere tells whether a name is the variable of a loop that counts.
func isTargetAnywhere(s *flow.Scope, name string) bool {
	return slices.ContainsFunc(s.Loops, func(l *flow.Loop) bool {
		return isTarget(name, l) && (l.Kind == flow.RangeLoop || l.Kind == flow.EpochLoop)
	})
}

// madeElsewhere tells whether a value comes from a call of something that is neither PyTorch's own function nor a tensor's method: model.log_prob(x) may hold
// parameters that cannot be seen here.
func (p *pass) madeElsewhere(s *flow.Scope, x pysource.Expr, depth int) bool {
	if x == nil || depth == 0 {
		return false
	}
	from := p.written(s, x)
	for _, c := range s.Calls {
		if partOf(from, c.Node) && !strings.HasPrefix(c.Name, "torch.") && !c.RecvValue.IsTensor() && c.Callee.Kind != flow.Criterion {
			return true
		}
	}
	found := false
	pysource.Walk(from, func(n pysource.Node) bool {
		if name, ok := n.(*pysource.Name); ok && from != x {
			found = found || p.madeElsewhere(s, name, depth-1)
		}
		return !found
	})
	return found
}

// broadcastBlowup is LM035.
func broadcastBlowup(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if !oneOf(flow.Last(c.Name), "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss") && c.Callee.Kind != flow.Criterion || len(c.Node.Args) < 2 {
				continue
			}
			if c.Callee.Kind == flow.Criterion && !p.elementwise(s, flow.Key(c.Node.Func)) {
				continue
			}
			a, b := c.Node.Args[0].Value, c.Node.Args[1].Value
			if p.column(s, a, lookBack) && p.row(s, b, lookBack) || p.row(s, a, lookBack) && p.column(s, b, lookBack) {
				p.report(c.Node, Warning,
					"one side has shape (N, 1), the other (N,): they are broadcast to N × N before the loss, memory grows with the square of the batch, and the result is wrong",
					"give both the same shape: squeeze(1) on the one of (N, 1), or unsqueeze(1) on the other")
			}
		}
	}
}

func (p *pass) elementwise(s *flow.Scope, key string) bool {
	return oneOf(p.origin(s, key), "torch.nn.MSELoss", "torch.nn.L1Loss", "torch.nn.SmoothL1Loss", "torch.nn.HuberLoss")
}

// lookBack bounds how many bindings are followed back: x = x.float() leads to itself.
const lookBack = 4

// column tells whether an expression is certainly (N, 1): unsqueeze(1), view(-1, 1), x[:, None].
func (p *pass) column(s *flow.Scope, x pysource.Expr, depth int) bool {
	c, ok := p.written(s, x).(*pysource.Call)
	if !ok || depth == 0 {
		return false
	}
	a, ok := c.Func.(*pysource.Attribute)
	if !ok {
		return false
	}
	switch a.Attr {
	case "unsqueeze":
		return len(c.Args) == 1 && (minusOne(c.Args[0].Value) || isOne(c.Args[0].Value))
	case "view", "reshape":
		return len(c.Args) == 2 && minusOne(c.Args[0].Value) && isOne(c.Args[1].Value)
	case "float", "to":
		return p.column(s, a.X, depth-1)
	}
	return false
}

// row tells whether an expression is certainly (N,): squeeze(1), squeeze(-1), view(-1), flatten().
func (p *pass) row(s *flow.Scope, x pysource.Expr, depth int) bool {
	c, ok := p.written(s, x).(*pysource.Call)
	if !ok || depth == 0 {
		return false
	}
	a, ok := c.Func.(*pysource.Attribute)
	if !ok {
		return false
	}
	switch a.Attr {
	case "squeeze":
		return len(c.Args) == 1 && (minusOne(c.Args[0].Value) || isOne(c.Args[0].Value)) || len(c.Args) == 0
	case "view", "reshape":
		return len(c.Args) == 1 && minusOne(c.Args[0].Value)
	case "flatten":
		return len(c.Args) == 0
	case "float", "to":
		return p.row(s, a.X, depth-1)
	}
	return false
}

func isOne(x pysource.Expr) bool { n, ok := literal(x); return ok && n == 1 }

// written is the expression a name was last given, or the expression itself.
func (p *pass) written(s *flow.Scope, x pysource.Expr) pysource.Expr {
	key := flow.Key(x)
	if key == "" {
		return x
	}
	var last pysource.Expr
	for _, b := range s.Binds {
		if b.Name == key {
			last = b.Expr
		}
	}
	if last == nil {
		return x
	}
	return last
}
