// Package pysource reads Python source into a syntax tree.
//
// It takes the text of one file (Python 3.8 to 3.14) and returns its statements, its comments and the places that are not Python.
// It never refuses a file: a broken line becomes a Bad node and an Error, and reading goes on with the next line. Nesting
// deeper than maxDepth is cut off the same way, so that no input can exhaust the stack. It resolves nothing: what a name means
// is for the reader of the tree to find out. Grammar: https://docs.python.org/3.14/reference/grammar.html.
package pysource

import (
	"fmt"
	"sort"
	"sync"
)

// Span is a range of bytes in the source, end excluded.
type Span struct{ Start, End int32 }

// Pos gives the range itself, so that every node that embeds a Span has a position.
func (s Span) Pos() Span { return s }

// Node is any part of the tree.
type Node interface{ Pos() Span }

// Error is a place where the source is not Python.
type Error struct {
	Span
	Message string
}

// Comment is one comment from its '#' to the end of the line.
type Comment struct {
	Span
	Text string
}

// File is one source file read.
type File struct {
	Source   []byte
	Body     []Stmt
	Comments []Comment
	Errors   []Error
	Imports  []*Import // wherever in Body they stand
	lines    []int32   // offset of each line's first byte
}

// Position is a place as people count: both from 1, the column in bytes.
type Position struct{ Line, Column int }

// Position converts a byte offset.
func (f *File) Position(offset int32) Position {
	i := sort.Search(len(f.lines), func(i int) bool { return f.lines[i] > offset })
	if i == 0 {
		return Position{1, int(offset) + 1}
	}
	return Position{i, int(offset-f.lines[i-1]) + 1}
}

// Line gives the text of a line, counted from 1, without its end.
func (f *File) Line(n int) string {
	if n < 1 || n > len(f.lines) {
		return ""
	}
	start, end := int(f.lines[n-1]), len(f.Source)
	if n < len(f.lines) {
		end = int(f.lines[n])
	}
	for end > start && (f.Source[end-1] == '\n' || f.Source[end-1] == '\r') {
		end--
	}
	return string(f.Source[start:end])
}

// Text gives the source of a node.
func (f *File) Text(n Node) string {
	s := n.Pos()
	if s.Start < 0 || int(s.End) > len(f.Source) || s.Start > s.End {
		return ""
	}
	return string(f.Source[s.Start:s.End])
}

// MaxSize is the size of the largest file that is read; a larger one is cut there and marked with an error.
const MaxSize = 16 << 20

// tokens are lists to be used again: a file has many, and none is needed once it was read.
var tokens = sync.Pool{New: func() any { return new([]token) }}

// words are the names of the files that were read last: most names of a file are those of its neighbours.
var words = sync.Pool{New: func() any { return new(lexicon) }}

// Parse reads a file.
func Parse(src []byte) *File {
	f := &File{Source: src}
	text := src
	if len(text) > MaxSize {
		text = text[:MaxSize]
		f.Errors = append(f.Errors, Error{Span{MaxSize, MaxSize}, fmt.Sprintf("the file is larger than %d bytes; the rest was not read", MaxSize)})
	}
	lit := newLiterals(text)
	list := tokens.Get().(*[]token)
	s := scanner{src: text, file: f, text: lit, toks: (*list)[:0]}
	s.scan()
	known := words.Get().(*lexicon)
	p := parser{file: f, src: text, toks: s.toks, text: lit, nodes: &store{words: known}}
	f.Body = p.block(func() bool { return p.kind() == tokEOF })
	sort.SliceStable(f.Errors, func(i, j int) bool { return f.Errors[i].Start < f.Errors[j].Start })
	*list = s.toks // no node keeps a token
	tokens.Put(list)
	words.Put(known)
	return f
}
