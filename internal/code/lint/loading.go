package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// cudaInDataset is LM007.
func cudaInDataset(p *pass) {
	workers := p.loaderWorkers()
	for _, c := range p.m.Classes {
		if !c.Dataset {
			continue
		}
		for _, name := range []string{"__getitem__", "__getitems__", "__iter__", "__init__"} {
			if fn := c.Methods[name]; fn != nil {
				where := inSamples
				if name == "__init__" {
					where = inInit
				}
				p.transferIn(fn.Node.Body, workers, where)
			}
		}
	}
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			for _, a := range c.Node.Args {
				if oneOf(a.Name, "transform", "target_transform", "collate_fn") {
					where := inSamples
					if a.Name == "collate_fn" {
						where = inCollate
					}
					p.transferInFunction(a.Value, workers, where)
				}
			}
		}
	}
}

// loaderWorkers tells whether some DataLoader of the file has workers, or has an unknown number.
func (p *pass) loaderWorkers() bool {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if flow.Last(c.Name) != "DataLoader" {
				continue
			}
			x := keyword(c.Node, "num_workers")
			if either, ok := x.(*pysource.Conditional); ok && (noneWritten(either.Then) || noneWritten(either.Else)) {
				continue // none where the data is on the GPU already
			}
			if n, written := literal(x); x != nil && (!written || n > 0) || splat(c.Node) {
				return true
			}
		}
	}
	return false
}

func noneWritten(x pysource.Expr) bool { n, ok := literal(x); return ok && n == 0 }

func (p *pass) transferInFunction(x pysource.Expr, workers bool, where stage) {
	switch x := x.(type) {
	case *pysource.Lambda:
		p.transferIn([]pysource.Stmt{&pysource.ExprStmt{Span: x.Span, X: x.Body}}, workers, where)
	case *pysource.Name:
		if fn := p.m.Functions[x.ID]; fn != nil {
			p.transferIn(fn.Node.Body, workers, where)
		}
	}
}

// stage is where on its way to the loader data is moved to the GPU.
type stage uint8

const (
	inSamples stage = iota // one sample after the other: a dataset, a transform
	inInit                 // all of it, when the dataset is made
	inCollate              // a batch, when it is put together
)

const movesInLoop = "return CPU tensors, and move each batch where it is used, in training and in evaluation, with non_blocking=True; pin_memory=True in the DataLoader makes that faster once nothing it gives is on the GPU"

func (p *pass) transferIn(body []pysource.Stmt, workers bool, where stage) {
	var at *pysource.Call
	pysource.WalkBody(body, func(n pysource.Node) bool {
		if c, ok := n.(*pysource.Call); ok && at == nil && p.m.MovesToGPU(c) {
			at = c
		}
		return at == nil
	})
	if at == nil || p.reportedAt(at) {
		return
	}
	fix := movesInLoop + p.helpersOnGPU(body)
	what := "samples are moved to the GPU in the dataset"
	if where == inCollate {
		what = "the batch is moved to the GPU in the collate_fn"
	}
	switch {
	case workers:
		severity := Warning
		if p.surelyCUDA(at) {
			severity = Error
		}
		p.report(at, severity,
			what+", and the DataLoader has workers: a forked worker cannot use CUDA (\"Cannot re-initialize CUDA in forked subprocess\"), a spawned one pays for a CUDA context of its own",
			fix)
	case p.onCPUByDefault(body, at) || !p.surelyCUDA(at) && !p.boundToCUDA(at):
		p.report(at, Note, what+", where the caller asks for one: it is there beside the batch that the training works on; with num_workers > 0 it fails",
			fix)
	case where == inInit || keptBySelf(body, at):
		p.report(at, Note, "the dataset is put on the GPU and stays there beside the model",
			"fine if meant and if num_workers stays 0; otherwise keep it on the CPU and move batches in the loop")
	case where == inCollate:
		p.report(at, Warning, what+": it is there beside the one that the training works on; with num_workers > 0 it fails",
			fix)
	default:
		p.report(at, Warning,
			"samples are moved to the GPU one by one in the dataset: the samples, the batch stacked from them and the batch before it are there together, three batches instead of one; with num_workers > 0 it fails",
			fix)
	}
}

// helpersOnGPU speaks of the functions of the project that a body calls and that make tensors on a device, or move them there: what is on the CPU now would
// meet them.
func (p *pass) helpersOnGPU(body []pysource.Stmt) string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	pysource.WalkBody(body, func(n pysource.Node) bool {
		c, ok := n.(*pysource.Call)
		if !ok {
			return true
		}
		name := flow.Last(flow.Key(c.Func))
		for _, fn := range p.m.All {
			if fn.Name == name && p.usesDevice(fn.Node.Body) {
				add(name)
			}
		}
		return true
	})
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if facts := s.Facts(c); facts != nil && facts.Moves && within(body, c.Node) {
				add(flow.Last(flow.Key(c.Node.Func)))
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; keep on the CPU also what the helpers it calls make (`" + strings.Join(names, "`, `") + "`)"
}

// within tells whether a node stands in a body.
func within(body []pysource.Stmt, n pysource.Node) bool {
	return slices.ContainsFunc(body, func(st pysource.Stmt) bool { return around(st, n) })
}

