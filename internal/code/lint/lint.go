// Package lint reads PyTorch training code and finds what wastes GPU memory, and the accumulation mistakes people make while
// fighting for it.
//
// It takes a Python source (or a notebook's cells) and what is known of the files beside it and returns findings: rule,
// severity, place, why it matters and what to do. A finding of severity error says that the run is wrong or dies; a warning
// names a real but bounded defect; a note never fails a build. It reads no files and refuses nothing: a line that is not
// Python is a finding itself. Where the code leaves a doubt, a rule keeps silent: false alarms cost more than misses.
package lint

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/notebook"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Severity ranks findings.
type Severity uint8

// The severities, mildest first.
const (
	Note Severity = iota
	Warning
	Error
)

func (s Severity) String() string { return [...]string{"note", "warning", "error"}[min(s, Error)] }

// ParseSeverity reads a severity from its word.
func ParseSeverity(word string) (Severity, error) {
	for s := Note; s <= Error; s++ {
		if s.String() == word {
			return s, nil
		}
	}
	return 0, fmt.Errorf("a severity is error, warning or note, not %q", word)
}

// MarshalText writes the severity as its word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the severity from its word.
func (s *Severity) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSeverity(string(text))
	return err
}

// Finding is one defect in one place.
type Finding struct {
	Rule     string
	Severity Severity
	File     string
	Cell     int // of a notebook, counted from 1; 0 in a plain file
	// Line and Column count from 1, the column in bytes; End is exclusive.
	Line, Column, EndLine, EndColumn int
	Message                          string  // what is wrong here and why it matters
	Fix                              string  // what to do
	Source                           string  // the text of Line
	FileLine                         int     // the line of the file itself where Line is one of a cell
	Repair                           *Repair // nil where no change of the source was found that keeps the program right
	Within                           string  // the function (flow.Module.ID) whose callers may prove it harmless
	Needs                            Trait   // what the project has to do, or must not do, for its severity to hold
	ByHand                           bool    // what to do depends on something the code does not show: no repair is tried
	// Span is the place in the source that was checked: of a notebook, that of all its cells.
	Span pysource.Span
	// First and Last are the lines whose allocations it explains: the loop around what is kept, or the lines of the finding.
	First, Last int
}

// Options choose what is reported.
type Options struct {
	Select   []string            // rules to apply, the quiet ones too; none: all that are not quiet
	Ignore   []string            // rules or prefixes to leave out
	Severity map[string]Severity // by rule, prefix or name: reported as this instead of its own; the longest that matches counts
	Project  *Project            // what the files together show; nil: what this one shows
	Lookup   flow.Lookup
}

// Report is everything that was seen in one file, before anything is chosen: it depends on the source alone.
type Report struct {
	Findings     []Finding // of every rule, the quiet ones too
	Suppressions []Suppression
	Exports      *flow.Exports // what files that import it need to know
	Uses         []flow.Use    // the calls it makes of the project's functions
	Errors       int           // places that are not Python
	Traits       Trait         `json:",omitempty"` // what the file does that matters to findings in others
}

// pass is one rule at work on one file; known is shared by all rules of the file.
type pass struct {
	m     *flow.Module
	rule  *Rule
	out   *[]Finding
	known *known
}

// known remembers what several rules ask for.
type known struct {
	finder  *finder
	source  []byte
	found   []bool // by word of the finder: whether the file speaks of it
	backs   map[*flow.Scope][]backward
	derived map[derivedKey][]string
}

type derivedKey struct {
	scope *flow.Scope
	base  string
}

// maxDerived bounds the names that are followed from one container.
const maxDerived = 32

// Source checks one Python file and gives the findings that the options and the comments in it leave.
func Source(path string, src []byte, opts Options) []Finding {
	report := Check(path, src, opts.Lookup)
	if opts.Project == nil {
		opts.Project = Survey([]*Report{report})
	}
	return report.Choose(opts)
}

// Check looks at one Python file with every rule.
func Check(path string, src []byte, lookup flow.Lookup) *Report {
	report, _ := Look(path, src, nil, lookup)
	return report
}

// CheckCells looks at the cells of a notebook, as one program.
func CheckCells(path string, nb *notebook.Notebook, lookup flow.Lookup) *Report {
	report, _ := Look(path, nb.Source, nb.Cells, lookup)
	return report
}

// Look is Check that also gives the analysis it rests on. A plain file has no cells.
func Look(path string, src []byte, cells []notebook.Cell, lookup flow.Lookup) (*Report, *flow.Module) {
	file := pysource.Parse(src)
	report := &Report{Findings: syntax(path, file, cells), Errors: len(file.Errors)}
	m := flow.Analyze(path, file, lookup)
	shared := &known{finder: search(), source: src, backs: map[*flow.Scope][]backward{}, derived: map[derivedKey][]string{}}
	if !relevant(src) || cells != nil && !speaksOfTorch(src) && !contains(src, "fastai", "import *") || m.OtherFramework() {
		if checkpointsByFlag(m, shared) { // a configuration, a parser of options
			report.Traits = Checkpoints
		}
		report.Exports, report.Uses = m.Exports(), m.Uses()
		return report, m
	}
	found := checkModule(m, shared)
	report.Findings = append(append(report.Findings, found...), outputsKept(m, cells)...)
	report.Suppressions = suppressions(path, file)
	report.Traits = traits(m, shared)
	report.Exports, report.Uses = m.Exports(), m.Uses()
	return report, m
}

