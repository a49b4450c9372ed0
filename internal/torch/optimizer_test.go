package torch

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryOptimizerOfTheTableIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, a := range Algorithms() {
		if seen[a.Name] {
			t.Errorf("%s stands twice in the table", a.Name)
		}
		seen[a.Name] = true
		if !strings.HasPrefix(a.Source, "https://github.com/") || !strings.Contains(a.Source, "#L") {
			t.Errorf("%s: source %q is no permalink with a line", a.Name, a.Source)
		}
		if a.Spelled.Class == "" {
			t.Errorf("%s: no Python class", a.Name)
		}
		if _, ok := a.Steps[Default]; !ok {
			t.Errorf("%s: no default implementation", a.Name)
		}
		for f, s := range a.Steps {
			if s.Passes <= 0 || s.Accesses <= 0 {
				t.Errorf("%s %s: no cost", a.Name, f)
			}
		}
		for _, lighter := range a.Lighter {
			if _, ok := lighter.Algorithm(); !ok {
				t.Errorf("%s: %s is not in the table", a.Name, lighter)
			}
		}
	}
}

func TestOptimizerWordsGoBothWays(t *testing.T) {
	t.Parallel()
	for _, w := range Optimizers() {
		o, err := ParseOptimizer(w)
		if err != nil || string(o) != w {
			t.Errorf("%s becomes %s (%v)", w, o, err)
		}
		if got, ok := o.Kind().With(o.Form()); !ok || got != o {
			t.Errorf("%s is %s in form %q, which is %s", o, o.Kind(), o.Form(), got)
		}
		if forms := o.Forms(); forms[0] != o || !slices.Contains(forms, o.Kind()) {
			t.Errorf("forms of %s: %v", o, forms)
		}
	}
	if _, err := ParseOptimizer("adamx"); err == nil || !strings.Contains(err.Error(), "adam") {
		t.Errorf("adamx: %v", err)
	}
}

func TestClassesAreFoundByWhatTheyKeep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class    string
		momentum bool
		share    float64
	}{{"AdamW", false, 2}, {"Adam", false, 2}, {"SGD", false, 0}, {"SGD", true, 1}, {"RMSprop", false, 1}, {"Adafactor", false, 0}, {"AdamW8bit", false, 0.5}} {
		a, ok := ByClass(c.class, c.momentum)
		if !ok || a.StateShare() != c.share {
			t.Errorf("%s: state %g of the parameters (%v), want %g", c.class, a.StateShare(), ok, c.share)
		}
	}
	if _, ok := ByClass("SomethingElse", false); ok {
		t.Error("an unknown class was found")
	}
}

func TestSpansHoldTheirEnds(t *testing.T) {
	t.Parallel()
	s := Span{V2_9, V2_12}
	for v, want := range map[Version]bool{V2_8: false, V2_9: true, V2_11: true, V2_12: true, V2_13: false, {}: true} {
		if s.Has(v) != want {
			t.Errorf("%s in %s: %v", v, s, !want)
		}
	}
	if Since(V2_13).Has(Version{}) {
		t.Error("a version that was not said is the latest measured one, not a newer one")
	}
}
