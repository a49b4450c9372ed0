package pysource_test

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// dump writes a tree as nested lists, one statement a line. testdata/dump.py writes CPython's own tree in the same form.
func dump(f *pysource.File) string {
	var d dumper
	d.body(f.Body, 0)
	return d.String()
}

type dumper struct{ strings.Builder }

func (d *dumper) body(body []pysource.Stmt, depth int) {
	for _, s := range body {
		d.stmt(s, depth)
	}
}

func (d *dumper) line(depth int, parts ...string) {
	d.WriteString(strings.Repeat(" ", depth))
	d.WriteString(strings.Join(parts, " "))
	d.WriteByte('\n')
}

func (d *dumper) stmt(s pysource.Stmt, n int) {
	switch s := s.(type) {
	case *pysource.ExprStmt:
		d.line(n, "expr", ex(s.X))
	case *pysource.Assign:
		switch {
		case s.Op != "":
			d.line(n, "aug", ex(s.Targets[0]), s.Op, ex(s.Value))
		case s.Annotation != nil:
			d.line(n, "ann", ex(s.Targets[0]), ex(s.Annotation), ex(s.Value))
		default:
			d.line(n, "assign", exs(s.Targets), ex(s.Value))
		}
	case *pysource.Return:
		d.line(n, "return", ex(s.X))
	case *pysource.Raise:
		d.line(n, "raise", ex(s.X), ex(s.Cause))
	case *pysource.Assert:
		d.line(n, "assert", ex(s.Test), ex(s.Message))
	case *pysource.Delete:
		d.line(n, "del", exs(s.Targets))
	case *pysource.Word:
		d.line(n, s.Keyword, strings.Join(s.Names, ","))
	case *pysource.Import:
		var names []string
		for _, a := range s.Aliases {
			names = append(names, a.Name+":"+a.As)
		}
		if s.From {
			d.line(n, "from", s.Module, strings.Join(names, ","))
		} else {
			d.line(n, "import", strings.Join(names, ","))
		}
	case *pysource.TypeAlias:
		d.line(n, "type", s.Name, ex(s.Value))
	default:
		d.compound(s, n)
	}
}

func (d *dumper) compound(s pysource.Stmt, n int) {
	switch s := s.(type) {
	case *pysource.If:
		for _, b := range s.Branches {
			d.line(n, "if", ex(b.Test))
			d.body(b.Body, n+1)
		}
		d.section("else", s.Else, n)
	case *pysource.While:
		d.line(n, "while", ex(s.Test))
		d.body(s.Body, n+1)
		d.section("else", s.Else, n)
	case *pysource.For:
		d.line(n, "for", ex(s.Target), ex(s.Iter))
		d.body(s.Body, n+1)
		d.section("else", s.Else, n)
	case *pysource.With:
		var items []string
		for _, i := range s.Items {
			items = append(items, ex(i.Context)+":"+ex(i.Target))
		}
		d.line(n, "with", strings.Join(items, " "))
		d.body(s.Body, n+1)
	case *pysource.Try:
		d.line(n, "try")
		d.body(s.Body, n+1)
		for _, h := range s.Handlers {
			d.line(n, "except", ex(h.Type), h.Name)
			d.body(h.Body, n+1)
		}
		d.section("else", s.Else, n)
		d.section("finally", s.Finally, n)
	case *pysource.Match:
		d.line(n, "match", ex(s.Subject))
		for _, c := range s.Cases {
			d.line(n, "case", ex(c.Guard))
			d.body(c.Body, n+1)
		}
	case *pysource.Function:
		d.line(n, "def", s.Name, exs(s.Decorators), params(s.Params), ex(s.Returns))
		d.body(s.Body, n+1)
	case *pysource.Class:
		d.line(n, "class", s.Name, exs(s.Decorators), args(s.Args))
		d.body(s.Body, n+1)
	case *pysource.BadStmt:
		d.line(n, "bad")
		d.body(s.Body, n+1)
	}
}

func (d *dumper) section(name string, body []pysource.Stmt, n int) {
	if len(body) > 0 {
		d.line(n, name)
		d.body(body, n+1)
	}
}

func exs(xs []pysource.Expr) string {
	parts := make([]string, len(xs))
	for i, x := range xs {
		parts[i] = ex(x)
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// args puts positional arguments before named ones, as CPython's tree does.
func args(list []pysource.Arg) string {
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

func params(list []pysource.Param) string {
	var parts []string
	for _, p := range list {
		parts = append(parts, fmt.Sprintf("%s%s:%s=%s", strings.Repeat("*", p.Star), p.Name, ex(p.Annotation), ex(p.Default)))
	}
	return "(" + strings.Join(parts, " ") + ")"
}

func ex(x pysource.Expr) string {
	switch x := x.(type) {
	case nil:
		return "-"
	case *pysource.Name:
		return x.ID
	case *pysource.Number:
		return "num"
	case *pysource.String:
		if x.Formatted {
			return "f" + exs(x.Parts)
		}
		return "str"
	case *pysource.Constant:
		return x.Text
	case *pysource.Attribute:
		return "(. " + ex(x.X) + " " + x.Attr + ")"
	case *pysource.Call:
		return "(call " + ex(x.Func) + " " + args(x.Args) + ")"
	case *pysource.Subscript:
		return "(at " + ex(x.X) + " " + ex(x.Index) + ")"
	case *pysource.Slice:
		return "(slice " + ex(x.Low) + " " + ex(x.High) + " " + ex(x.Step) + ")"
	case *pysource.Binary:
		return "(" + x.Op + " " + ex(x.Left) + " " + ex(x.Right) + ")"
	case *pysource.Unary:
		return "(" + x.Op + " " + ex(x.X) + ")"
	case *pysource.Bool:
		return "(" + x.Op + " " + exs(x.Values) + ")"
	case *pysource.Compare:
		return "(cmp " + strings.Join(x.Ops, ",") + " " + exs(x.Values) + ")"
	case *pysource.Conditional:
		return "(if " + ex(x.Test) + " " + ex(x.Then) + " " + ex(x.Else) + ")"
	case *pysource.Lambda:
		return "(lambda " + params(x.Params) + " " + ex(x.Body) + ")"
	}
	return display(x)
}

func display(x pysource.Expr) string {
	switch x := x.(type) {
	case *pysource.Sequence:
		return "(" + map[byte]string{'(': "tuple", '[': "list", '{': "set"}[x.Kind] + " " + exs(x.Items) + ")"
	case *pysource.Dict:
		return "(dict " + exs(x.Keys) + " " + exs(x.Values) + ")"
	case *pysource.Comprehension:
		out := "(comp " + string(x.Kind) + " " + ex(x.Key) + " " + ex(x.Value)
		for _, c := range x.Clauses {
			out += " " + ex(c.Target) + " " + ex(c.Iter) + " " + exs(c.Conds)
		}
		return out + ")"
	case *pysource.Await:
		return "(await " + ex(x.X) + ")"
	case *pysource.Yield:
		if x.From {
			return "(yieldfrom " + ex(x.X) + ")"
		}
		return "(yield " + ex(x.X) + ")"
	case *pysource.Walrus:
		return "(:= " + ex(x.Target) + " " + ex(x.Value) + ")"
	case *pysource.Starred:
		return "*" + ex(x.X)
	}
	return "bad"
}
