package oomtext

import (
	"bytes"
	"strconv"
	"strings"
)

// Frame is one call of a traceback.
type Frame struct {
	File     string
	Line     int // 0 unknown
	Function string
	Code     string // the source line, "" unknown
	// Mark is the part of Code under Python's carets (3.11+), "" where there are none.
	Mark string
}

// Link says how a traceback follows the one above it.
type Link string

// The links Python prints between tracebacks of chained exceptions.
const (
	NoLink         Link = ""
	DuringHandling Link = "during-handling" // "During handling of the above exception, another exception occurred"
	DirectCause    Link = "direct-cause"    // "The above exception was the direct cause of the following exception"
)

// Traceback is a stack as printed: the outermost call first, the innermost last.
type Traceback struct {
	Frames []Frame
	Link   Link   // to the traceback before it
	Error  string // the line that ended it, "" for the last one: that is the message
}

const (
	maxTraceLines = 600
	maxFrames     = 300
	maxChain      = 8
)

// tracebacks reads the chain of tracebacks that ends in the message on line at.
func (w *window) tracebacks(at int) []Traceback {
	from := max(0, at-maxTraceLines)
	for from < at && w.lines[from].number <= w.marks[0] {
		from++ // what stands above the message before the last belongs to others
	}
	earlier := w.marks[1]
	w.marks = [2]int{w.marks[1], w.lines[at].number}
	var c chain
	for i := from; i < at; i++ {
		if !w.lines[i].borrowed || len(c.open) > 0 {
			c.feed(w.line(i))
		}
		if w.lines[i].number == earlier {
			c.close(bytes.TrimSpace(w.line(i)))
		}
	}
	return c.end()
}

// traceBelow reads a traceback that begins right below a message: some programs print the error first, and logs are cut before it comes again.
func (w *window) traceBelow(last int) []Traceback {
	var c chain
	for i := last + 1; i < min(len(w.lines), last+maxTraceLines); i++ {
		line := w.line(i)
		if i > last+3 && len(c.now.Frames) == 0 {
			return nil
		}
		c.feed(line)
		if c.closed || i == last+3 && !bytes.Contains(w.text[w.lines[last].start:], []byte("Traceback (most")) {
			break
		}
	}
	if c.loose != "" && len(c.now.Frames) == 0 {
		return nil
	}
	c.closed = false
	return c.end()
}

// excerpt takes the line of source that stands right above a message, where people paste no more of the traceback.
func (w *window) excerpt(at int) []Traceback {
	for i := at - 1; i >= max(0, at-3); i-- {
		line := bytes.Trim(bytes.TrimSpace(w.line(i)), "`> ")
		if len(line) == 0 || len(bytes.Trim(line, "^~ ")) == 0 {
			continue
		}
		if len(line) < 300 && codeLike(line) {
			return []Traceback{{Frames: []Frame{{Code: clip(line)}}}}
		}
		return nil
	}
	return nil
}

// codeLike tells a statement of Python from prose: a call or an assignment to one name.
func codeLike(line []byte) bool {
	name, rest, ok := bytes.Cut(line, []byte(" = "))
	assigns := ok && len(rest) > 0 && !bytes.ContainsAny(name, " :")
	open := bytes.IndexByte(line, '(')
	calls := open > 0 && !bytes.ContainsAny(line[:open], " :") && (line[len(line)-1] == ')' || line[len(line)-1] == '(' || line[len(line)-1] == ',')
	return assigns || calls || bytes.HasPrefix(line, []byte("return ")) && open > 0
}

// chain is the state of reading lines that may hold tracebacks.
type chain struct {
	done   []Traceback
	now    Traceback
	link   Link
	closed bool   // now has got its error line
	code   bool   // the line after a frame is its source
	indent int    // of that source line
	loose  string // a telling source line whose frame is missing
	open   []byte // a frame line that was wrapped
	joins  int
}

func (c *chain) feed(line []byte) {
	if bytes.Contains(line, []byte(`\n`)) && bytes.Contains(line, []byte(`File \"`)) {
		for _, part := range bytes.Split(line, []byte(`\n`)) { // a log in JSON
			c.feedLine(bytes.ReplaceAll(part, []byte(`\"`), []byte(`"`)))
		}
		return
	}
	c.feedLine(line)
}

