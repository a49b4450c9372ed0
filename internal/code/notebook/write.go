package notebook

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Apply gives the JSON with edits of Source made in it. Strings that no edit touches, and all between them, stay as they are.
func (n *Notebook) Apply(edits []pysource.Edit) ([]byte, error) {
	byCell := map[int][]pysource.Edit{}
	for _, e := range edits {
		cell, start, ok := n.at(e.Start, false)
		last, end, editable := n.at(e.End, e.End > e.Start)
		if !ok || !editable || last != cell || end < start {
			return nil, ErrNotEditable
		}
		byCell[cell] = append(byCell[cell], pysource.Edit{Start: start, End: end, Text: e.Text})
	}
	var changes []pysource.Edit
	for i, own := range byCell {
		changes = append(changes, n.rewrite(n.cells[i], own)...)
	}
	return pysource.Apply(n.raw, changes), nil
}

// rewrite turns edits of a cell's text into edits of its strings in the JSON.
func (n *Notebook) rewrite(c cell, edits []pysource.Edit) []pysource.Edit {
	if len(c.parts) == 0 {
		return nil
	}
	var out []pysource.Edit
	separator := n.separator(c)
	at := 0
	for i := 0; i < len(c.parts); {
		// A run of strings that edits tie together is written anew.
		j, end := i, at+len(c.parts[i].text)
		touching := inside(edits, at, end, i == len(c.parts)-1)
		for len(touching) > 0 && touching[len(touching)-1].End > end && j+1 < len(c.parts) {
			j++
			end += len(c.parts[j].text)
			touching = inside(edits, at, end, j == len(c.parts)-1)
		}
		if len(touching) > 0 {
			text := string(pysource.Apply([]byte(c.text()[at:end]), moved(touching, -at)))
			change := pysource.Edit{Start: c.parts[i].start, End: c.parts[j].end, Text: n.quoted(c, text, separator)}
			if text == "" && c.list && j+1 < len(c.parts) { // lines that are gone take their comma along
				change.End, change.Text = c.parts[j+1].start, ""
			}
			out = append(out, change)
		}
		i, at = j+1, end
	}
	return out
}

// inside lists the edits that begin in a range of a cell's text, in order; at the end of the last string too.
func inside(edits []pysource.Edit, from, to int, last bool) []pysource.Edit {
	var out []pysource.Edit
	for _, e := range edits {
		if e.Start >= from && (e.Start < to || last && e.Start == to) {
			out = append(out, e)
		}
	}
	return out
}

func moved(edits []pysource.Edit, by int) []pysource.Edit {
	out := make([]pysource.Edit, len(edits))
	for i, e := range edits {
		out[i] = pysource.Edit{Start: e.Start + by, End: e.End + by, Text: e.Text}
	}
	return out
}

// separator is what stands between two lines of a cell's source in the JSON.
func (n *Notebook) separator(c cell) string {
	if len(c.parts) > 1 {
		return string(n.raw[c.parts[0].end:c.parts[1].start])
	}
	before := n.raw[:c.parts[0].start]
	return "," + string(before[len(bytes.TrimRight(before, " \t\r\n")):])
}

// quoted writes text as the strings of a source: one, or one for each line.
func (n *Notebook) quoted(c cell, text, separator string) string {
	ascii := !bytes.ContainsFunc(n.raw, func(r rune) bool { return r >= utf8.RuneSelf })
	if !c.list || text == "" {
		return quote(text, ascii)
	}
	var out []string
	for l := range strings.SplitAfterSeq(text, "\n") {
		if l != "" {
			out = append(out, quote(l, ascii))
		}
	}
	return strings.Join(out, separator)
}

// quote writes a JSON string as Python's json module does, with or without ensure_ascii.
func quote(s string, ascii bool) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case short[r] != 0:
			b.WriteByte('\\')
			b.WriteByte(short[r])
		case r < ' ' || ascii && r >= utf8.RuneSelf:
			for _, unit := range utf16.Encode([]rune{r}) {
				b.WriteString(`\u` + strconv.FormatUint(uint64(unit)|0x10000, 16)[1:])
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// short are control characters with an escape of one letter.
var short = map[rune]byte{'\n': 'n', '\t': 't', '\r': 'r', '\b': 'b', '\f': 'f'}
