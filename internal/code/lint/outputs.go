package lint

import (
	"bytes"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// outputsKept is LM098: the value of a cell's last line stays in Out[n] and _ until the kernel ends, unless the line ends with a semicolon
// (DisplayHook.quiet and update_user_ns in https://github.com/ipython/ipython/blob/8.29.0/IPython/core/displayhook.py). It looks at names and at
// calls of models and losses only; a graph that a backward frees keeps no activations.
func outputsKept(m *flow.Module, ends []int) []Finding {
	var out []Finding
	scope, start := m.Scopes[0], 0
	backs := findBackwards(scope)
	for _, end := range ends {
		last := lastOutput(m.File, start, end)
		start = end
		if last == nil {
			continue
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
		f.Rule, f.Severity = OutputRule, Warning
		f.Message = "the notebook keeps what this cell shows (in `Out` and `_`): `" + what + "` stays alive with its graph and all its activations until the kernel ends, whatever is deleted"
		f.Fix = "end the line with `;`, or show `" + what + ".detach().cpu()`"
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
