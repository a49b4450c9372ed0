package lint

import (
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Suppression is a comment that answers findings:
//
//	# plimsoll: ignore[LM003, hidden-state-not-detached] reason    on the line, or alone on the line above
//	# plimsoll: ignore-file[LM003] reason                          for the whole file
//	# noqa: LM003                                                  on the line, as flake8 and ruff read it
//
// Without a list it answers every rule.
type Suppression struct {
	Cell, Line int      // the line it speaks of
	Whole      bool     // it speaks of the whole file
	Rules      []string // ids, prefixes or names; none: every rule
	Shared     bool     // "# noqa", which other tools read too: what it names beside our rules is theirs
	At         Finding  // where the comment stands
	Text       string   // of the comment
	Code       bool     // there is code before it on its line
	Gap        int      // spaces before it
}

// suppressions lists the comments of a file that answer findings.
func suppressions(path string, f *pysource.File) []Suppression {
	var out []Suppression
	for _, c := range f.Comments {
		s, ok := directive(c.Text)
		if !ok {
			continue
		}
		s.Text = strings.TrimRight(c.Text, "\r\n")
		s.At = place(f, path, pysource.Span{Start: c.Start, End: c.Start + int32(len(s.Text))})
		s.Line = s.At.Line
		before := s.At.Source[:min(s.At.Column-1, len(s.At.Source))]
		s.Code, s.Gap = strings.TrimSpace(before) != "", len(before)-len(strings.TrimRight(before, " \t"))
		if !s.Code && !s.Shared {
			s.Line++
		}
		out = append(out, s)
	}
	return out
}

// The forms of a directive. flake8 and ruff read "# noqa" anywhere in a comment, without regard to case, and codes after a colon that are
// separated by commas or spaces (https://docs.astral.sh/ruff/linter/#error-suppression).
var (
	ignoreComment = regexp.MustCompile(`#\s*plimsoll:\s*ignore(-file)?(?:\[([^\]]*)\]|([^\w\[-]|$))`)
	noqaComment   = regexp.MustCompile(`(?i)#\s*noqa(?::\s*([A-Z][A-Z]*[0-9]+(?:[,\s]+[A-Z][A-Z]*[0-9]+)*))?`)
)

func directive(comment string) (Suppression, bool) {
	if !strings.ContainsAny(comment, "qQ") && !strings.Contains(comment, "plimsoll") {
		return Suppression{}, false
	}
	if m := ignoreComment.FindStringSubmatch(comment); m != nil {
		s := Suppression{Whole: m[1] != ""}
		for id := range strings.SplitSeq(m[2], ",") {
			if id = strings.TrimSpace(id); id != "" {
				s.Rules = append(s.Rules, id)
			}
		}
		return s, true
	}
	if m := noqaComment.FindStringSubmatch(comment); m != nil {
		s := Suppression{Shared: true}
		for _, code := range strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
			s.Rules = append(s.Rules, strings.ToUpper(code))
		}
		return s, true
	}
	return Suppression{}, false
}

// suppress drops the findings that a comment answers, and adds a finding for each comment, or rule named in one, that answers nothing.
func suppress(findings []Finding, comments []Suppression, opts Options) []Finding {
	used := make([]map[string]bool, len(comments)) // by what the comment names; "" for a comment that names nothing
	for i := range used {
		used[i] = map[string]bool{}
	}
	var kept []Finding
	for _, f := range findings {
		if f.Rule == SyntaxRule || !answered(f, comments, used) {
			kept = append(kept, f)
		}
	}
	if ignored(UnusedRule, opts) || len(opts.Select) > 0 && !slices.ContainsFunc(opts.Select, func(id string) bool { return id == "ALL" || id == UnusedRule }) {
		return kept
	}
	for i, c := range comments {
		if unused := c.unused(used[i], opts); len(unused) > 0 {
			kept = append(kept, c.finding(unused, opts))
		}
	}
	return kept
}

