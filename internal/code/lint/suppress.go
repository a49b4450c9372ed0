package lint

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// suppress drops the findings a comment answers: "# plimsoll: ignore[LM003] reason" on the line itself or alone on the line
// above, "# plimsoll: ignore" for all rules, "# plimsoll: ignore-file[LM003] reason" for the whole file.
func suppress(f *pysource.File, findings []Finding) []Finding {
	byLine := map[int][]string{}
	var whole []string
	for _, c := range f.Comments {
		ids, file, ok := directive(c.Text)
		if !ok {
			continue
		}
		if file {
			whole = append(whole, ids...)
			continue
		}
		line := f.Position(c.Start).Line
		if strings.HasPrefix(strings.TrimSpace(f.Line(line)), "#") {
			line++
		}
		byLine[line] = append(byLine[line], ids...)
	}
	if len(byLine) == 0 && len(whole) == 0 {
		return findings
	}
	kept := findings[:0]
	for _, found := range findings {
		if !listed(whole, found.Rule) && !listed(byLine[found.Line], found.Rule) && !listed(byLine[found.EndLine], found.Rule) {
			kept = append(kept, found)
		}
	}
	return kept
}

// directive reads a suppression comment; "*" stands for every rule.
func directive(comment string) (ids []string, file, ok bool) {
	text, found := strings.CutPrefix(strings.TrimSpace(strings.TrimLeft(comment, "#")), "plimsoll:")
	if !found {
		return nil, false, false
	}
	text, found = strings.CutPrefix(strings.TrimSpace(text), "ignore")
	if !found {
		return nil, false, false
	}
	text, file = strings.CutPrefix(text, "-file")
	if !strings.HasPrefix(text, "[") {
		return []string{"*"}, file, true
	}
	list, _, closed := strings.Cut(text[1:], "]")
	if !closed {
		return nil, false, false
	}
	for id := range strings.SplitSeq(list, ",") {
		ids = append(ids, strings.TrimSpace(id))
	}
	return ids, file, true
}

func listed(ids []string, rule string) bool {
	for _, id := range ids {
		if id == "*" || id == rule {
			return true
		}
	}
	return false
}
