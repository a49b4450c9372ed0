package lint

import (
	"embed"
	"strings"
)

//go:embed pages/*.md
var pages embed.FS

// SyntaxRule is the id under which lines that are not Python are reported.
const SyntaxRule = "LM000"

// UnusedRule is the id under which comments that silence nothing are reported.
const UnusedRule = "LM099"

// OutputRule is the id under which outputs of a notebook's cells that keep a graph are reported.
const OutputRule = "LM098"

// about are the rules about the file, its cells and its comments rather than about the program.
var about = []Rule{
	{ID: SyntaxRule, Name: "not-python", Severity: Warning, Summary: "a line is not valid Python"},
	{ID: OutputRule, Name: "notebook-output-kept", Severity: Warning, Summary: "a cell of a notebook shows a tensor with its graph, and keeps it"},
	{ID: UnusedRule, Name: "unused-suppression", Severity: Note, Summary: "a suppression comment has no effect"},
}

// AllRules lists every rule a finding can name, those about comments and syntax too.
func AllRules() []Rule { return append([]Rule{about[0]}, append(Rules(), about[1:]...)...) }

// Page gives the text that explains a rule, in Markdown, without its title; empty for a rule that does not exist.
func Page(id string) string {
	text, err := pages.ReadFile("pages/" + id + ".md")
	if err != nil {
		return ""
	}
	_, body, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(body)
}

// Example gives the Python of a page's section ("Wrong", "Right").
func Example(id, section string) string {
	_, rest, found := strings.Cut(Page(id), "## "+section+"\n")
	if !found {
		return ""
	}
	_, code, found := strings.Cut(rest, "```python\n")
	if !found {
		return ""
	}
	code, _, _ = strings.Cut(code, "```")
	return code
}