// usesDevice tells whether a body moves tensors to a GPU or makes them on a device.
func (p *pass) usesDevice(body []pysource.Stmt) bool {
	found := false
	pysource.WalkBody(body, func(n pysource.Node) bool {
		c, ok := n.(*pysource.Call)
		found = found || ok && p.m.MovesToGPU(c)
		return !found
	})
	return found
}

// keptBySelf tells whether what is moved stays with the dataset: a cache.
func keptBySelf(body []pysource.Stmt, at *pysource.Call) bool {
	found := false
	pysource.WalkBody(body, func(n pysource.Node) bool {
		a, ok := n.(*pysource.Assign)
		if !ok || !around(a, at) {
			return !found
		}
		for _, t := range a.Targets {
			for sub, part := t.(*pysource.Subscript); part; sub, part = t.(*pysource.Subscript) {
				t = sub.X
			}
			found = found || strings.HasPrefix(flow.Key(t), "self.")
		}
		return !found
	})
	return found
}

// boundToCUDA tells whether a name in a transfer is given a device that is CUDA, at least where there is one.
func (p *pass) boundToCUDA(at *pysource.Call) bool {
	for _, s := range p.m.Scopes {
		for _, b := range s.Binds {
			if b.Expr != nil && texts(b.Expr, "cuda") && mentions(at, b.Name) {
				return true
			}
		}
	}
	return false
}

// onCPUByDefault tells whether a transfer goes where a parameter says, and that is the CPU unless somebody says otherwise.
func (p *pass) onCPUByDefault(body []pysource.Stmt, at *pysource.Call) bool {
	for _, fn := range p.m.All {
		if len(body) == 0 || len(fn.Node.Body) == 0 || fn.Node.Body[0] != body[0] {
			continue
		}
		for _, prm := range fn.Node.Params {
			if text, ok := prm.Default.(*pysource.String); ok && text.Value == "cpu" && mentions(at, prm.Name) {
				return true
			}
		}
	}
	return false
}

// surelyCUDA tells whether a transfer names CUDA in so many words, not a device that may be the CPU.
func (p *pass) surelyCUDA(c *pysource.Call) bool {
	a, _ := c.Func.(*pysource.Attribute)
	return a != nil && a.Attr == "cuda" || texts(c, "cuda")
}

func (p *pass) reportedAt(n pysource.Node) bool {
	pos := p.m.File.Position(n.Pos().Start)
	for _, f := range *p.out {
		if f.Rule == p.rule.ID && f.Line == pos.Line && f.Column == pos.Column {
			return true
		}
	}
	return false
}

// checkpointKept is LM027.
func checkpointKept(p *pass) {
	for _, s := range p.m.Scopes {
		for _, b := range s.Binds {
			if b.Value.Kind != flow.Checkpoint {
				continue
			}
			loop := p.trainingAfter(s, b.Order)
			if loop == nil || usedIn(loop, b.Name) || deletedBefore(s, b.Name, b.Order, 1<<30) || reboundAfter(s, b) || usedBelow(s, loop, b.Name) {
				continue
			}
			if c, ok := b.Expr.(*pysource.Call); ok && onCPU(c) {
				continue
			}
			what, copied := keptBeside(s, b)
			if !copied {
				continue
			}
			p.report(b.Node, Note, "`"+b.Name+"` stays referenced through the whole training below: "+what+" never freed",
				"`del "+b.Name+"` after its last use; if it was on the GPU, one torch.cuda.empty_cache() before the first step gives the space back")
		}
	}
}

// keptBeside says what of a checkpoint lies beside what is trained: what was copied into a model. Data, and objects that are taken out of it and trained
// themselves, are no copies; an optimizer takes tensors that are on the right device over as its own
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/optim/optimizer.py: _process_value_according_to_param_policy).
func keptBeside(s *flow.Scope, b *flow.Bind) (what string, copied bool) {
	names := partsOf(s, b)
	weights, state := false, false
	for _, c := range s.Calls {
		if !takesWeights(c.Method) || !slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return mentionsAny(a.Value, names) }) {
			continue
		}
		if c.RecvValue.Kind == flow.Optimizer {
			state = true
		} else if x := keyword(c.Node, "assign"); x == nil || isFalse(x) {
			weights = true
		}
	}
	switch {
	case weights && !state:
		return "the checkpoint's tensors, optimizer state included, are", true
	case weights, state && !takenOut(s, b.Name):
		return "the checkpoint's copy of the weights is", true
	}
	return "", false
}

