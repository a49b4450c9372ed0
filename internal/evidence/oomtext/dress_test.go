package oomtext

import (
	"encoding/json"
	"html"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Logs come as JSON lines, web pages, tables of markdown and with colours; what a message says stays the same.
func TestDressingLosesNothing(t *testing.T) {
	t.Parallel()
	dresses := map[string]func(string) string{
		"JSON lines": func(s string) string {
			b, err := json.Marshal(map[string]string{"level": "error", "msg": s, "time": "2024-05-01T10:11:12Z"})
			if err != nil {
				panic(err)
			}
			return string(b)
		},
		"a page": func(s string) string {
			return "<tr>\n<td>" + strings.ReplaceAll(html.EscapeString(s), "\n", "<br>\n") + "</td>\n</tr>"
		},
		"a page with hard spaces": func(s string) string {
			return "<pre>" + strings.ReplaceAll(strings.ReplaceAll(html.EscapeString(s), " ", "&nbsp;"), "\n", "<br/>") + "</pre>"
		},
		"a table": func(s string) string { return "| run 3 | " + strings.ReplaceAll(s, "\n", " ") + " |" },
		"bold":    func(s string) string { return "**" + s + "**" },
		"colours": func(s string) string {
			return "\x1b[31m" + strings.ReplaceAll(s, " memory", "\x1b[0m\x1b[1m memory\x1b[22m") + "\x1b[0m"
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		text, want := drawFormat(t)
		name := rapid.SampledFrom([]string{"JSON lines", "a page", "a page with hard spaces", "a table", "bold", "colours"}).Draw(t, "dress")
		log, err := Read(strings.NewReader("start\n" + dresses[name](text) + "\nend\n"))
		if err != nil || len(log.Messages) != 1 {
			t.Fatalf("%d messages, %v in %s", len(log.Messages), err, dresses[name](text))
		}
		want, got := sizesOf(want), sizesOf(brief(log.Messages[0]))
		if got != want {
			t.Fatalf("%s\n got %s\nwant %s\n%s", name, got, want, dresses[name](text))
		}
	})
}

// sizesOf keeps kind, format and numbers of a brief.
func sizesOf(brief string) string {
	var kept []string
	for i, w := range strings.Fields(brief) {
		if i < 2 || strings.HasPrefix(w, "requested=") || strings.HasPrefix(w, "capacity=") || strings.HasPrefix(w, "free=") || strings.HasPrefix(w, "allocated=") || strings.HasPrefix(w, "unallocated=") {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}