func (c *chain) feedLine(line []byte) {
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return
	}
	if len(c.open) > 0 {
		text = append(c.open, bytes.TrimRight(line, " ")...)
	}
	if wrappedFrame(text) && c.joins < 4 {
		c.open = append([]byte(nil), text...)
		c.joins++
		return
	}
	c.open, c.joins = nil, 0
	switch {
	case bytes.Contains(text, []byte("Traceback (most recent call last)")):
		c.start()
	case bytes.HasPrefix(text, []byte("During handling of the above exception")):
		c.link = DuringHandling
	case bytes.HasPrefix(text, []byte("The above exception was the direct cause")):
		c.link = DirectCause
	case c.frame(text):
	case c.code:
		c.source(line)
	case len(c.now.Frames) > 0 && !c.closed:
		c.inside(line, text)
	case len(c.now.Frames) == 0 && oneOf(string(text), backwardCalls):
		c.loose = clip(text)
	}
}

// frame takes a line that names a call.
func (c *chain) frame(text []byte) bool {
	f, ok := frameOf(text)
	if !ok {
		return false
	}
	if c.closed {
		c.start()
	}
	n := len(c.now.Frames)
	c.code = true
	if n > 0 && sameCall(c.now.Frames[n-1], f) || n >= maxFrames {
		return true // ranks that print at once repeat each other
	}
	c.now.Frames = append(c.now.Frames, f)
	return true
}

func sameCall(a, b Frame) bool {
	return a.File == b.File && a.Line == b.Line && a.Function == b.Function
}

// start begins a traceback; one that is not linked to the last makes that one history.
func (c *chain) start() {
	if c.link == NoLink {
		c.done = nil
	} else if len(c.now.Frames) > 0 && len(c.done) < maxChain {
		c.done = append(c.done, c.now)
	}
	c.now = Traceback{Link: c.link}
	c.link, c.closed, c.code = NoLink, false, false
}

// source takes the line behind a frame.
func (c *chain) source(line []byte) {
	c.code = false
	last := &c.now.Frames[len(c.now.Frames)-1]
	c.indent = indent(line)
	if number, code, ok := arrow(bytes.TrimSpace(line)); ok {
		last.Code = code
		if last.Line == 0 {
			last.Line = number
		}
		return
	}
	if last.Line > 0 {
		last.Code = clip(bytes.TrimSpace(line))
	}
}

// inside takes a line between frames: carets, IPython's context, or the error that ends the traceback.
func (c *chain) inside(line, text []byte) {
	last := &c.now.Frames[len(c.now.Frames)-1]
	if number, code, ok := arrow(text); ok {
		last.Code = code
		if last.Line == 0 {
			last.Line = number
		}
		return
	}
	if len(bytes.Trim(text, "^~ ")) == 0 {
		from := indent(line) - c.indent
		if to := from + len(text); from >= 0 && from < len(last.Code) && bytes.IndexByte(text, '^') >= 0 {
			last.Mark = last.Code[from:min(to, len(last.Code))]
		}
		return
	}
	if name, _, _ := bytes.Cut(text, []byte(":")); len(name) < 100 && indent(line) == 0 && errorName(name) {
		c.close(text)
	}
}

// close ends the traceback at hand with the line that says what was raised.
func (c *chain) close(text []byte) {
	c.loose = ""
	if len(c.now.Frames) > 0 && !c.closed {
		c.now.Error, c.closed, c.code = clip(text), true, false
	}
}

func (c *chain) end() []Traceback {
	if len(c.now.Frames) > 0 && !c.closed {
		return append(c.done, c.now)
	}
	if c.closed && c.link != NoLink {
		return append(c.done, c.now, Traceback{Link: c.link})
	}
	if c.loose != "" { // an excerpt that starts below the line naming the call
		return []Traceback{{Frames: []Frame{{Code: c.loose}}}}
	}
	return nil
}

func errorName(name []byte) bool {
	for _, c := range name {
		if !letter(c) && !digit(c) && c != '.' && c != '_' {
			return false
		}
	}
	for _, end := range []string{"Error", "Exception", "Interrupt", "Exit", "Exhausted", "OutOfResources"} {
		if bytes.HasSuffix(name, []byte(end)) {
			return true
		}
	}
	return false
}

