package browsertests

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll/plimsoll/browsertests/chromium"
)

func TestAnswersOfMarkupAndNothingAreShownAsText(t *testing.T) {
	for name, text := range map[string]string{
		"prediction": `{"schema":"plimsoll.predict/1","title":"<img src=x onerror=document.title=1>","timeline":[{"phase":"<b>x</b>","by_category":null},{"step":-1}],"batches":[{"batch":1},{"batch":2}],"assumptions":["<img src=x>"]}`,
		"bare":       `{"schema":"plimsoll.predict/1"}`,
		"plans":      `{"schema":"plimsoll.fit/1","title":"<img src=x onerror=document.title=1>","plans":[{"optimizer":"<img src=x>","why":"<b>"}],"warnings":["<img src=x>"]}`,
		"no plans":   `{"schema":"plimsoll.fit/1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "answer.json")
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			bothWays(t, file, func(t *testing.T, tab *chromium.Tab) {
				if n := eval[int](t, tab, `document.querySelectorAll("main img, main .lead b, main li b").length`); n != 0 {
					t.Errorf("%d names became markup", n)
				}
			})
		})
	}
}
