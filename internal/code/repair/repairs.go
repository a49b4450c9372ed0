package repair

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// repairs are the changes to try for each rule.
var repairs = map[string]func(*site) []lint.Repair{
	"LM001": keepValue,
	"LM002": keepOnCPU,
	"LM003": withoutGraph,
	"LM004": cutState,
	"LM005": dropRetainGraph,
	"LM009": logDetached,
	"LM010": moveZeroGrad,
	"LM011": scaleLoss,
	"LM017": addZeroGrad,
	"LM018": dropSetToNone,
	"LM022": unscaleFirst,
	"LM024": loadOnCPU,
	"LM025": newAMP,
	"LM026": cloneTensor,
	"LM027": deleteCheckpoint,
	"LM032": bucketViews,
	"LM036": nonReentrant,
	"LM037": noBenchmark,
	"LM039": dropEmptyCache,
	"LM040": dropSplitSize,
}

// Rules lists the rules for which a repair is tried.
func Rules() []string {
	var out []string
	for id := range repairs {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// titled describes putting a method behind an expression.
func (s *site) titled(x pysource.Expr, method string) string {
	text := short(s.text(x))
	if primary(x) {
		return "Replace `" + text + "` with `" + text + method + "`"
	}
	return "Replace `" + text + "` with `(" + text + ")" + method + "`"
}

func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 40 {
		return string(r[:39]) + "…"
	}
	return text
}

// keepValue stores a number or a tensor without its graph.
func keepValue(s *site) []lint.Repair {
	if s.store == nil || s.store.Expr == nil {
		return nil
	}
	x, uses := s.store.Expr, s.usesOf(s.store.Base, 3)
	if uses == differentiated || s.declaredOutside(s.store.Base) {
		return nil
	}
	if !s.tensor(x) && !s.scalar(x, 5) || s.sometimesNumber(x) {
		return nil // it may be a tuple, a dict or a number
	}
	freed := s.found.Severity == lint.Note // after its backward nothing can be differentiated any more
	var out []lint.Repair
	if uses == asNumber && s.scalar(x, 5) && !s.beforeItem() {
		out = append(out, one(s.titled(x, ".item()"), true, with(x, ".item()")...)...)
	}
	out = append(out, one(s.titled(x, ".detach()"), uses <= asTensor || freed, with(x, ".detach()")...)...)
	if s.store.Kind == flow.Concat { // what it is joined with lies on the GPU
		return out
	}
	return append(out, one(s.titled(x, ".detach().cpu()"), false, with(x, ".detach().cpu()")...)...)
}

// keepOnCPU moves what is collected to the host, where nothing on the GPU meets it later: a note says that something may.
func keepOnCPU(s *site) []lint.Repair {
	if s.found.Severity == lint.Note || s.store == nil || s.store.Expr == nil || s.store.Kind == flow.Concat || !s.tensor(s.store.Expr) {
		return nil
	}
	return one(s.titled(s.store.Expr, ".cpu()"), false, with(s.store.Expr, ".cpu()")...)
}

// withoutGraph runs an evaluation without autograd: the whole function where it does nothing else, else the loop or statement.
func withoutGraph(s *site) []lint.Repair {
	torch := s.torch()
	if s.call == nil || torch == "" || s.beforeItem() || lint.TrainableElsewhere(s.scope, s.call) {
		return nil
	}
	var out []lint.Repair
	if fn := s.scope.Func; fn != nil && !s.m.Reaches(fn, "backward") && !wantsGradients(fn.Node.Body) && !mayTrain(fn.Node.Body) && !yields(fn.Node.Body) && len(s.known.blocks[fn.Node]) > 0 {
		// Never safe: a forward in another file may compute gradients itself, in eval mode too.
		out = append(out, one("Decorate `"+fn.Name+"` with `@"+torch+".no_grad()`", false, s.decorated(fn.Node, "@"+torch+".no_grad()")...)...)
	}
	for _, target := range s.evaluations() {
		if yields([]pysource.Stmt{target}) { // whoever asks for the next value would run without autograd too
			continue
		}
		out = append(out, one("Wrap this in `with "+torch+".no_grad():`", false, s.wrapped(target, "with "+torch+".no_grad():")...)...)
	}
	return out
}

// evaluations are the statements to wrap around a call: the closest loop that trains nothing, then the statement itself.
func (s *site) evaluations() []pysource.Stmt {
	var out []pysource.Stmt
	if l := s.call.Ctx.InnermostLoop(); l != nil && !trains(l.Body) && !wantsGradients(l.Body) && !mayTrain(l.Body) {
		out = append(out, l.Node)
	}
	if st := s.statement(s.call.Node); st != nil && len(bodies(st)) == 0 {
		out = append(out, st)
	}
	return out
}

func trains(body []pysource.Stmt) bool {
	return anyNode(body, func(n pysource.Node) bool {
		a, ok := n.(*pysource.Attribute)
		return ok && (a.Attr == "backward" || a.Attr == "zero_grad")
	})
}

func wantsGradients(body []pysource.Stmt) bool {
	return anyNode(body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Attribute:
			return n.Attr == "backward" || strings.Contains(n.Attr, "grad") && n.Attr != "no_grad"
		case *pysource.Name:
			return strings.Contains(n.ID, "grad")
		}
		return false
	})
}

