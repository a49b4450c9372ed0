package oomtext

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheAutomatonFindsWhatAPlainSearchFinds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[ab]{1,4}`), 1, 5).Draw(t, "words")
		text := rapid.StringMatching(`[abAB \n.-]{0,30}`).Draw(t, "text")
		letters := strings.ToLower(strings.NewReplacer(" ", "", "\n", "", ".", "", "-", "").Replace(text))
		want := false
		for _, w := range words {
			want = want || strings.Contains(letters, w)
		}
		if end, _ := newAutomaton(words).scan(0, []byte(text)); (end >= 0) != want {
			t.Fatalf("found %v in %q, want %v", end >= 0, text, want)
		}
	})
}

func TestEveryTriggerIsFound(t *testing.T) {
	t.Parallel()
	a := triggerAutomaton()
	for _, w := range triggerWords() {
		if end, _ := a.scan(0, []byte("xx "+strings.Join(strings.Split(strings.ToUpper(w), ""), "\n"))); end < 0 {
			t.Errorf("%q is not found", w)
		}
	}
}
