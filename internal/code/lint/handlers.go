package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// oomHandler is LM023. While an except block runs, the exception's traceback holds every frame it passed, and the frames hold
// their tensors (pytorch/pytorch#27600; FAQ "My out of memory exception handler can't allocate memory").
func oomHandler(p *pass) {
	for _, s := range p.m.Scopes {
		for _, t := range s.Tries {
			trains := p.tryTrains(s, t.Node)
			for i := range t.Node.Handlers {
				h := &t.Node.Handlers[i]
				oom, runtime := caught(p, h)
				checked := checksMemory(h)
				switch {
				case !oom && !runtime:
				case oom || checked:
					p.recovery(s, t.Node, h)
				case trains && !showsError(h):
					p.mistaken(h)
				}
			}
		}
	}
}

// caught tells what a handler names: an out-of-memory class, RuntimeError.
func caught(p *pass, h *pysource.Handler) (oom, runtime bool) {
	if h.Type == nil {
		return false, false
	}
	types := []pysource.Expr{h.Type}
	if seq, ok := h.Type.(*pysource.Sequence); ok {
		types = seq.Items
	}
	for _, x := range types {
		switch flow.Last(p.m.Dotted(x)) {
		case "OutOfMemoryError":
			oom = true
		case "RuntimeError":
			runtime = true
		}
	}
	return oom, runtime
}

