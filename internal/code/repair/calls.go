package repair

import (
	"bytes"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// loadOnCPU keeps a checkpoint off the GPU. load_state_dict copies its tensors to where the parameters are, so nothing changes for a checkpoint
// that goes there and nowhere else.
func loadOnCPU(s *site) []lint.Repair {
	if s.call == nil || s.call.Name != "torch.load" {
		return nil
	}
	safe := s.copiedFrom(s.call.Node)
	if !safe && s.wholeModel(s.call.Node) {
		return nil
	}
	cpu := `"cpu"`
	if s.beforeItem() {
		cpu = "lambda storage, loc: storage" // which every release takes
	}
	if x := keyword(s.call.Node, "map_location"); x != nil {
		return one("Load onto the CPU", safe, replace(x, cpu))
	}
	if len(s.call.Node.Args) != 1 && !named(s.call.Node.Args[1:]) {
		return nil
	}
	return one("Load onto the CPU: `map_location="+cpu+"`", safe, s.adding(s.call.Node, "map_location="+cpu)...)
}

// copiedFrom tells whether what is loaded goes straight into the load_state_dict of a model or an optimizer, and nowhere else: those copy it to where their
// own tensors are. An average or a buffer of the project may keep what it is given.
func (s *site) copiedFrom(load *pysource.Call) bool {
	outer := s.argumentOf(load)
	if outer == nil || s.has("_load_from_state_dict") {
		return false
	}
	f, ok := outer.Func.(*pysource.Attribute)
	taker := s.known.calls[outer.Pos()]
	if !ok || f.Attr != "load_state_dict" || taker == nil {
		return false
	}
	name := strings.ToLower(flow.Last(flow.Key(f.X)))
	if strings.Contains(name, "ema") || strings.Contains(name, "shadow") || strings.Contains(name, "average") {
		return false
	}
	return taker.RecvValue.Kind == flow.Model || taker.RecvValue.Kind == flow.Optimizer
}

// wholeModel tells whether what is loaded is run or handled as a module: a pickled model, which stays where it is loaded to.
func (s *site) wholeModel(load *pysource.Call) bool {
	keys := map[string]bool{}
	for _, b := range s.scope.Binds {
		if b.Expr != nil && b.Expr.Pos().Start <= load.Start && load.End <= b.Expr.Pos().End {
			keys[b.Name] = true
		}
	}
	found := false
	pysource.WalkBody(s.f.Body, func(n pysource.Node) bool {
		c, ok := n.(*pysource.Call)
		if !ok {
			return !found
		}
		found = found || keys[flow.Key(c.Func)] && flow.Key(c.Func) != ""
		if f, ok := c.Func.(*pysource.Attribute); ok && moduleMethods[f.Attr] {
			found = found || f.X == pysource.Expr(load) || keys[flow.Key(f.X)] && flow.Key(f.X) != ""
		}
		return !found
	})
	return found
}

// moduleMethods are methods of modules that no checkpoint has.
var moduleMethods = map[string]bool{"eval": true, "train": true, "forward": true, "parameters": true, "cuda": true, "cpu": true, "to": true, "half": true, "generate": true, "state_dict": true}

func named(args []pysource.Arg) bool {
	for _, a := range args {
		if a.Name == "" || a.Star > 0 {
			return false
		}
	}
	return true
}

// argumentOf is the call that a call is a direct argument of.
func (s *site) argumentOf(c *pysource.Call) *pysource.Call {
	var found *pysource.Call
	if st := s.statement(c); st != nil {
		pysource.Walk(st, func(n pysource.Node) bool {
			if outer, ok := n.(*pysource.Call); ok {
				for _, a := range outer.Args {
					if a.Value == pysource.Expr(c) {
						found = outer
					}
				}
			}
			return found == nil
		})
	}
	return found
}

// newAMP names the device instead of the module. Where the old name was imported, the import would have to change with every use. A first
// positional argument is "enabled" in the old form and the device in the new one
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/cuda/amp/autocast_mode.py#L15).
func newAMP(s *site) []lint.Repair {
	if s.call == nil {
		return nil
	}
	c := s.call.Node
	if !strings.HasPrefix(s.text(c.Func), "torch.cuda.amp.") || len(c.Args) > 0 && c.Args[0].Name == "" {
		return nil
	}
	end := int(c.Func.Pos().End)
	open := bytes.IndexByte(s.f.Source[end:c.End], '(')
	if open < 0 {
		return nil
	}
	insert := `"cuda"`
	if len(c.Args) > 0 {
		insert += ", "
	}
	name := "torch.amp." + flow.Last(s.call.Name)
	// torch.amp.autocast is there since 1.12, torch.amp.GradScaler since 2.3; a scripted function may know only one of the names.
	safe := flow.Last(s.call.Name) != "GradScaler" && !s.has("torch.jit")
	return one("Replace with `"+name+"(\"cuda\")`", safe, replace(c.Func, name), pysource.Edit{Start: end + open + 1, End: end + open + 1, Text: insert})
}

// cloneTensor copies a tensor the way torch.tensor's own warning asks for.
func cloneTensor(s *site) []lint.Repair {
	if s.call == nil || len(s.call.Args) != 1 || s.call.Args[0].Kind == flow.Batch {
		return nil
	}
	x := s.call.Node.Args[0].Value
	return one("Replace with `"+short(s.text(x))+".detach().clone()`", false, replace(s.call.Node, s.text(x)+".detach().clone()"))
}

// deleteCheckpoint forgets a checkpoint after its last use in the block that loaded it.
func deleteCheckpoint(s *site) []lint.Repair {
	if s.bind == nil || strings.Contains(s.bind.Name, ".") {
		return nil
	}
	block, inside, first, last := s.known.blocks[s.bind.Node], 0, pysource.Stmt(nil), s.bind.Node
	for _, st := range block {
		n := names([]pysource.Stmt{st}, s.bind.Name)
		inside += n
		if n > 0 {
			last = st
		}
		if n > 0 && first == nil {
			first = st
		}
	}
	body := s.f.Body
	if fn := s.scope.Func; fn != nil {
		body = fn.Node.Body
	}
	if names(body, s.bind.Name) != inside || last == s.bind.Node || first != s.bind.Node || s.inClass(s.bind.Node) || reachable(body, s.bind.Name) {
		return nil
	}
	if _, ok := last.(*pysource.Return); ok || len(bodies(last)) > 0 && !deletable(last) {
		return nil
	}
	// A name of the file is one of its module too, and a cell of a notebook is run again.
	if safe := s.scope.Func != nil; safe || !strings.HasSuffix(s.m.Path, ".ipynb") {
		return one("Add `del "+s.bind.Name+"` after its last use", safe, s.after(last, "del "+s.bind.Name)...)
	}
	return nil
}

// reachable tells whether a name may be asked for where no use of it is written: by a function, class or generator that runs later, by another function
// that shares it, or through the names of a body.
func reachable(body []pysource.Stmt, name string) bool {
	return anyNode(body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Function, *pysource.Class, *pysource.Lambda:
			return anyName(n, name)
		case *pysource.Comprehension:
			return n.Kind == '(' && anyName(n, name)
		case *pysource.Word:
			return slices.Contains(n.Names, name)
		case *pysource.Call:
			called := flow.Key(n.Func)
			return called == "eval" || called == "exec" || len(n.Args) == 0 && (called == "locals" || called == "globals" || called == "vars" || called == "dir")
		}
		return false
	})
}