// wrappedFrame tells a frame line whose end is on the next line.
func wrappedFrame(text []byte) bool {
	return bytes.HasPrefix(text, []byte(`File "`)) && !bytes.Contains(text, []byte(", in ")) && len(text) < 2000
}

// frameOf reads a line that names a call, as Python, IPython and rich print it.
func frameOf(text []byte) (Frame, bool) {
	switch {
	case bytes.HasPrefix(text, []byte(`File "`)):
		return pythonFrame(string(text[len(`File "`):]))
	case bytes.HasPrefix(text, []byte("File ")):
		return placeFrame(string(text[len("File "):]), ", in ")
	case bytes.HasPrefix(text, []byte("Cell In")):
		return cellFrame(string(text))
	case bytes.HasPrefix(text, []byte("│ ")):
		return placeFrame(strings.TrimSpace(strings.Trim(string(text), "│ ")), " in ")
	case bytes.HasPrefix(text, []byte("<ipython-input")) || bytes.Contains(text, []byte(".py in ")):
		file, call, ok := strings.Cut(string(text), " in ")
		if !ok || strings.ContainsAny(file, " \t") {
			return Frame{}, false
		}
		name, _, _ := strings.Cut(call, "(")
		return Frame{File: clip(file), Function: clip(strings.TrimSpace(name))}, true
	}
	return Frame{}, false
}

// pythonFrame reads `train.py", line 12, in main`.
func pythonFrame(s string) (Frame, bool) {
	file, rest, ok := strings.Cut(s, `", line `)
	if !ok {
		return Frame{}, false
	}
	digits, name, _ := strings.Cut(rest, ",")
	n, err := strconv.Atoi(strings.TrimSpace(digits))
	if err != nil || n < 0 {
		return Frame{}, false
	}
	name = strings.TrimPrefix(strings.TrimSpace(name), "in ")
	return Frame{File: clip(file), Line: n, Function: clip(name)}, true
}

// placeFrame reads `train.py:12, in main(args)` and rich's `train.py:12 in main`.
func placeFrame(s, in string) (Frame, bool) {
	place, call, ok := strings.Cut(s, in)
	colon := strings.LastIndexByte(place, ':')
	if !ok || colon < 1 {
		return Frame{}, false
	}
	n, err := strconv.Atoi(place[colon+1:])
	if err != nil || n < 0 {
		return Frame{}, false
	}
	name, _, _ := strings.Cut(call, "(")
	return Frame{File: clip(place[:colon]), Line: n, Function: clip(strings.TrimSpace(name))}, true
}

// cellFrame reads `Cell In[5], line 3` with or without `, in f(x)`.
func cellFrame(s string) (Frame, bool) {
	cell, rest, ok := strings.Cut(s, ",")
	if !ok {
		return Frame{}, false
	}
	f := Frame{File: clip(cell), Function: "<module>"}
	if _, digits, ok := strings.Cut(rest, "line "); ok {
		f.Line = max(0, number(leadingDigits([]byte(digits))))
	}
	if _, call, ok := strings.Cut(rest, ", in "); ok {
		name, _, _ := strings.Cut(call, "(")
		f.Function = clip(name)
	}
	return f, true
}

// arrow reads the marked line of IPython ("----> 3 loss.backward()") and rich ("│ ❱ 275 │   loss.backward() │").
func arrow(text []byte) (int, string, bool) {
	s := strings.TrimSpace(strings.Trim(string(text), "│ "))
	rest, ok := strings.CutPrefix(s, "❱ ")
	if !ok {
		head, tail, found := strings.Cut(s, "> ")
		if !found || len(head) == 0 || strings.Trim(head, "-") != "" {
			return 0, "", false
		}
		rest = tail
	}
	rest = strings.TrimSpace(rest)
	digits := leadingDigits([]byte(rest))
	n := number(digits)
	if n < 0 {
		return 0, "", false
	}
	return n, clip(strings.TrimLeft(rest[len(digits):], " │")), true
}

// clip copies a text and bounds it.
func clip[T string | []byte](s T) string {
	return strings.ToValidUTF8(string(s[:min(len(s), 500)]), "")
}
