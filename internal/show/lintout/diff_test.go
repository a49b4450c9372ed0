package lintout

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The numbers of a hunk name the lines it shows, in the old file and in the new one, however many changes one hunk joins.
func TestHunksNameTheLinesTheyShow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var before, after []string
		for i := range rapid.IntRange(1, 80).Draw(t, "lines") {
			line := fmt.Sprintf("line %d", i)
			before = append(before, line)
			switch rapid.IntRange(0, 12).Draw(t, "change") {
			case 0:
				after = append(after, line, "@@ -1 +1 @@ added", "-- more")
			case 1:
			case 2:
				after = append(after, "+ changed "+line)
			default:
				after = append(after, line)
			}
		}
		before, after = append(before, "end"), append(after, "end")
		var b strings.Builder
		if err := Diff(&b, "a.py", []byte(strings.Join(before, "\n")+"\n"), []byte(strings.Join(after, "\n")+"\n")); err != nil {
			t.Fatal(err)
		}
		var from, to, old, now int
		for _, line := range strings.Split(b.String(), "\n") {
			if m := hunk.FindStringSubmatch(line); m != nil && old <= 0 && now <= 0 {
				from, old, to, now = number(m[1], 1), number(m[2], 1), number(m[3], 1), number(m[4], 1)
				continue
			}
			if old <= 0 && now <= 0 {
				continue
			}
			if strings.HasPrefix(line, "-") || strings.HasPrefix(line, " ") {
				if before[from-1] != line[1:] {
					t.Fatalf("old line %d is %q, shown is %q\n%s", from, before[from-1], line, b.String())
				}
				from, old = from+1, old-1
			}
			if strings.HasPrefix(line, "+") || strings.HasPrefix(line, " ") {
				if after[to-1] != line[1:] {
					t.Fatalf("new line %d is %q, shown is %q\n%s", to, after[to-1], line, b.String())
				}
				to, now = to+1, now-1
			}
		}
	})
}
