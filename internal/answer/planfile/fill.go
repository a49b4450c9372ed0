package planfile

import (
	"fmt"
	"strings"
	"sync"
	"text/template/parse"
)

// forms are parsed when one is written: most commands write none. They are text/template's language without its interpreter, which calls methods by name: a
// program that can do this keeps every exported method of every type, and the binary was 5 MB larger for it. What forms may say is in words and calls.
var forms = sync.OnceValues(func() (map[string]*parse.Tree, error) {
	entries, err := files.ReadDir("forms")
	if err != nil {
		return nil, err
	}
	names := map[string]any{}
	for name := range calls {
		names[name] = true
	}
	all := map[string]*parse.Tree{}
	for _, e := range entries {
		text, err := files.ReadFile("forms/" + e.Name())
		if err != nil {
			return nil, err
		}
		trees, err := parse.Parse(e.Name(), string(text), "", "", names)
		if err != nil {
			return nil, err
		}
		for name, tree := range trees {
			all[name] = tree
		}
	}
	return all, nil
})

func render(name string, v view) (string, error) {
	trees, err := forms()
	if err != nil {
		return "", fmt.Errorf("read the forms: %w", err)
	}
	f := filler{trees: trees}
	if err := f.form(name, v); err != nil {
		return "", fmt.Errorf("write the form: %w", err)
	}
	return f.out.String(), nil
}

// filler fills a form in. A value is a view, a text, a number, a truth value or a list of texts, as words gives them.
type filler struct {
	trees map[string]*parse.Tree
	out   strings.Builder
}

func (f *filler) form(name string, dot any) error {
	tree := f.trees[name]
	if tree == nil {
		return fmt.Errorf("there is no form %q", name)
	}
	return f.walk(tree.Root, dot)
}

func (f *filler) walk(node parse.Node, dot any) error {
	switch n := node.(type) {
	case *parse.ListNode:
		return f.list(n, dot)
	case *parse.TextNode:
		f.out.Write(n.Text)
		return nil
	case *parse.ActionNode:
		value, err := pipe(n.Pipe, dot)
		if err == nil {
			fmt.Fprint(&f.out, value)
		}
		return err
	case *parse.IfNode:
		return f.branch(n.BranchNode, dot, false)
	case *parse.WithNode:
		return f.branch(n.BranchNode, dot, true)
	case *parse.RangeNode:
		return f.each(n, dot)
	case *parse.TemplateNode:
		value, err := pipe(n.Pipe, dot)
		if err != nil {
			return err
		}
		return f.form(n.Name, value)
	}
	return fmt.Errorf("a form has no %s", node)
}

func (f *filler) list(n *parse.ListNode, dot any) error {
	if n == nil { // no else
		return nil
	}
	for _, child := range n.Nodes {
		if err := f.walk(child, dot); err != nil {
			return err
		}
	}
	return nil
}

// branch fills in what stands behind a condition that holds, with its value for dot where it says with, or what stands behind else.
func (f *filler) branch(n parse.BranchNode, dot any, with bool) error {
	value, err := pipe(n.Pipe, dot)
	switch {
	case err != nil:
		return err
	case !truth(value):
		return f.list(n.ElseList, dot)
	case with:
		return f.list(n.List, value)
	}
	return f.list(n.List, dot)
}

func (f *filler) each(n *parse.RangeNode, dot any) error {
	value, err := pipe(n.Pipe, dot)
	if err != nil {
		return err
	}
	items, ok := value.([]string)
	if !ok {
		return fmt.Errorf("%s is not a list", n.Pipe)
	}
	for _, item := range items {
		if err := f.list(n.List, item); err != nil {
			return err
		}
	}
	return nil
}

// pipe is the value of one word, or of one call with its arguments.
func pipe(n *parse.PipeNode, dot any) (any, error) {
	if len(n.Cmds) != 1 || len(n.Decl) > 0 {
		return nil, fmt.Errorf("%s is more than one call", n)
	}
	args := n.Cmds[0].Args
	name, isCall := args[0].(*parse.IdentifierNode)
	if !isCall {
		if len(args) > 1 {
			return nil, fmt.Errorf("%s takes no arguments", args[0])
		}
		return operand(args[0], dot)
	}
	var values []any
	for _, a := range args[1:] {
		value, err := operand(a, dot)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	c := calls[name.Ident]
	if c.of == nil || len(values) != c.arguments {
		return nil, fmt.Errorf("%s: not a call with %d arguments", n, len(values))
	}
	return c.of(values), nil
}

func operand(node parse.Node, dot any) (any, error) {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.FieldNode:
		v, ok := dot.(view)
		word := words[strings.Join(n.Ident, ".")]
		if !ok || word == nil {
			return nil, fmt.Errorf("%s is not a word", n)
		}
		return word(v), nil
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		if n.IsInt {
			return int(n.Int64), nil
		}
	case *parse.PipeNode:
		return pipe(n, dot)
	}
	return nil, fmt.Errorf("%s is not a value", node)
}

// call is a function of a form.
type call struct {
	arguments int
	of        func(args []any) any
}

// calls are the functions that forms have.
var calls = map[string]call{
	"eq":     {2, func(a []any) any { return a[0] == a[1] }},
	"ne":     {2, func(a []any) any { return a[0] != a[1] }},
	"gt":     {2, func(a []any) any { return number(a[0]) > number(a[1]) }},
	"not":    {1, func(a []any) any { return !truth(a[0]) }},
	"and":    {2, func(a []any) any { return truth(a[0]) && truth(a[1]) }},
	"or":     {2, func(a []any) any { return truth(a[0]) || truth(a[1]) }},
	"python": {1, func(a []any) any { return python(truth(a[0])) }},
}

// truth tells that a value is not the zero of its kind.
func truth(value any) bool {
	switch x := value.(type) {
	case bool:
		return x
	case string:
		return x != ""
	case int:
		return x != 0
	case float64:
		return x != 0
	case []string:
		return len(x) > 0
	}
	return value != nil
}

func number(value any) int {
	n, _ := value.(int)
	return n
}