// partsOf lists the names of a checkpoint and of what is taken out of it: a part, the items of a loop, a dictionary that is filled with them.
func partsOf(s *flow.Scope, b *flow.Bind) []string {
	names := []string{b.Name}
	add := func(name string) {
		if name != "" && len(names) < maxDerived && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for before := 0; before != len(names); {
		before = len(names)
		for _, l := range s.Loops {
			if l.Iter != nil && mentionsAny(l.Iter, names) {
				for _, t := range l.Targets {
					add(t)
				}
			}
		}
		for _, o := range s.Binds {
			if o.Order > b.Order && o.Expr != nil && isPart(o.Expr, names) {
				add(o.Name)
			}
		}
		for _, st := range s.Stores {
			if st.Order > b.Order && st.Expr != nil && mentionsAny(st.Expr, names) {
				add(st.Base)
			}
		}
	}
	return names
}

// isPart tells whether an expression takes something out of one of the names: state["model"], state.get("model"), {k: v for k, v in state.items()}.
func isPart(x pysource.Expr, names []string) bool {
	switch x := x.(type) {
	case *pysource.Name:
		return slices.Contains(names, x.ID)
	case *pysource.Subscript:
		return isPart(x.X, names)
	case *pysource.Attribute:
		return slices.Contains(names, flow.Key(x)) || isPart(x.X, names)
	case *pysource.Comprehension:
		return mentionsAny(x, names)
	case *pysource.Call:
		if a, ok := x.Func.(*pysource.Attribute); ok {
			return isPart(a.X, names)
		}
		return oneOf(flow.Key(x.Func), "dict", "OrderedDict") && mentionsAny(x, names)
	}
	return false
}

// takenOut tells whether a part of a checkpoint is used as it is: model = checkpoint["model"].
func takenOut(s *flow.Scope, name string) bool {
	return slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool {
		if b.Expr == nil || b.Value.Kind != flow.Model && b.Value.Kind != flow.Unknown {
			return false
		}
		found := false
		pysource.Walk(b.Expr, func(n pysource.Node) bool {
			part, ok := n.(*pysource.Subscript)
			found = found || ok && flow.Key(part.X) == name && !texts(part.Index, numbersKept...)
			return !found
		})
		return found && !handedToModel(s, b.Name)
	})
}

func onCPU(c *pysource.Call) bool {
	x := keyword(c, "map_location")
	if x == nil {
		x = positional(c, 1)
	}
	s, ok := x.(*pysource.String)
	return ok && s.Value == "cpu"
}

func (p *pass) trainingAfter(s *flow.Scope, order int) *flow.Loop {
	for _, b := range p.backwards(s) {
		if l := b.call.Ctx.InnermostLoop(); l != nil && b.call.Order > order {
			return l
		}
	}
	return nil
}

func usedIn(l *flow.Loop, name string) bool {
	for _, st := range l.Body {
		if mentions(st, name) {
			return true
		}
	}
	return false
}

// usedBelow tells whether a name is used after a loop, or by a function that may run then: it cannot be given up before.
func usedBelow(s *flow.Scope, l *flow.Loop, name string) bool {
	found := false
	pysource.WalkBody(s.Body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Function, *pysource.Lambda, *pysource.Class:
			found = found || mentions(n, name)
			return false
		case *pysource.Name:
			found = found || n.ID == name && n.Start > l.Node.Pos().End
		}
		return !found
	})
	return found || declaredOutside(s, name)
}

func reboundAfter(s *flow.Scope, b *flow.Bind) bool {
	for _, o := range s.Binds {
		if o.Name == b.Name && o.Order > b.Order {
			return true
		}
	}
	return false
}

// loaderHostMemory is LM033.
func loaderHostMemory(p *pass) {
	wsl := p.sourceHas("WSL", "wsl")
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if flow.Last(c.Name) != "DataLoader" {
				continue
			}
			n, _ := literal(keyword(c.Node, "num_workers"))
			if n > 0 {
				p.listDataset(s, c)
			}
			if wsl && isTrue(keyword(c.Node, "pin_memory")) {
				p.report(c.Node, Note, "under WSL pinned memory is scarce and its exhaustion is reported as CUDA out of memory",
					"try pin_memory=False there")
			}
			batch, _ := literal(keyword(c.Node, "batch_size"))
			if factor, ok := literal(keyword(c.Node, "prefetch_factor")); ok && n*factor >= 64 {
				p.report(c.Node, Note, "the workers keep num_workers × prefetch_factor batches ready in host memory, "+itoa(n*factor)+" of them here"+ofBatch(batch),
					"lower prefetch_factor; two batches ahead for each worker are usually enough")
			}
		}
	}
}

func ofBatch(n int) string {
	if n == 0 {
		return ""
	}
	return " of " + itoa(n) + " samples"
}

// listDataset finds a dataset of this file that keeps a Python list of objects.
func (p *pass) listDataset(s *flow.Scope, c *flow.Call) {
	if len(c.Node.Args) == 0 || len(c.Args) == 0 || c.Args[0].Class == "" {
		return
	}
	class := p.m.Classes[c.Args[0].Class]
	if class == nil || class.Methods["__init__"] == nil {
		return
	}
	init := class.Methods["__init__"].Scope
	for _, st := range init.Stores {
		if st.Kind == flow.Append && strings.HasPrefix(st.Base, "self.") && st.Ctx.InnermostLoop() != nil {
			p.report(c.Node, Note,
				"each worker process copies `"+st.Base+"` of "+class.Name+" bit by bit as it reads it: reference counts make shared pages private, so host memory grows to one copy per worker",
				"keep the samples in a NumPy array or a tensor instead of a list of Python objects")
			return
		}
	}
}
