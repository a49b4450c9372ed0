package repair

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// site is a finding with what the analysis knows of its place. Each of call, store and bind may be nil.
type site struct {
	m     *flow.Module
	f     *pysource.File
	found lint.Finding
	known *nodes
	scope *flow.Scope
	call  *flow.Call
	store *flow.Store
	bind  *flow.Bind
}

// nodes finds what the analysis noted by the place in the source.
type nodes struct {
	calls  map[pysource.Span]*flow.Call
	stores map[pysource.Span]*flow.Store
	binds  map[pysource.Span]*flow.Bind
	scopes map[any]*flow.Scope
	blocks map[pysource.Stmt][]pysource.Stmt // the block that a statement stands in
	all    []pysource.Stmt                   // every statement, outer ones first
}

func index(m *flow.Module) *nodes {
	n := &nodes{map[pysource.Span]*flow.Call{}, map[pysource.Span]*flow.Store{}, map[pysource.Span]*flow.Bind{}, map[any]*flow.Scope{}, map[pysource.Stmt][]pysource.Stmt{}, nil}
	for _, s := range m.Scopes {
		for _, c := range s.Calls {
			n.calls[c.Node.Pos()], n.scopes[c] = c, s
		}
		for _, st := range s.Stores {
			n.stores[st.Node.Pos()], n.scopes[st] = st, s
		}
		for _, b := range s.Binds {
			n.binds[b.Node.Pos()], n.scopes[b] = b, s
		}
	}
	n.block(m.File.Body)
	return n
}

func (n *nodes) block(body []pysource.Stmt) {
	for _, s := range body {
		n.blocks[s] = body
		n.all = append(n.all, s)
		for _, inner := range bodies(s) {
			n.block(inner)
		}
	}
}

// bodies lists the blocks of a statement.
func bodies(s pysource.Stmt) [][]pysource.Stmt {
	switch s := s.(type) {
	case *pysource.If:
		var out [][]pysource.Stmt
		for _, b := range s.Branches {
			out = append(out, b.Body)
		}
		return append(out, s.Else)
	case *pysource.While:
		return [][]pysource.Stmt{s.Body, s.Else}
	case *pysource.For:
		return [][]pysource.Stmt{s.Body, s.Else}
	case *pysource.With:
		return [][]pysource.Stmt{s.Body}
	case *pysource.Try:
		out := [][]pysource.Stmt{s.Body, s.Else, s.Finally}
		for _, h := range s.Handlers {
			out = append(out, h.Body)
		}
		return out
	case *pysource.Match:
		var out [][]pysource.Stmt
		for _, c := range s.Cases {
			out = append(out, c.Body)
		}
		return out
	case *pysource.Function:
		return [][]pysource.Stmt{s.Body}
	case *pysource.Class:
		return [][]pysource.Stmt{s.Body}
	case *pysource.BadStmt:
		return [][]pysource.Stmt{s.Body}
	}
	return nil
}

// candidates are the changes to try for a finding, the best first.
func candidates(m *flow.Module, n *nodes, found lint.Finding) []lint.Repair {
	make := repairs[found.Rule]
	if make == nil || found.ByHand {
		return nil
	}
	at := found.Span
	s := &site{m: m, f: m.File, found: found, known: n, call: n.calls[at], store: n.stores[at], bind: n.binds[at]}
	switch {
	case s.call != nil:
		s.scope = n.scopes[s.call]
	case s.store != nil:
		s.scope = n.scopes[s.store]
	case s.bind != nil:
		s.scope = n.scopes[s.bind]
	}
	return make(s)
}

// one is a list of a single change; nil without edits.
func one(title string, safe bool, edits ...pysource.Edit) []lint.Repair {
	if len(edits) == 0 {
		return nil
	}
	return []lint.Repair{{Title: title, Edits: edits, Safe: safe}}
}

func itoa(n int) string { return strconv.Itoa(n) }

