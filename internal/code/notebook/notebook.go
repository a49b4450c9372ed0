// Package notebook reads Jupyter notebooks as Python programs.
//
// It takes the JSON of a notebook (nbformat 3 or 4) and returns the Python of its code cells, in their order, as one source, with the cell and
// line that each of its lines comes from. What is not Python is left out: lines for the shell and for IPython, cells with a magic for another
// language, notebooks of another kernel. Changes of that source are written back into the JSON, of which every other byte stays as it is.
package notebook

import (
	"bytes"
	"errors"
	"strings"
)

// Notebook is one that was read.
type Notebook struct {
	Source []byte // the Python of all code cells
	Cells  []Cell // those cells

	raw   []byte
	cells []cell
	lines []line // by line of Source
}

// Cell is a code cell as far as it is Python.
type Cell struct {
	End   int   // where its text ends in Source
	Shown Shown // what the notebook says of its last run
}

// Shown is what a notebook keeps of what a cell gave when it ran.
type Shown uint8

// What a cell may have given.
const (
	NotKept   Shown = iota // nothing is kept: it did not run, showed nothing, or its outputs were cleared
	Result                 // something without a graph
	WithGraph              // a tensor that names the operation it comes from
	Failed                 // it ended with an error
	Toy                    // a tensor with a graph on the CPU, printed whole: a handful of numbers
)

// cell is a cell of the JSON; numbers count from 1 over all cells.
type cell struct {
	number         int
	kind, language string
	list           bool // its source is a list of lines, not one string
	parts          []part
	shown          Shown
	printed        int  // characters of what it showed as text
	large          bool // that names a device, or leaves something out
}

// toyChars is how long the text of a handful of numbers may be.
const toyChars = 600

// gave is what a cell showed.
func (c cell) gave() Shown {
	if c.shown == WithGraph && !c.large && c.printed <= toyChars {
		return Toy
	}
	return c.shown
}

// part is one string of a cell's source.
type part struct {
	start, end int // of the string in the JSON, quotes included
	text       string
}

func (c cell) text() string {
	var b strings.Builder
	for _, p := range c.parts {
		b.WriteString(p.text)
	}
	return b.String()
}

// line is where a line of Source comes from.
type line struct {
	start  int  // offset in Source
	cell   int  // index of the cell
	number int  // within the cell, from 1
	at     int  // offset in the cell's text of what the line of Source begins with
	fixed  bool // not the cell's own text
}

// Read reads a notebook.
func Read(src []byte) (*Notebook, error) {
	s, err := scan(src)
	if err != nil {
		return nil, err
	}
	n := &Notebook{raw: src, cells: s.cells}
	var out bytes.Buffer
	for i, c := range n.cells {
		if c.kind != "code" || !s.python(c) {
			continue
		}
		at := 0
		for j, l := range pythonLines(c.text()) {
			n.lines = append(n.lines, line{out.Len(), i, j + 1, at + l.cut, l.replaced || l.shifted || l.cut > 0})
			out.WriteString(l.text)
			out.WriteByte('\n')
			at += l.length + 1
		}
		n.Cells = append(n.Cells, Cell{out.Len(), c.gave()})
	}
	n.Source = out.Bytes()
	return n, nil
}

// Place tells which cell, counted from 1, and which line of it a line of Source is.
func (n *Notebook) Place(number int) (cell, row int) {
	if number < 1 || number > len(n.lines) {
		return 0, number
	}
	l := n.lines[number-1]
	return n.cells[l.cell].number, l.number
}

// FileLine is the line of the JSON on which a line of Source stands, for tools that show the file as it is.
func (n *Notebook) FileLine(number int) int {
	if number < 1 || number > len(n.lines) {
		return 1
	}
	l := n.lines[number-1]
	at := 0
	for _, p := range n.cells[l.cell].parts {
		if at += len(p.text); at > l.at || l.at == at && p.text == "" {
			return 1 + bytes.Count(n.raw[:p.start], []byte("\n"))
		}
	}
	if parts := n.cells[l.cell].parts; len(parts) > 0 {
		return 1 + bytes.Count(n.raw[:parts[len(parts)-1].start], []byte("\n"))
	}
	return 1
}

// ErrNotEditable says that a change touches what is not Python of one cell.
var ErrNotEditable = errors.New("the change crosses the end of a cell or a line for IPython")

// Offset tells which cell, counted from 1, and which offset in its text an offset in Source is; end, where it is the end of a range. The place
// can be edited where ok.
func (n *Notebook) Offset(offset int, end bool) (cell, at int, ok bool) {
	i, at, ok := n.at(offset, end)
	if i >= len(n.cells) {
		return 0, 0, false
	}
	return n.cells[i].number, at, ok
}

// at finds the cell and the offset in its text of an offset in Source. The end of a range is looked for on the line before where it stands
// at the beginning of one.
func (n *Notebook) at(offset int, end bool) (cell, at int, ok bool) {
	i := len(n.lines) - 1
	for i > 0 && n.lines[i].start > offset {
		i--
	}
	if i < 0 {
		return 0, 0, false
	}
	if end && i > 0 && n.lines[i].start == offset {
		i--
	}
	l := n.lines[i]
	return l.cell, min(l.at+offset-l.start, len(n.cells[l.cell].text())), !l.fixed
}