// checksMemory tells whether the handler looks at what happened: the text, or the type.
func checksMemory(h *pysource.Handler) bool {
	for _, st := range h.Body {
		found := false
		pysource.Walk(st, func(n pysource.Node) bool {
			if i, ok := n.(*pysource.If); ok {
				for _, b := range i.Branches {
					found = found || texts(b.Test, "memory", "oom", "cuda") || words(b.Test, func(w string) bool {
						return strings.Contains(strings.ToLower(w), "oom") || strings.Contains(w, "OutOfMemory") || strings.Contains(strings.ToLower(w), "out_of_memory")
					})
				}
			}
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

// tryTrains tells whether the guarded block runs a model or a backward, itself or through a function of this file.
func (p *pass) tryTrains(s *flow.Scope, t *pysource.Try) bool {
	for _, c := range s.Calls {
		if !c.Ctx.Within(func(x *flow.Context) bool { return x.Try == t }) {
			continue
		}
		if modelRun(c) && !c.Callee.Guess || c.Method == "backward" && c.Recv != nil || s.CallReaches(c, "backward") {
			return true
		}
	}
	return false
}

// recovery looks for work and stored exceptions inside a handler of out-of-memory errors.
func (p *pass) recovery(s *flow.Scope, t *pysource.Try, h *pysource.Handler) {
	if at := p.storesException(h); at != nil {
		p.report(at, Warning,
			"the exception is kept, and with it the traceback, every frame it passed and all tensors in them: the memory is not freed",
			"keep str(e), not e, where only its text is needed")
		return
	}
	if onlyMoves(s, t) {
		return // no frame but this one was there
	}
	for _, c := range s.Calls {
		if !c.Ctx.Within(func(x *flow.Context) bool { return x.Except == h }) {
			continue
		}
		if c.Method == "empty_cache" && !givesUp(h.Body, c.Node) || modelRun(c) || c.Method == "backward" && c.Recv != nil || p.retries(s, t, c) {
			p.report(c.Node, Warning,
				"this runs while the exception is still alive: its traceback holds the tensors of the failed attempt, so their memory is neither free nor given back",
				"set a flag here and recover after the except block has ended")
			return
		}
	}
}

// onlyMoves tells whether a guarded block does nothing but move tensors: the traceback holds no frame that is not alive anyway.
func onlyMoves(s *flow.Scope, t *pysource.Try) bool {
	moves := 0
	for _, c := range s.Calls {
		if !c.Ctx.Within(func(x *flow.Context) bool { return x.Try == t }) {
			continue
		}
		if !oneOf(c.Method, "to", "cuda", "cpu", "device") || s.Callee(c) != nil {
			return false
		}
		moves++
	}
	return moves > 0
}

// givesUp tells whether what follows a node in a block ends the program's attempt anyway: it raises or exits. A branch
// that ends by return, continue or break goes on instead.
func givesUp(body []pysource.Stmt, at pysource.Node) bool {
	for _, st := range body {
		branch, ok := st.(*pysource.If)
		if !ok {
			continue
		}
		for _, b := range branch.Branches {
			if inside(b.Body, at) && (goesOn(b.Body) || givesUp(b.Body, at)) {
				return !goesOn(b.Body)
			}
		}
	}
	if len(body) == 0 {
		return false
	}
	switch st := body[len(body)-1].(type) {
	case *pysource.Raise:
		return true
	case *pysource.ExprStmt:
		return words(st, func(w string) bool { return oneOf(w, "exit", "_exit", "abort") })
	}
	return false
}

func inside(body []pysource.Stmt, at pysource.Node) bool {
	return len(body) > 0 && body[0].Pos().Start <= at.Pos().Start && at.Pos().End <= body[len(body)-1].Pos().End
}

func goesOn(body []pysource.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	switch st := body[len(body)-1].(type) {
	case *pysource.Return:
		return true
	case *pysource.Word:
		return st.Keyword == "continue" || st.Keyword == "break"
	}
	return false
}

// retries tells whether a call in the handler repeats the guarded one.
func (p *pass) retries(s *flow.Scope, t *pysource.Try, c *flow.Call) bool {
	if len(c.Node.Args) == 0 || oneOf(c.Method, "print", "str", "format", "info", "warning", "error", "append", "len", "log") {
		return false
	}
	for _, o := range s.Calls {
		guarded := o != c && o.Ctx.Within(func(x *flow.Context) bool { return x.Try == t })
		if guarded && p.text(o.Node.Func) == p.text(c.Node.Func) && (s.Callee(o) != nil || modelRun(o)) && sharesArgument(o.Node, c.Node) {
			return true
		}
	}
	return false
}

// sharesArgument tells whether two calls get the same thing, or a part of it.
func sharesArgument(a, b *pysource.Call) bool {
	for _, x := range a.Args {
		if key := flow.Key(x.Value); key != "" && mentions(b, key) {
			return true
		}
	}
	return false
}

// storesException finds "self.error = e" or "errors.append(e)".
func (p *pass) storesException(h *pysource.Handler) pysource.Node {
	if h.Name == "" {
		return nil
	}
	raised := func(x pysource.Expr) bool { // kept to be raised again: a text cannot be
		key, found := flow.Key(x), false
		pysource.WalkBody(p.m.File.Body, func(n pysource.Node) bool {
			r, ok := n.(*pysource.Raise)
			found = found || ok && r.X != nil && key != "" && (mentions(r.X, key) || r.Cause != nil && mentions(r.Cause, key))
			return !found
		})
		return found
	}
	var at pysource.Node
	pysource.WalkBody(h.Body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Assign:
			if key, ok := n.Value.(*pysource.Name); ok && key.ID == h.Name && !raised(n.Targets[0]) {
				at = n
			}
		case *pysource.Call:
			a, ok := n.Func.(*pysource.Attribute)
			if ok && a.Attr == "append" && len(n.Args) == 1 && flow.Key(n.Args[0].Value) == h.Name && !raised(a.X) {
				at = n
			}
		}
		return at == nil
	})
	return at
}

// showsError tells whether a handler of RuntimeError takes it for no shortage of memory and hides nothing: it is for an interruption too, or it prints the
// traceback.
func showsError(h *pysource.Handler) bool {
	if seq, ok := h.Type.(*pysource.Sequence); ok && words(seq, func(w string) bool { return oneOf(w, "KeyboardInterrupt", "SystemExit", "Exception") }) {
		return true
	}
	if slices.ContainsFunc(h.Body, func(st pysource.Stmt) bool { return texts(st, "memory", "oom") }) {
		return false
	}
	return bodyHas(h.Body, func(w string) bool {
		return oneOf(w, "traceback", "format_exc", "print_exc", "exception")
	})
}

// mistaken reports a handler that takes every RuntimeError for a shortage of memory.
func (p *pass) mistaken(h *pysource.Handler) {
	for _, st := range h.Body {
		raises := false
		pysource.Walk(st, func(n pysource.Node) bool {
			_, raise := n.(*pysource.Raise)
			raises = raises || raise
			return !raises
		})
		if raises {
			return
		}
	}
	severity, message := Note, "RuntimeError is also a wrong shape, a wrong dtype or a mistake in autograd: this handler hides them all"
	for _, st := range h.Body {
		if texts(st, "memory", "oom") {
			severity, message = Warning, "every RuntimeError, a wrong shape included, is reported as out of memory here"
		}
	}
	p.report(spanOf(h), severity, message, "catch torch.cuda.OutOfMemoryError (a subclass of RuntimeError, PyTorch 1.13 or newer) and let the others through")
}

// spanOf is the header of a handler: "except RuntimeError as e".
func spanOf(h *pysource.Handler) pysource.Node {
	return pysource.Span{Start: h.Start, End: h.Type.Pos().End}
}

// emptyCacheInLoop is LM039.
func emptyCacheInLoop(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if c.Name != "torch.cuda.empty_cache" {
				continue
			}
			loop := c.Ctx.InnermostLoop()
			if loop == nil || len(c.Ctx.Branches(loop)) > 0 || c.Ctx.Within(func(x *flow.Context) bool { return x.Except != nil }) {
				continue
			}
			if loop.Kind == flow.LoaderLoop || loop.Kind != flow.EpochLoop && p.stepsIn(s, loop) {
				p.report(c.Node, Note,
					"empty_cache() in every iteration makes the allocator ask CUDA for the same memory again and waits for the GPU; PyTorch does it by itself before it reports out of memory",
					"remove it, or call it once between phases; against fragmentation set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.1 or newer)")
			}
		}
	}
}

