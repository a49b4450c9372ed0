package notebook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/plimsoll/plimsoll/internal/document"
)

// frame is one object or array that the scanner is inside of.
type frame struct {
	array bool
	key   string // of an object: the member being read
	wait  bool   // of an object: a key comes next
	index int    // of an array: the element being read
}

// scanner walks the tokens of the JSON and remembers where the sources of cells stand. It keeps no tree: pictures in outputs are skipped over.
type scanner struct {
	cells    []cell
	language string // of the kernel; empty where the notebook does not say
	seen     bool   // there was a list of cells
	stack    []frame
}

func scan(src []byte) (*scanner, error) {
	s := &scanner{}
	dec := json.NewDecoder(bytes.NewReader(src))
	for {
		before := int(dec.InputOffset())
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", document.Where(err, 0))
		}
		s.token(src, token, before, int(dec.InputOffset()))
		if len(s.stack) == 0 {
			break
		}
	}
	if len(s.stack) > 0 {
		return nil, fmt.Errorf("not JSON: it ends too early, at byte %d", len(src))
	}
	if !s.seen {
		return nil, errors.New(`there is no list of cells ("cells") in it; is it a notebook?`)
	}
	return s, nil
}

func (s *scanner) token(src []byte, token json.Token, before, end int) {
	switch t := token.(type) {
	case json.Delim:
		if t == '}' || t == ']' {
			s.stack = s.stack[:len(s.stack)-1]
			s.next()
			return
		}
		if t == '[' {
			s.opened()
		}
		s.stack = append(s.stack, frame{array: t == '[', wait: t == '{'})
		s.cell()
		return
	case string:
		if n := len(s.stack); n > 0 && s.stack[n-1].wait {
			s.stack[n-1].key, s.stack[n-1].wait = t, false
			return
		}
		start := before + bytes.IndexByte(src[before:end], '"')
		s.text(part{start, end, t})
	}
	s.next()
}

// next goes on to the next member or element.
func (s *scanner) next() {
	if n := len(s.stack); n > 0 {
		s.stack[n-1].wait = !s.stack[n-1].array
		s.stack[n-1].index++
	}
}

// depth is the number of frames above those of a cell: its list, and in nbformat 3 the worksheet around that.
func (s *scanner) depth() int {
	f := s.stack
	switch {
	case len(f) >= 2 && f[0].key == "cells" && f[1].array:
		return 2
	case len(f) >= 4 && f[0].key == "worksheets" && f[1].array && f[2].key == "cells" && f[3].array:
		return 4
	}
	return 0
}

// opened notes a list that begins: that of the cells, or the lines of a cell's source.
func (s *scanner) opened() {
	f := s.stack
	if len(f) == 1 && (f[0].key == "cells" || f[0].key == "worksheets") {
		s.seen = true
	}
	if d := s.depth(); d > 0 && len(f) == d+1 && isSource(f[d].key) && len(s.cells) > 0 {
		s.cells[len(s.cells)-1].list = true
	}
}

// cell begins a new cell where an object of the list of cells was opened.
func (s *scanner) cell() {
	if d := s.depth(); d > 0 && len(s.stack) == d+1 && !s.stack[d].array {
		s.cells = append(s.cells, cell{number: len(s.cells) + 1})
	}
}

func isSource(key string) bool { return key == "source" || key == "input" }

// text takes a string for what its place says it is.
func (s *scanner) text(p part) {
	f := s.stack
	d := s.depth()
	if d == 0 || len(f) <= d || len(s.cells) == 0 {
		if path := s.path(0); s.language == "" && (path == "metadata/language_info/name" || path == "metadata/kernelspec/language") {
			s.language = p.text
		}
		return
	}
	c := &s.cells[len(s.cells)-1]
	switch path := s.path(d); {
	case isSource(path) || len(f) == d+2 && f[d+1].array && isSource(f[d].key):
		c.parts = append(c.parts, p)
	case f[d].key == "outputs":
		s.output(c, d, p.text)
	case path == "cell_type":
		c.kind = p.text
	case path == "language", path == "metadata/vscode/languageId", path == "metadata/kernel", path == "metadata/polyglot_notebook/kernelName":
		c.language = p.text
	}
}

// output takes a string among a cell's outputs for what it says of the last run. A tensor with a graph is printed with its grad_fn
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_tensor_str.py: _str_intern).
func (s *scanner) output(c *cell, d int, text string) {
	f := s.stack[d+1:]
	if len(f) < 2 || !f[0].array || f[1].array {
		return
	}
	if f[1].key == "data" && len(f) > 2 && f[2].key == "text/plain" {
		c.printed += len(text)
		c.large = c.large || strings.Contains(text, "...") || strings.Contains(text, "device=") // printed only where it is not the CPU
	}
	switch {
	case f[1].key == "output_type" && (text == "error" || text == "pyerr"):
		c.shown = Failed
	case f[1].key == "output_type" && (text == "execute_result" || text == "pyout"):
		c.shown = max(c.shown, Result)
	case f[1].key == "data" && strings.Contains(text, "grad_fn"):
		c.shown = max(c.shown, WithGraph)
	}
}

// path joins the keys of objects from a depth on.
func (s *scanner) path(from int) string {
	var keys []string
	for _, f := range s.stack[from:] {
		if f.array {
			return ""
		}
		keys = append(keys, f.key)
	}
	return strings.Join(keys, "/")
}

// python tells whether a cell is Python: by what the cell says of itself, else by the notebook's kernel, else yes.
func (s *scanner) python(c cell) bool {
	language := strings.ToLower(c.language)
	if language == "" {
		language = strings.ToLower(s.language)
	}
	return language == "" || strings.Contains(language, "python")
}