// Unreadable is the report on a notebook that is none.
func Unreadable(path string, err error) *Report {
	return &Report{
		Findings: []Finding{{
			Rule: SyntaxRule, Severity: Warning, File: path, Line: 1, Column: 1, EndLine: 1, EndColumn: 1, First: 1, Last: 1,
			Message: "this file is not a notebook: " + err.Error(), Fix: "correct the file, or leave it out with `exclude`; the other files were checked",
		}},
		Exports: &flow.Exports{Path: path},
	}
}

// Exports sums a file up for the files that import it, without looking for findings.
func Exports(path string, src []byte, lookup flow.Lookup) *flow.Exports {
	return flow.Analyze(path, pysource.Parse(src), lookup).Exports()
}

// speaksOfTorch tells whether a file names PyTorch or something on it. A notebook that does not is about something else: it imports what it uses.
func speaksOfTorch(src []byte) bool {
	return contains(src, "torch", "PYTORCH_", "transformers", "accelerate", "lightning")
}

// relevant tells whether a file can have anything to do with training: it speaks of PyTorch, or runs a model and of no other
// framework.
func relevant(src []byte) bool {
	if speaksOfTorch(src) {
		return true
	}
	return contains(src, "backward(", "optimizer", "model(", "criterion(", ".eval()") && !contains(src, "tensorflow", "jax", "keras", "mxnet", "paddle", "mindspore", "oneflow", "tinygrad")
}

func contains(src []byte, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(src, []byte(w)) })
}

func checkModule(m *flow.Module, shared *known) []Finding {
	var out []Finding
	for i := range rules {
		r := &rules[i]
		p := &pass{m, r, &out, shared}
		if r.word == "" || p.sourceHas(r.word) {
			r.check(p)
		}
	}
	sortFindings(out)
	return out
}

func sortFindings(findings []Finding) {
	sort.SliceStable(findings, func(i, j int) bool {
		a, b := findings[i], findings[j]
		return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Rule, b.Rule)) < 0
	})
}

// Choose gives the findings that the options ask for and no comment answers, and the comments that answer nothing.
func (r *Report) Choose(opts Options) []Finding {
	var out []Finding
	for _, f := range r.Findings {
		rule, ok := RuleByID(f.Rule)
		if !ok || f.Rule != SyntaxRule && !chosen(&rule, opts) || ignored(f.Rule, opts) || opts.Project.silences(f) {
			continue
		}
		f = opts.Project.settle(f)
		f.Severity = severityOf(f, opts)
		out = append(out, f)
	}
	out = suppress(out, r.Suppressions, opts)
	sortFindings(out)
	return out
}

// severityOf is the severity that the options give a finding; the longest name that means its rule decides.
func severityOf(f Finding, opts Options) Severity {
	severity, longest := f.Severity, 0
	rule, _ := RuleByID(f.Rule)
	for id, s := range opts.Severity {
		if len(id) > longest && matches(id, &rule) {
			severity, longest = s, len(id)
		}
	}
	return severity
}

func ignored(id string, opts Options) bool {
	return slices.ContainsFunc(opts.Ignore, func(prefix string) bool { return len(prefix) >= 2 && strings.HasPrefix(id, prefix) })
}

func chosen(r *Rule, opts Options) bool {
	for _, id := range opts.Ignore {
		if matches(id, r) {
			return false
		}
	}
	if len(opts.Select) == 0 {
		return !r.Quiet
	}
	for _, id := range opts.Select {
		if matches(id, r) {
			return true
		}
	}
	return false
}

// matches takes a rule's id, a prefix of it ("LM0"), its name, or ALL.
func matches(id string, r *Rule) bool {
	return id == "ALL" || id == r.Name || len(id) >= 2 && len(id) <= len(r.ID) && r.ID[:len(id)] == id
}

func place(f *pysource.File, path string, at pysource.Span) Finding {
	start, end := f.Position(at.Start), f.Position(max(at.Start, at.End))
	return Finding{
		File: path, Line: start.Line, Column: start.Column, EndLine: end.Line, EndColumn: end.Column, Source: f.Line(start.Line),
		First: start.Line, Last: end.Line, Span: at,
	}
}

// explains widens the last finding to the lines of a loop: what it keeps is allocated anywhere in there.
func (p *pass) explains(l *flow.Loop) {
	if l == nil || len(*p.out) == 0 {
		return
	}
	f := &(*p.out)[len(*p.out)-1]
	span := l.Node.Pos()
	f.First, f.Last = p.m.File.Position(span.Start).Line, p.m.File.Position(span.End).Line
}

// within says of the last finding that it only holds while the body's function is called with autograd on.
func (p *pass) within(s *flow.Scope) {
	if len(*p.out) > 0 {
		(*p.out)[len(*p.out)-1].Within = p.m.ID(s.Func)
	}
}

// needs says of the last finding what its severity rests on.
func (p *pass) needs(t Trait) { (*p.out)[len(*p.out)-1].Needs |= t }

// byHand says of the last finding that only a person can tell what to do.
func (p *pass) byHand() { (*p.out)[len(*p.out)-1].ByHand = true }

// report adds a finding at a node.
func (p *pass) report(n pysource.Node, severity Severity, message, fix string) {
	found := place(p.m.File, p.m.Path, n.Pos())
	found.Rule, found.Severity, found.Message, found.Fix = p.rule.ID, severity, message, fix
	if p.sourceHas(oldWords...) {
		found.Needs |= Ancient
	}
	*p.out = append(*p.out, found)
}

// Known tells whether an id, prefix or name given by a person stands for any rule.
func Known(id string) bool {
	return slices.ContainsFunc(AllRules(), func(r Rule) bool { return matches(id, &r) })
}