// mayTrain tells whether a block calls something that trains by its name: while autograd is off it would fail.
func mayTrain(body []pysource.Stmt) bool {
	return anyNode(body, func(n pysource.Node) bool {
		c, ok := n.(*pysource.Call)
		if !ok {
			return false
		}
		name := strings.ToLower(flow.Last(flow.Key(c.Func)))
		if _, method := c.Func.(*pysource.Attribute); method && (name == "train" || name == "step") { // model.train(), and an optimizer's step or a scheduler's
			return name == "step"
		}
		return slices.ContainsFunc([]string{"train", "fit", "finetune", "fine_tune", "adapt", "optimi", "attack", "perturb", "closure", "meta_step", "inner_loop"}, func(w string) bool {
			return strings.Contains(strings.ReplaceAll(name, "pretrain", ""), w) && !strings.Contains(name, "load") && !strings.Contains(name, "data")
		})
	})
}

func yields(body []pysource.Stmt) bool {
	return anyNode(body, func(n pysource.Node) bool { _, ok := n.(*pysource.Yield); return ok })
}

// decorated puts a decorator next to a def.
func (s *site) decorated(fn *pysource.Function, decorator string) []pysource.Edit {
	at := s.lineStart(int(fn.NameSpan.Start))
	line := string(s.f.Source[at:fn.NameSpan.Start])
	rest := strings.TrimLeft(line, " \t")
	if !strings.HasPrefix(rest, "def ") && !strings.HasPrefix(rest, "async def ") {
		return nil
	}
	return []pysource.Edit{{Start: at, End: at, Text: line[:len(line)-len(rest)] + decorator + s.newline()}}
}

// wrapped indents the lines of a statement below a header. Strings that go over several lines would change, so they are left alone.
func (s *site) wrapped(st pysource.Stmt, header string) []pysource.Edit {
	indent, ok := s.alone(st)
	many := anyNode([]pysource.Stmt{st}, func(n pysource.Node) bool {
		text, ok := n.(*pysource.String)
		return ok && strings.Contains(s.text(text), "\n")
	})
	if !ok || many {
		return nil
	}
	step := "    "
	if strings.HasSuffix(indent, "\t") {
		step = "\t"
	}
	first := s.lineStart(int(st.Pos().Start))
	edits := []pysource.Edit{{Start: first, End: first, Text: indent + header + s.newline() + step}}
	for at := s.lineEnd(first); at < int(st.Pos().End); at = s.lineEnd(at) {
		for s.f.Source[at] != '\n' {
			at++
		}
		at++
		if s.lineEnd(at) > at {
			edits = append(edits, pysource.Edit{Start: at, End: at, Text: step})
		}
	}
	return edits
}

// cutState detaches a recurrent state after it was computed. An LSTM's state is a pair: that needs a hand.
func cutState(s *site) []lint.Repair {
	loop := (*flow.Loop)(nil)
	if s.bind != nil {
		loop = s.bind.Ctx.InnermostLoop()
	}
	if loop == nil || s.has("LSTM", "lstm") || !s.has("GRU", "RNN", "gru", "rnn") {
		return nil
	}
	state := s.bind.Name
	for _, b := range s.scope.Binds { // the state among several targets is the one that goes in again
		if c, ok := b.Expr.(*pysource.Call); ok && b.Node.Pos() == s.bind.Node.Pos() && slices.ContainsFunc(c.Args, func(a pysource.Arg) bool { return flow.Key(a.Value) == b.Name }) {
			state = b.Name
		}
	}
	if names(loop.Body, state) != 2 { // it goes in and comes out; a loss that uses it needs its graph
		return nil
	}
	return one("Detach `"+state+"` after each batch", false, s.after(s.bind.Node, state+" = "+state+".detach()")...)
}

// dropRetainGraph lets backward free the graph.
func dropRetainGraph(s *site) []lint.Repair {
	if s.call == nil {
		return nil
	}
	return one("Remove `retain_graph=True`", false, s.without(s.call.Node, "retain_graph")...)
}

// logDetached gives a logger values without graphs.
func logDetached(s *site) []lint.Repair {
	if s.call == nil || len(s.call.Node.Args) == 0 {
		return nil
	}
	d, ok := s.call.Node.Args[0].Value.(*pysource.Dict)
	if !ok {
		return nil
	}
	var out []lint.Repair
	for _, method := range []string{".item()", ".detach()"} {
		var edits []pysource.Edit
		for _, v := range d.Values {
			_, plain := v.(*pysource.Name)
			switch {
			case !plain || !s.carries(v):
			case method == ".item()" && (s.beforeItem() || !s.scalar(v, 5)):
				edits = nil
			default:
				edits = append(edits, with(v, method)...)
			}
		}
		out = append(out, one("Log without the graph: `"+method+"`", true, edits...)...)
	}
	return out
}