// stepsIn tells whether a loop runs a backward itself, once a turn: not a loop around trainings.
func (p *pass) stepsIn(s *flow.Scope, l *flow.Loop) bool {
	return slices.ContainsFunc(p.backwards(s), func(b backward) bool { return b.call.Method == "backward" && b.call.Ctx.InnermostLoop() == l })
}

// allocConf is LM040.
func allocConf(p *pass) {
	s := p.m.Scopes[0]
	pysource.WalkBody(p.m.File.Body, func(n pysource.Node) bool {
		name, value, at := envSetting(p, n)
		if value == nil || !oneOf(name, "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF") {
			return true
		}
		text, _ := value.(*pysource.String)
		switch {
		case text != nil && strings.Contains(text.Value, "max_split_size_mb") && strings.Contains(strings.ReplaceAll(text.Value, " ", ""), "expandable_segments:True"):
			p.report(at, Warning,
				"max_split_size_mb works against expandable_segments: together reserved memory can grow without bound (pytorch/pytorch#123548)",
				"keep expandable_segments:True alone")
		case cudaUsedBefore(s, at):
			p.report(at, Warning,
				"CUDA was used before this line: the allocator read its settings then and ignores this one",
				"set it in the shell, or as the first lines of the program, before torch is imported")
		case torchImportedBefore(p, at):
			p.report(at, Note, "set after torch was imported this works only as long as nothing has touched CUDA yet",
				"set it in the shell, or before `import torch`")
		}
		return true
	})
}

// envSetting recognises os.environ["NAME"] = value and os.environ.setdefault("NAME", value).
func envSetting(p *pass, n pysource.Node) (name string, value pysource.Expr, at pysource.Node) {
	switch n := n.(type) {
	case *pysource.Assign:
		sub, ok := n.Targets[0].(*pysource.Subscript)
		if !ok || p.m.Dotted(sub.X) != "os.environ" {
			return "", nil, nil
		}
		if key, ok := sub.Index.(*pysource.String); ok {
			return key.Value, n.Value, n
		}
	case *pysource.Call:
		if oneOf(p.m.Dotted(n.Func), "os.environ.setdefault", "os.putenv") && len(n.Args) == 2 {
			if key, ok := n.Args[0].Value.(*pysource.String); ok {
				return key.Value, n.Args[1].Value, n
			}
		}
	}
	return "", nil, nil
}

func cudaUsedBefore(s *flow.Scope, at pysource.Node) bool {
	for _, c := range s.Calls {
		if c.Node.Start >= at.Pos().Start {
			break
		}
		// Seeds wait until CUDA is used, and what asks the driver makes no allocator (_lazy_call in
		// https://github.com/pytorch/pytorch/blob/v2.11.0/torch/cuda/__init__.py).
		if c.Method == "cuda" || strings.HasPrefix(c.Name, "torch.cuda.") && strings.HasSuffix(c.Method, "Tensor") {
			return true
		}
		for _, a := range c.Node.Args {
			if str, ok := a.Value.(*pysource.String); ok && (c.Method == "to" || a.Name == "device") && strings.HasPrefix(str.Value, "cuda") {
				return true
			}
		}
	}
	return false
}

func torchImportedBefore(p *pass, at pysource.Node) bool {
	found := false
	for _, st := range p.m.File.Body {
		imp, ok := st.(*pysource.Import)
		if !ok || imp.Start >= at.Pos().Start {
			continue
		}
		found = found || imp.From && (imp.Module == "torch" || strings.HasPrefix(imp.Module, "torch."))
		for _, a := range imp.Aliases {
			found = found || !imp.From && (a.Name == "torch" || strings.HasPrefix(a.Name, "torch."))
		}
	}
	return found
}
