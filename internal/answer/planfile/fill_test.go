package planfile

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

// Forms are filled in as text/template would: its interpreter is not in the binary, only in this test.
func TestFormsAreFilledInAsTextTemplateDoes(t *testing.T) {
	t.Parallel()
	oracle := template.Must(template.New("forms").Funcs(template.FuncMap{"python": python}).ParseFS(files, "forms/*.tmpl"))
	entries, err := files.ReadDir("forms")
	if err != nil {
		t.Fatal(err)
	}
	wrote := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := report.Plan{Setup: anySetup(t), OfLayers: 4, Ranks: rapid.IntRange(0, 2).Draw(t, "ranks"), Calls: rapid.SampledFrom([][]int{nil, {0, 2}}).Draw(t, "calls")}
		p.Tensor, p.Stages = rapid.IntRange(0, 2).Draw(t, "tensor"), rapid.IntRange(0, 2).Draw(t, "stages")
		m := Model{Hub: rapid.Bool().Draw(t, "hub"), Family: rapid.SampledFrom([]string{"llama", "qwen3"}).Draw(t, "family"), Task: "causal-lm", Seq: rapid.SampledFrom([]int{0, 128}).Draw(t, "seq"), Sizes: small, Modules: []string{"a", "b"}}
		v, err := newView(p, m)
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.Name() == "parts.tmpl" {
				continue
			}
			var want strings.Builder
			if err := oracle.ExecuteTemplate(&want, e.Name(), v); err != nil {
				t.Fatal(err)
			}
			got, err := render(e.Name(), v)
			if err != nil || got != want.String() {
				t.Fatalf("%s (%v)\n%s\nwant\n%s", e.Name(), err, got, want.String())
			}
			wrote[e.Name()]++
		}
	})
	if len(wrote) != len(entries)-1 {
		t.Errorf("only %v were written", wrote)
	}
}

var fieldOfForm = regexp.MustCompile(`[ (]\.([A-Z][A-Za-z0-9.]*)`)

// A form says nothing that is not a word, in any branch, and there are no words that none says.
func TestFormsSayTheWordsThereAre(t *testing.T) {
	t.Parallel()
	trees, err := forms()
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, tree := range trees {
		for _, action := range regexp.MustCompile(`{{+[^}]*}}`).FindAllString(tree.Root.String(), -1) {
			for _, m := range fieldOfForm.FindAllStringSubmatch(strings.ReplaceAll(action, "{", " "), -1) {
				said[m[1]] = true
			}
		}
	}
	got, want := slices.Sorted(maps.Keys(said)), slices.Sorted(maps.Keys(words))
	if !slices.Equal(got, want) {
		t.Errorf("forms say  %v\nwords are %v", got, want)
	}
}

func TestAFormThatSaysSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	trees, err := forms()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{{.Nothing}}", "{{gt .GPUs}}", "{{.GPUs 2}}", "{{range .GPUs}}{{end}}", `{{template "nothing" .}}`, "{{.GPUs | not}}", "{{eq .GPUs 1.5}}"} {
		tmpl, err := template.New("x").Funcs(template.FuncMap{"python": python}).Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		f := filler{trees: trees}
		if err := f.walk(tmpl.Root, view{Plan: report.Plan{}}); err == nil {
			t.Errorf("%s is filled in as %q", text, f.out.String())
		}
	}
}