// carries tells whether a name holds a tensor with a graph, whatever it was given.
func (s *site) carries(v pysource.Expr) bool {
	bound := 0
	for _, b := range s.scope.Binds {
		if b.Name != flow.Key(v) {
			continue
		}
		if !b.Value.HasGraph() {
			return false
		}
		bound++
	}
	return bound > 0 && s.tensor(v)
}

// moveZeroGrad clears the gradients after the step that used them.
func moveZeroGrad(s *site) []lint.Repair {
	if s.call == nil {
		return nil
	}
	zero := s.statement(s.call.Node)
	loop := s.call.Ctx.InnermostLoop()
	if _, ok := zero.(*pysource.ExprStmt); !ok || loop == nil {
		return nil
	}
	optimizer := flow.Key(s.call.Recv)
	for _, c := range s.scope.Calls {
		if c.Method != "step" || c.Recv == nil || c.Ctx.InnermostLoop() != loop || len(c.Ctx.Branches(loop)) == 0 {
			continue
		}
		scaled := slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return flow.Key(a.Value) == optimizer })
		step := s.statement(c.Node)
		if _, ok := step.(*pysource.ExprStmt); !ok || flow.Key(c.Recv) != optimizer && !scaled {
			continue
		}
		if s.clearedAfter(c, optimizer) {
			return one("Remove `"+short(s.text(s.call.Node))+"`: the gradients are cleared after the step", false, s.removed(zero)...)
		}
		removed, added := s.removed(zero), s.after(step, string(s.f.Source[zero.Pos().Start:s.lineEnd(int(zero.Pos().End))]))
		if len(removed) == 0 || len(added) == 0 {
			return nil
		}
		return one("Move `"+short(s.text(s.call.Node))+"` after the step", false, append(removed, added...)...)
	}
	return nil
}

// clearedAfter tells whether the gradients are cleared beside a step already, after it.
func (s *site) clearedAfter(step *flow.Call, optimizer string) bool {
	return slices.ContainsFunc(s.scope.Calls, func(c *flow.Call) bool {
		return c.Method == "zero_grad" && c.Order > step.Order && c.Recv != nil && flow.Key(c.Recv) == optimizer && c.Ctx == step.Ctx
	})
}

// scaleLoss back-propagates each micro-batch's share.
func scaleLoss(s *site) []lint.Repair {
	_, by, ok := strings.Cut(s.found.Fix, "(loss / ")
	by, _, closed := strings.Cut(by, ").backward()")
	if s.call == nil || s.call.Recv == nil || !ok || !closed || strings.Contains(by, "…") {
		return nil
	}
	x := s.call.Recv
	if !primary(x) {
		return nil
	}
	edits := []pysource.Edit{replace(x, "("+s.text(x)+" / "+by+")")}
	if c, ok := x.(*pysource.Call); ok && len(c.Args) == 1 && strings.HasSuffix(s.m.Dotted(c.Func), ".scale") { // scaler.scale(loss).backward()
		if !primary(c.Args[0].Value) {
			return nil
		}
		edits = []pysource.Edit{replace(c.Args[0].Value, s.text(c.Args[0].Value)+" / "+by)}
	}
	return one("Divide the loss by `"+short(by)+"`", false, edits...)
}

// addZeroGrad clears the gradients before each backward.
func addZeroGrad(s *site) []lint.Repair {
	if s.call == nil || s.call.Recv == nil || s.call.RecvValue.Kind != flow.Optimizer {
		return nil
	}
	loop := s.call.Ctx.InnermostLoop()
	for _, c := range s.scope.Calls {
		if c.Method == "backward" && c.Ctx.InnermostLoop() == loop && len(c.Ctx.Branches(loop)) == 0 && c.Order < s.call.Order {
			clear := s.text(s.call.Recv) + ".zero_grad()"
			return one("Add `"+clear+"` before backward", false, s.before(s.statement(c.Node), clear)...)
		}
	}
	return nil
}

// dropSetToNone frees gradients instead of filling them with zeros. Code that reads .grad, in whatever file, may meet None then, and a step leaves
// parameters alone that got no gradient, where zeros would have moved them by momentum or decay.
func dropSetToNone(s *site) []lint.Repair {
	if s.call == nil {
		return nil
	}
	return one("Remove `set_to_none=False`", false, s.without(s.call.Node, "set_to_none")...)
}

// unscaleFirst divides the gradients by the loss scale before they are clipped.
func unscaleFirst(s *site) []lint.Repair {
	if s.call == nil || !strings.HasPrefix(s.call.Method, "clip_grad") {
		return nil
	}
	for _, c := range s.scope.Calls {
		if c.Method == "step" && c.RecvValue.Kind == flow.Scaler && c.Order > s.call.Order && len(c.Node.Args) > 0 && c.Ctx.InnermostLoop() == s.call.Ctx.InnermostLoop() {
			text := s.text(c.Recv) + ".unscale_(" + s.text(c.Node.Args[0].Value) + ")"
			return one("Add `"+text+"` before clipping", false, s.before(s.statement(s.call.Node), text)...)
		}
	}
	return nil
}