// with puts a method behind an expression, with parentheses where they are needed.
func with(x pysource.Expr, method string) []pysource.Edit {
	at := x.Pos()
	if primary(x) {
		return []pysource.Edit{{Start: int(at.End), End: int(at.End), Text: method}}
	}
	switch x.(type) {
	case *pysource.Binary, *pysource.Unary, *pysource.Conditional, *pysource.Bool, *pysource.Compare:
		return []pysource.Edit{{Start: int(at.Start), End: int(at.Start), Text: "("}, {Start: int(at.End), End: int(at.End), Text: ")" + method}}
	}
	return nil
}

// primary tells whether an expression binds as closely as a name: it can stand anywhere without parentheses.
func primary(x pysource.Expr) bool {
	switch x.(type) {
	case *pysource.Name, *pysource.Attribute, *pysource.Call, *pysource.Subscript:
		return true
	}
	return false
}

// replace puts text in the place of a node.
func replace(n pysource.Node, text string) pysource.Edit {
	at := n.Pos()
	return pysource.Edit{Start: int(at.Start), End: int(at.End), Text: text}
}

// argument is the range of an argument, its name included.
func (s *site) argument(a pysource.Arg) (pysource.Span, bool) {
	at := a.Value.Pos()
	if a.Star > 0 {
		return at, false
	}
	if a.Name == "" {
		return at, true
	}
	before := bytes.TrimRight(s.f.Source[:at.Start], " \t\r\n")
	before, ok := bytes.CutSuffix(before, []byte("="))
	if !ok {
		return at, false
	}
	before, ok = bytes.CutSuffix(bytes.TrimRight(before, " \t\r\n"), []byte(a.Name))
	return pysource.Span{Start: int32(len(before)), End: at.End}, ok
}

