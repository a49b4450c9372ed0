package lint

import (
	"bytes"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/notebook"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// outputsKept is LM098: the value of a cell's last line stays in Out[n] and _ until the kernel ends, unless the line ends with a semicolon
// (DisplayHook.quiet and update_user_ns in https://github.com/ipython/ipython/blob/8.29.0/IPython/core/displayhook.py). It looks at names and at
// calls of models and losses only; a graph that a backward frees keeps no activations. Where the notebook keeps what the cell showed when it ran, that
// decides: an error shows nothing, and a tensor with a graph is printed with it.
func outputsKept(m *flow.Module, cells []notebook.Cell) []Finding {
	var out []Finding
	scope, start := m.Scopes[0], 0
	backs := findBackwards(scope)
	for _, c := range cells {
		last := lastOutput(m.File, start, c.End)
		start = c.End
		if last == nil || c.Shown == notebook.Failed || c.Shown == notebook.Result {
			continue // what ran last showed nothing with a graph
		}
		v := displayed(scope, last)
		freed := false
		for _, b := range backs {
			freed = freed || b.value.Shares(v) && !b.retain
		}
		if !v.HasGraph() || freed {
			continue
		}
		what := m.File.Text(last)
		f := place(m.File, m.Path, last.Pos())
		f.Rule, f.Severity = OutputRule, Note
		if c.Shown == notebook.WithGraph {
			f.Severity = Warning
		}
		f.Message = "the notebook keeps what this cell shows (in `Out` and `_`): `" + what + "` stays alive with its graph and all its activations until the kernel ends, whatever is deleted"
		f.Fix = "end the line with `;`, or show a detached copy of it on the CPU"
		out = append(out, f)
	}
	return out
}

// lastOutput is the expression that a cell shows: its last statement, where that is an expression without a semicolon after it.
func lastOutput(f *pysource.File, start, end int) pysource.Expr {
	var last pysource.Stmt
	for _, st := range f.Body {
		if at := st.Pos(); int(at.Start) >= start && int(at.End) <= end {
			last = st
		}
	}
	st, ok := last.(*pysource.ExprStmt)
	if !ok {
		return nil
	}
	rest, _, _ := bytes.Cut(f.Source[st.X.Pos().End:end], []byte("#"))
	if bytes.IndexByte(rest, ';') >= 0 {
		return nil
	}
	return st.X
}

// displayed is what is known of an expression at the margin.
func displayed(s *flow.Scope, x pysource.Expr) flow.Value {
	switch x := x.(type) {
	case *pysource.Name:
		return s.Holds(x.ID)
	case *pysource.Call:
		for _, c := range s.Calls {
			if c.Node == x && (c.Callee.Kind == flow.Model || c.Callee.Kind == flow.Criterion) {
				return c.Result
			}
		}
	}
	return flow.Value{}
}