func answered(f Finding, comments []Suppression, used []map[string]bool) bool {
	found := false
	rule, _ := RuleByID(f.Rule)
	for i, c := range comments {
		if !c.Whole && (c.Cell != f.Cell || c.Line != f.Line && c.Line != f.EndLine) {
			continue
		}
		if len(c.Rules) == 0 {
			found, used[i][""] = true, true
		}
		for _, id := range c.Rules {
			if matches(id, &rule) {
				found, used[i][id] = true, true
			}
		}
	}
	return found
}

// unused lists what the comment names in vain. A rule that is not applied here could not be answered; codes of other tools, and a bare noqa,
// are not ours to judge.
func (c Suppression) unused(used map[string]bool, opts Options) []string {
	if len(c.Rules) == 0 {
		if c.Shared || used[""] {
			return nil
		}
		return []string{"every rule"}
	}
	var out []string
	for _, id := range c.Rules {
		if used[id] || c.Shared && !Known(id) || Known(id) && !applied(id, opts) {
			continue
		}
		out = append(out, id)
	}
	return out
}

// applied tells whether any rule that an id stands for is reported.
func applied(id string, opts Options) bool {
	return slices.ContainsFunc(AllRules(), func(r Rule) bool { return matches(id, &r) && chosen(&r, opts) })
}

func (c Suppression) finding(unused []string, opts Options) Finding {
	f := c.At
	f.Rule, f.Severity = UnusedRule, Note
	f.Severity = severityOf(f, opts)
	what, where := strings.Join(unused, ", "), "on this line"
	if c.Whole {
		where = "in this file"
	}
	f.Message = "this comment silences " + what + ", and " + where + " there is nothing to silence"
	f.Fix = "remove it"
	f.Repair = c.repair(unused)
	if i := slices.IndexFunc(unused, func(id string) bool { return !c.Shared && id != "every rule" && !Known(id) }); i >= 0 {
		f.Message = "this comment names " + unused[i] + ", and there is no such rule"
		f.Fix = "name an id (LM001), a prefix (LM00) or a rule's name, or remove it"
	}
	return f
}

// repair takes what is unused out of the comment; with nothing left the comment goes, with its reason.
func (c Suppression) repair(unused []string) *Repair {
	start := int(c.At.Span.Start)
	form := ignoreComment
	if c.Shared {
		form = noqaComment
	}
	at := form.FindStringIndex(c.Text)
	if at == nil {
		return nil
	}
	var kept []string
	for _, id := range c.Rules {
		if !slices.Contains(unused, id) {
			kept = append(kept, id)
		}
	}
	if len(kept) > 0 {
		list := map[bool]string{true: ": " + strings.Join(kept, ", "), false: "[" + strings.Join(kept, ", ") + "]"}[c.Shared]
		word := c.Text[at[0]:at[1]]
		if i := strings.IndexAny(word, ":["); c.Shared && i > 0 {
			word = word[:i]
		} else if i := strings.IndexByte(word, '['); i > 0 {
			word = word[:i]
		}
		return &Repair{"Remove what is unused", []pysource.Edit{{Start: start + at[0], End: start + at[1], Text: word + list}}, true}
	}
	end := len(c.Text) // the reason goes too, but not another comment behind it
	if i := strings.IndexByte(c.Text[at[1]:], '#'); i >= 0 {
		end = at[1] + i
	}
	edit := pysource.Edit{Start: start + at[0], End: start + end}
	switch {
	case at[0] > 0 || end < len(c.Text):
		for edit.End == start+len(c.Text) && edit.Start > start && strings.ContainsRune(" \t", rune(c.Text[edit.Start-start-1])) {
			edit.Start--
		}
	case c.Code:
		edit.Start -= c.Gap
	default:
		edit.Start, edit.End = edit.Start-c.Gap, edit.End+1
	}
	return &Repair{"Remove the unused comment", []pysource.Edit{edit}, true}
}
