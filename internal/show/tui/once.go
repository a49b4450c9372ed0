package tui

import (
	"io"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// Print writes a view once, as long as it needs to be: findings first, then cards and processes.
func Print(w io.Writer, v watch.View, style screen.Style) error {
	s := screen.New(w, style)
	sc := newScene(v, State{Row: -1}, style)
	s.Line(sc.header(s.Width()))
	s.Blank()
	if v.Error == "" || v.Readings > 0 {
		printBody(s, sc)
	}
	for _, problem := range v.Problems {
		s.Hanging("note  ", screen.Faint, screen.Clean(problem))
	}
	return s.Err()
}

func printBody(s *screen.Screen, sc scene) {
	for _, f := range sc.v.Findings {
		ink, lead := screen.Yellow, "!   "
		if f.Severity == watch.SevereError {
			ink, lead = screen.Red, "!!  "
		}
		s.Hanging(lead, ink, screen.Clean(f.Title))
		s.Hanging("    ", screen.Plain, f.Advice)
	}
	if len(sc.v.Findings) > 0 {
		s.Blank()
	}
	for _, line := range sc.cards(s.Width(), 1+len(sc.v.Cards)) {
		s.Line(line)
	}
	s.Blank()
	for _, line := range sc.processes(s.Width(), max(2, 1+len(sc.rows))) {
		s.Line(line)
	}
}