// without takes a named argument out of a call. Comments between the arguments are not thrown away: then there is no edit.
func (s *site) without(c *pysource.Call, name string) []pysource.Edit {
	i := slices.IndexFunc(c.Args, func(a pysource.Arg) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	own, ok := s.argument(c.Args[i])
	if !ok {
		return nil
	}
	start, end := own.Start, own.End
	switch {
	case i > 0:
		start = c.Args[i-1].Value.Pos().End
		for start < own.Start && s.f.Source[start] != ',' { // what closes the argument before: a parenthesis
			start++
		}
	case len(c.Args) > 1:
		next, ok := s.argument(c.Args[1])
		if !ok {
			return nil
		}
		end = next.Start
	}
	if bytes.ContainsAny(s.f.Source[start:own.Start], "#)") || bytes.ContainsAny(s.f.Source[own.End:end], "#)") {
		return nil
	}
	return []pysource.Edit{{Start: int(start), End: int(end)}}
}

// adding puts a named argument at the end of a call.
func (s *site) adding(c *pysource.Call, text string) []pysource.Edit {
	if len(c.Args) == 0 {
		return []pysource.Edit{{Start: int(c.End) - 1, End: int(c.End) - 1, Text: text}}
	}
	last := c.Args[len(c.Args)-1]
	at := int(last.Value.Pos().End)
	tail := string(s.f.Source[at : c.End-1])
	if strings.Trim(tail, ", \t\r\n") != "" { // a comment, or a parenthesis that closes the argument
		return nil
	}
	return []pysource.Edit{{Start: at, End: at, Text: ", " + text}}
}

// statement is the innermost statement around a node.
func (s *site) statement(n pysource.Node) pysource.Stmt {
	at := n.Pos()
	var found pysource.Stmt
	for _, st := range s.known.all {
		if p := st.Pos(); p.Start <= at.Start && at.End <= p.End {
			found = st
		}
	}
	return found
}

// alone tells whether a statement has its lines for itself: nothing before it but the indentation, nothing after it but a comment.
func (s *site) alone(st pysource.Stmt) (indent string, ok bool) {
	at := st.Pos()
	line := s.lineStart(int(at.Start))
	indent = string(s.f.Source[line:at.Start])
	rest := strings.TrimLeft(string(s.f.Source[at.End:s.lineEnd(int(at.End))]), " \t")
	return indent, strings.Trim(indent, " \t") == "" && (rest == "" || rest[0] == '#')
}

func (s *site) lineStart(at int) int { return bytes.LastIndexByte(s.f.Source[:at], '\n') + 1 }

// lineEnd is the offset of a line's end, without the carriage return.
func (s *site) lineEnd(at int) int {
	end := bytes.IndexByte(s.f.Source[at:], '\n')
	if end < 0 {
		return len(s.f.Source)
	}
	end += at
	if end > at && s.f.Source[end-1] == '\r' {
		end--
	}
	return end
}

// newline is how the lines of this source end.
func (s *site) newline() string {
	if bytes.Contains(s.f.Source, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// before puts a statement on a line of its own above another.
func (s *site) before(st pysource.Stmt, text string) []pysource.Edit {
	indent, ok := s.alone(st)
	if !ok {
		return nil
	}
	at := s.lineStart(int(st.Pos().Start))
	return []pysource.Edit{{Start: at, End: at, Text: indent + text + s.newline()}}
}

// after puts a statement on a line of its own below another.
func (s *site) after(st pysource.Stmt, text string) []pysource.Edit {
	end := int(st.Pos().End)
	at := s.lineEnd(end)
	line := s.lineStart(int(st.Pos().Start))
	indent := string(s.f.Source[line:st.Pos().Start])
	if strings.Trim(indent, " \t") != "" || strings.ContainsRune(strings.SplitN(string(s.f.Source[end:at]), "#", 2)[0], ';') {
		return nil
	}
	return []pysource.Edit{{Start: at, End: at, Text: s.newline() + indent + text}}
}

// removed takes a statement away with its line and the comment on it; where it is the only one of its block a pass stays.
func (s *site) removed(st pysource.Stmt) []pysource.Edit {
	if _, ok := s.alone(st); !ok {
		return nil
	}
	if len(s.known.blocks[st]) == 1 {
		return []pysource.Edit{replace(st, "pass")}
	}
	start, end := s.lineStart(int(st.Pos().Start)), s.lineEnd(int(st.Pos().End))
	for end < len(s.f.Source) && s.f.Source[end] != '\n' {
		end++
	}
	return []pysource.Edit{{Start: start, End: min(end+1, len(s.f.Source))}}
}

// text is the source of a node.
func (s *site) text(n pysource.Node) string { return s.f.Text(n) }

// torch is the name under which the file imports torch before the place; empty where it does not.
func (s *site) torch() string {
	for _, st := range s.f.Body {
		imp, ok := st.(*pysource.Import)
		if !ok || imp.From || imp.Start > s.found.Span.Start {
			continue
		}
		for _, a := range imp.Aliases {
			if a.Name == "torch" && a.As != "" {
				return a.As
			}
			if a.Name == "torch" || strings.HasPrefix(a.Name, "torch.") && a.As == "" {
				return "torch"
			}
		}
	}
	return ""
}

// has tells whether the source contains one of the words.
func (s *site) has(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(s.f.Source, []byte(w)) })
}

func keyword(c *pysource.Call, name string) pysource.Expr {
	for _, a := range c.Args {
		if a.Name == name {
			return a.Value
		}
	}
	return nil
}

// any tells whether some node of a block satisfies the predicate.
func anyNode(body []pysource.Stmt, ok func(pysource.Node) bool) bool {
	found := false
	pysource.WalkBody(body, func(n pysource.Node) bool {
		found = found || ok(n)
		return !found
	})
	return found
}

// names counts how often a name or attribute chain is written in a block.
func names(body []pysource.Stmt, key string) int {
	n := 0
	pysource.WalkBody(body, func(x pysource.Node) bool {
		if e, ok := x.(pysource.Expr); ok && flow.Key(e) == key {
			n++
		}
		return true
	})
	return n
}
