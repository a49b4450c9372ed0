package lint

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/code/notebook"
)

// Notebook checks a notebook and gives the findings that the options and the comments in it leave.
func Notebook(path string, src []byte, opts Options) ([]Finding, error) {
	nb, err := notebook.Read(src)
	if err != nil {
		return nil, fmt.Errorf("read notebook %s: %w", path, err)
	}
	report := CheckCells(path, nb, opts.Lookup)
	report.Place(nb)
	return report.Choose(opts), nil
}

// Place moves everything from the joined source of a notebook to its cells.
func (r *Report) Place(nb *notebook.Notebook) {
	move := func(f *Finding) {
		cell, line := nb.Place(f.Line)
		shift := line - f.Line
		f.FileLine = nb.FileLine(f.Line)
		f.Cell, f.Line, f.EndLine, f.First, f.Last = cell, line, f.EndLine+shift, f.First+shift, f.Last+shift
	}
	for i := range r.Findings {
		move(&r.Findings[i])
	}
	for i := range r.Suppressions {
		s := &r.Suppressions[i]
		below := s.Line - s.At.Line
		move(&s.At)
		s.Cell, s.Line = s.At.Cell, s.At.Line+below
	}
}
