package screen

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWrappedLinesFitAndLoseNoWord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-zé×]{1,12} ){0,40}`).Draw(t, "text")
		width := rapid.IntRange(1, 100).Draw(t, "width")
		lines := Wrap(text, width)
		for _, line := range lines {
			if Columns(line) > width && strings.Contains(line, " ") {
				t.Fatalf("line %q is wider than %d", line, width)
			}
		}
		if got, want := strings.Fields(strings.Join(lines, " ")), strings.Fields(text); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Fatalf("words changed: %q became %q", want, got)
		}
	})
}

func TestBarsAreAsLongAsTheirShare(t *testing.T) {
	t.Parallel()
	s := New(nil, Style{})
	for _, c := range []struct {
		part, whole float64
		want        string
	}{{1, 1, "████"}, {0, 1, "    "}, {1, 2, "██  "}, {1, 32, "▏   "}, {5, 1, "████"}, {1, 0, "    "}} {
		if got := s.Bar(c.part, c.whole, 4); got != c.want {
			t.Errorf("Bar(%v, %v) = %q, want %q", c.part, c.whole, got, c.want)
		}
	}
}

func TestTextFromFilesCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	if got := Clean("a\x1b[31mb\x07\u202ec"); strings.ContainsAny(got, "\x1b\x07\u202e") {
		t.Errorf("control characters survive: %q", got)
	}
}

func TestBidirectionalOverridesAloneAreRemoved(t *testing.T) {
	t.Parallel()
	if got := Clean("train\u202eyp.exe"); strings.ContainsRune(got, '\u202e') {
		t.Errorf("%q", got)
	}
	if got := CleanLines("a\nb\x1b]0;title\x07"); got != "a\nb�]0;title�" {
		t.Errorf("%q", got)
	}
}

func TestWideCharactersTakeTwoColumns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"日本語": 6, "e\u0301": 1, "\x1b[31mred\x1b[0m": 3, "5 × 3": 5, "█▏": 2} {
		if got := Columns(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
	if got := Fit("日本語モデル", 7); got != "日本語…" {
		t.Errorf("%q", got)
	}
	if got := Pad("日本", 6) + "|"; got != "日本  |" {
		t.Errorf("%q", got)
	}
}

func TestWithoutColourNoEscapeIsWritten(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := New(&out, Style{ASCII: true})
	s.Line(s.Ink(Red, "5 × 3 … "), s.Bar(1, 1, 2))
	if got := out.String(); got != "5 x 3 . ##\n" {
		t.Errorf("got %q", got)
	}
}