func anyName(n pysource.Node, name string) bool {
	found := false
	pysource.Walk(n, func(x pysource.Node) bool {
		e, ok := x.(*pysource.Name)
		found = found || ok && e.ID == name
		return !found
	})
	return found
}

// inClass tells whether a statement makes an attribute of a class.
func (s *site) inClass(st pysource.Stmt) bool {
	return slices.ContainsFunc(s.known.all, func(o pysource.Stmt) bool {
		c, ok := o.(*pysource.Class)
		return ok && slices.Contains(c.Body, st)
	})
}

// deletable tells whether a compound statement ends with its last line, so that a statement can be put below it, and keeps no name alive.
func deletable(st pysource.Stmt) bool {
	switch st.(type) {
	case *pysource.If, *pysource.With:
		return true
	}
	return false
}

// bucketViews lets gradients live in DDP's buckets.
func bucketViews(s *site) []lint.Repair {
	if s.call == nil || s.has("detach_()", ".grad =") {
		return nil
	}
	return one("Add `gradient_as_bucket_view=True`", false, s.adding(s.call.Node, "gradient_as_bucket_view=True")...)
}

// nonReentrant chooses the kind of checkpointing that needs no input with a gradient, or switches the cache off.
func nonReentrant(s *site) []lint.Repair {
	switch {
	case s.call != nil && strings.HasPrefix(s.call.Name, "torch.utils.checkpoint."):
		return one("Add `use_reentrant=False`", false, s.adding(s.call.Node, "use_reentrant=False")...)
	case s.call != nil && keyword(s.call.Node, "use_cache") != nil:
		return one("Set `use_cache=False`", false, replace(keyword(s.call.Node, "use_cache"), "False"))
	case s.bind != nil && strings.HasSuffix(s.bind.Name, ".use_cache") && s.bind.Expr != nil:
		return one("Set `use_cache = False`", false, replace(s.bind.Expr, "False"))
	}
	return nil
}

func noBenchmark(s *site) []lint.Repair {
	if s.bind == nil || s.bind.Expr == nil {
		return nil
	}
	return one("Set `benchmark = False`", false, replace(s.bind.Expr, "False"))
}

// dropEmptyCache removes a call that stands alone.
func dropEmptyCache(s *site) []lint.Repair {
	if s.call == nil {
		return nil
	}
	st := s.statement(s.call.Node)
	if e, ok := st.(*pysource.ExprStmt); !ok || e.X != pysource.Expr(s.call.Node) {
		return nil
	}
	return one("Remove `"+short(s.text(s.call.Node))+"`", false, s.removed(st)...)
}

// dropSplitSize takes max_split_size_mb out of a string of settings.
func dropSplitSize(s *site) []lint.Repair {
	var found *pysource.String
	pysource.WalkBody(s.f.Body, func(n pysource.Node) bool {
		if x, ok := n.(*pysource.String); ok && found == nil && !x.Formatted && strings.Contains(x.Value, "max_split_size_mb") && strings.Contains(x.Value, "expandable_segments") &&
			x.Start >= s.found.Span.Start && x.End <= s.found.Span.End {
			found = x
		}
		return true
	})
	if found == nil {
		return nil
	}
	var kept []string
	for part := range strings.SplitSeq(found.Value, ",") {
		if !strings.Contains(part, "max_split_size_mb") {
			kept = append(kept, strings.TrimSpace(part))
		}
	}
	text := strings.Replace(s.text(found), found.Value, strings.Join(kept, ","), 1)
	return one("Remove `max_split_size_mb`", false, replace(found, text))
}
