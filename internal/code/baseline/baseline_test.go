package baseline_test

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/baseline"
	"github.com/plimsoll/plimsoll/internal/code/lint"
)

func same(path string) string { return path }

func at(file, rule, line string, number int) lint.Finding {
	return lint.Finding{File: file, Rule: rule, Source: line, Line: number}
}

func TestOnlyNewFindingsAreLeft(t *testing.T) {
	t.Parallel()
	old := []lint.Finding{at("/p/a.py", "LM001", "    total += loss", 4), at("/p/a.py", "LM001", "    total += loss", 9), at("/p/b.py", "LM003", "model(x)", 1)}
	text, err := baseline.Of("/p", old, same).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	b, err := baseline.Read("/p", text)
	if err != nil || b.Len() != 3 {
		t.Fatalf("%d findings, %v:\n%s", b.Len(), err, text)
	}
	for _, c := range []struct {
		name              string
		now               []lint.Finding
		fresh, known, rid int
	}{
		{"nothing changed", old, 0, 3, 0},
		{"moved down and indented", []lint.Finding{at("/p/a.py", "LM001", "\ttotal  += loss", 40), old[1], old[2]}, 0, 3, 0},
		{"one was fixed", old[1:], 0, 2, 1},
		{"a third of the same text", append([]lint.Finding{at("/p/a.py", "LM001", "total += loss", 1)}, old...), 1, 3, 0},
		{"another rule on the line", append([]lint.Finding{at("/p/b.py", "LM001", "model(x)", 1)}, old...), 1, 3, 0},
		{"the same line of another file", append([]lint.Finding{at("/p/c.py", "LM003", "model(x)", 1)}, old...), 1, 3, 0},
	} {
		fresh, known, gone := b.New(c.now, same)
		if len(fresh) != c.fresh || known != c.known || gone != c.rid {
			t.Errorf("%s: %d new, %d known, %d gone", c.name, len(fresh), known, gone)
		}
	}
}

func TestAFileThatIsNoBaselineIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "[]", "{}", `{"schema":"plimsoll.lint/1","findings":[]}`, `{"schema":"plimsoll.lint-baseline/1","findings":7}`} {
		if _, err := baseline.Read("/p", []byte(text)); err == nil || !strings.Contains(err.Error(), "not a baseline") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
