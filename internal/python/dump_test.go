package python_test

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/python"
)

// dump writes a tree as nested lists, one statement a line. testdata/dump.py writes CPython's own tree in the same form.
func dump(f *python.File) string {
	var d dumper
	d.body(f.Body, 0)
	return d.String()
}

type dumper struct{ strings.Builder }

func (d *dumper) body(body []python.Stmt, depth int) {
	for _, s := range body {
		d.stmt(s, depth)
	}
}

func (d *dumper) line(depth int, parts ...string) {
	d.WriteString(strings.Repeat(" ", depth))
	d.WriteString(strings.Join(parts, " "))
	d.WriteByte('\n')
}

func (d *dumper) stmt(s python.Stmt, n int) {
	switch s := s.(type) {
	case *python.ExprStmt:
		d.line(n, "expr", ex(s.X))
	case *python.Assign:
		switch {
		case s.Op != "":
			d.line(n, "aug", ex(s.Targets[0]), s.Op, ex(s.Value))
		case s.Annotation != nil:
			d.line(n, "ann", ex(s.Targets[0]), ex(s.Annotation), ex(s.Value))
		default:
			d.line(n, "assign", exs(s.Targets), ex(s.Value))
		}
	case *python.Return:
		d.line(n, "return", ex(s.X))
	case *python.Raise:
		d.line(n, "raise", ex(s.X), ex(s.Cause))
	case *python.Assert:
		d.line(n, "assert", ex(s.Test), ex(s.Message))
	case *python.Delete:
		d.line(n, "del", exs(s.Targets))
	case *python.Word:
		d.line(n, s.Keyword, strings.Join(s.Names, ","))
	case *python.Import:
		var names []string
		for _, a := range s.Aliases {
			names = append(names, a.Name+":"+a.As)
		}
		if s.From {
			d.line(n, "from", s.Module, strings.Join(names, ","))
		} else {
			d.line(n, "import", strings.Join(names, ","))
		}
	case *python.TypeAlias:
		d.line(n, "type", s.Name, ex(s.Value))
	default:
		d.compound(s, n)
	}
}

func (d *dumper) compound(s python.Stmt, n int) {
	switch s := s.(type) {
	case *python.If:
		for _, b := range s.Branches {
			d.line(n, "if", ex(b.Test))
			d.body(b.Body, n+1)
		}
		d.section("else", s.Else, n)
	case *python.While:
		d.line(n, "while", ex(s.Test))
		d.body(s.Body, n+1)
		d.section("else", s.Else, n)
	case *python.For:
		d.line(n, "for", ex(s.Target), ex(s.Iter))
		d.body(s.Body, n+1)
		d.section("else", s.Else, n)
	case *python.With:
		var items []string
		for _, i := range s.Items {
			items = append(items, ex(i.Context)+":"+ex(i.Target))
		}
		d.line(n, "with", strings.Join(items, " "))
		d.body(s.Body, n+1)
	case *python.Try:
		d.line(n, "try")
		d.body(s.Body, n+1)
		for _, h := range s.Handlers {
			d.line(n, "except", ex(h.Type), h.Name)
			d.body(h.Body, n+1)
		}
		d.section("else", s.Else, n)
		d.section("finally", s.Finally, n)
	case *python.Match:
		d.line(n, "match", ex(s.Subject))
		for _, c := range s.Cases {
			d.line(n, "case", ex(c.Guard))
			d.body(c.Body, n+1)
		}
	case *python.Function:
		d.line(n, "def", s.Name, exs(s.Decorators), params(s.Params), ex(s.Returns))
		d.body(s.Body, n+1)
	case *python.Class:
		d.line(n, "class", s.Name, exs(s.Decorators), args(s.Args))
		d.body(s.Body, n+1)
	case *python.BadStmt:
		d.line(n, "bad")
		d.body(s.Body, n+1)
	}
}

func (d *dumper) section(name string, body []python.Stmt, n int) {
	if len(body) > 0 {
		d.line(n, name)
		d.body(body, n+1)
	}
}

func exs(xs []python.Expr) string {
	parts := make([]string, len(xs))
	for i, x := range xs {
		parts[i] = ex(x)
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// args puts positional arguments before named ones, as CPython's tree does.
func args(list []python.Arg) string {
	var positional, named []string
	for _, a := range list {
		switch {
		case a.Star == 1:
			positional = append(positional, "*"+ex(a.Value))
		case a.Star == 2:
			named = append(named, "**"+ex(a.Value))
		case a.Name != "":
			named = append(named, a.Name+"="+ex(a.Value))
		default:
			positional = append(positional, ex(a.Value))
		}
	}
	return "(" + strings.Join(append(positional, named...), " ") + ")"
}

func params(list []python.Param) string {
	var parts []string
	for _, p := range list {
		parts = append(parts, fmt.Sprintf("%s%s:%s=%s", strings.Repeat("*", p.Star), p.Name, ex(p.Annotation), ex(p.Default)))
	}
	return "(" + strings.Join(parts, " ") + ")"
}

func ex(x python.Expr) string {
	switch x := x.(type) {
	case nil:
		return "-"
	case *python.Name:
		return x.ID
	case *python.Number:
		return "num"
	case *python.String:
		if x.Formatted {
			return "f" + exs(x.Parts)
		}
		return "str"
	case *python.Constant:
		return x.Text
	case *python.Attribute:
		return "(. " + ex(x.X) + " " + x.Attr + ")"
	case *python.Call:
		return "(call " + ex(x.Func) + " " + args(x.Args) + ")"
	case *python.Subscript:
		return "(at " + ex(x.X) + " " + ex(x.Index) + ")"
	case *python.Slice:
		return "(slice " + ex(x.Low) + " " + ex(x.High) + " " + ex(x.Step) + ")"
	case *python.Binary:
		return "(" + x.Op + " " + ex(x.Left) + " " + ex(x.Right) + ")"
	case *python.Unary:
		return "(" + x.Op + " " + ex(x.X) + ")"
	case *python.Bool:
		return "(" + x.Op + " " + exs(x.Values) + ")"
	case *python.Compare:
		return "(cmp " + strings.Join(x.Ops, ",") + " " + exs(x.Values) + ")"
	case *python.Conditional:
		return "(if " + ex(x.Test) + " " + ex(x.Then) + " " + ex(x.Else) + ")"
	case *python.Lambda:
		return "(lambda " + params(x.Params) + " " + ex(x.Body) + ")"
	}
	return display(x)
}

func display(x python.Expr) string {
	switch x := x.(type) {
	case *python.Sequence:
		return "(" + map[byte]string{'(': "tuple", '[': "list", '{': "set"}[x.Kind] + " " + exs(x.Items) + ")"
	case *python.Dict:
		return "(dict " + exs(x.Keys) + " " + exs(x.Values) + ")"
	case *python.Comprehension:
		out := "(comp " + string(x.Kind) + " " + ex(x.Key) + " " + ex(x.Value)
		for _, c := range x.Clauses {
			out += " " + ex(c.Target) + " " + ex(c.Iter) + " " + exs(c.Conds)
		}
		return out + ")"
	case *python.Await:
		return "(await " + ex(x.X) + ")"
	case *python.Yield:
		if x.From {
			return "(yieldfrom " + ex(x.X) + ")"
		}
		return "(yield " + ex(x.X) + ")"
	case *python.Walrus:
		return "(:= " + ex(x.Target) + " " + ex(x.Value) + ")"
	case *python.Starred:
		return "*" + ex(x.X)
	}
	return "bad"
}
