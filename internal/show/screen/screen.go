// Package screen lays text out for a terminal: wrapped paragraphs, bars, aligned tables, colour.
//
// It takes words, numbers and a Style (width, colour or not, UTF-8 or ASCII) and returns lines that fit the
// width and read the same without colour. It computes nothing about memory and writes only to the
// io.Writer it was given; text from files is stripped of control characters before it reaches a terminal.
package screen

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Style says how a screen may look.
type Style struct {
	Width int  // columns; 80 when zero
	Color bool // ANSI colour allowed
	ASCII bool // no characters beyond ASCII
}

// Ink is a semantic colour; the terminal's own palette decides the shade.
type Ink string

// Inks by meaning.
const (
	Plain  Ink = ""
	Bold   Ink = "1"
	Faint  Ink = "2"
	Red    Ink = "31"
	Green  Ink = "32"
	Yellow Ink = "33"
	Blue   Ink = "34"
	Purple Ink = "35"
	Cyan   Ink = "36"
)

// Screen writes styled lines.
type Screen struct {
	w     io.Writer
	style Style
	err   error
}

// New gives a screen that writes to w.
func New(w io.Writer, style Style) *Screen {
	if style.Width <= 0 {
		style.Width = 80
	}
	return &Screen{w: w, style: style}
}

// Err is the first error of the underlying writer.
func (s *Screen) Err() error { return s.err }

// Width is the number of columns a line may use.
func (s *Screen) Width() int { return s.style.Width }

// Ink colours text where colour is allowed.
func (s *Screen) Ink(ink Ink, text string) string {
	if !s.style.Color || ink == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(ink) + "m" + text + "\x1b[0m"
}

// Line writes its parts, one space of the caller's making between them, and a newline.
func (s *Screen) Line(parts ...string) {
	text := strings.TrimRight(strings.Join(parts, ""), " ")
	if s.style.ASCII {
		text = toASCII(text)
	}
	if s.err == nil {
		_, s.err = io.WriteString(s.w, text+"\n")
	}
}

// Blank writes an empty line.
func (s *Screen) Blank() { s.Line() }

// Paragraph writes text wrapped to the width, every line indented.
func (s *Screen) Paragraph(indent int, text string) {
	for _, line := range Wrap(text, s.style.Width-indent) {
		s.Line(strings.Repeat(" ", indent), line)
	}
}

// Hanging writes text wrapped to the width with lead before the first line and as many spaces before the others.
func (s *Screen) Hanging(lead string, ink Ink, text string) {
	width := Columns(lead)
	for i, line := range Wrap(text, s.style.Width-width) {
		if i == 0 {
			s.Line(s.Ink(ink, lead), line)
		} else {
			s.Line(strings.Repeat(" ", width), line)
		}
	}
}

// Bar draws part/whole as a bar of at most width columns in eighths of a column, padded to the width.
func (s *Screen) Bar(part, whole float64, width int) string {
	if whole <= 0 || part < 0 {
		return strings.Repeat(" ", width)
	}
	eighths := min(int(part/whole*float64(width)*8+0.5), width*8)
	full, rest := eighths/8, eighths%8
	if s.style.ASCII {
		return strings.Repeat("#", full) + strings.Repeat(" ", width-full)
	}
	bar := strings.Repeat("█", full)
	if rest > 0 {
		bar += string([]rune("▏▎▍▌▋▊▉")[rest-1])
		full++
	}
	return bar + strings.Repeat(" ", width-full)
}

// Wrap breaks text at spaces into lines of at most width columns; a longer word stands alone, and a unit stays
// with its number.
func Wrap(text string, width int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line, used := "", 0
		for _, word := range words(paragraph) {
			n := Columns(word)
			if used > 0 && used+1+n > width {
				lines, line, used = append(lines, line), "", 0
			}
			if used > 0 {
				line, used = line+" ", used+1
			}
			line, used = line+word, used+n
		}
		lines = append(lines, line)
	}
	return lines
}

// words splits a paragraph at spaces, a unit glued to the number before it.
func words(paragraph string) []string {
	var out []string
	for word := range strings.FieldsSeq(paragraph) {
		bare := strings.TrimRight(word, ".,;:)")
		if n := len(out); n > 0 && (bare == "%" || bare == "B" || len(bare) == 3 && strings.HasSuffix(bare, "iB")) {
			out[n-1] += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

// Columns counts the columns a text takes: wide characters count two, combining ones and escape sequences none.
func Columns(text string) int { return ansi.StringWidth(text) }

// Pad fills text with spaces to the right up to width columns.
func Pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-Columns(text)))
}

// PadLeft fills text with spaces to the left up to width columns.
func PadLeft(text string, width int) string {
	return strings.Repeat(" ", max(0, width-Columns(text))) + text
}

// Fit shortens text to width columns, an ellipsis in place of what is lost.
func Fit(text string, width int) string {
	if width <= 1 {
		return ansi.Truncate(text, max(0, width), "")
	}
	return ansi.Truncate(text, width, "…")
}

// Clean makes text from a file safe for a terminal: control characters, bidirectional overrides and invalid UTF-8 become "�".
func Clean(text string) string {
	if strings.IndexFunc(text, unsafe) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unsafe(r) {
			return '�'
		}
		return r
	}, text)
}

// CleanLines makes text of several lines safe for a terminal; line breaks stay.
func CleanLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// unsafe tells characters that move the cursor, change colours or turn the direction of what follows.
func unsafe(r rune) bool {
	return unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r)
}

func toASCII(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return r
		case strings.ContainsRune("█▉▊▋▌▍▎▏", r):
			return '#'
		case strings.ContainsRune("–—−", r):
			return '-'
		case strings.ContainsRune("×", r):
			return 'x'
		case strings.ContainsRune("·›…", r):
			return '.'
		}
		return '?'
	}, text)
}
