package oomtext

import (
	"bytes"
	"strings"
)

// lineRef says where a line of a window came from.
type lineRef struct {
	start    int   // in window.text
	number   int   // in the log, from 1
	offset   int64 // of its first byte in the log
	open     bool  // it ended without a line feed
	borrowed bool  // an unnamed line that may go on where this speaker's last one broke off
}

// window is the recent past of one speaker: the lines without their prefixes, and the state of the search.
type window struct {
	rank    int
	text    []byte
	lines   []lineRef
	state   uint32
	first   int    // end of the first trigger that waits to be read
	hot     int    // end of the last one, -1 when none waits
	done    int    // text up to here has been searched for messages
	marks   [2]int // lines of the last two messages
	asked   bool   // raised is about the speaker's last line
	raised  bool   // which names an exception
	borrows int    // unnamed lines borrowed since the last own one

	label     string // the prefix of its lines
	open      bool   // its last line ended without a line feed
	shared    *shared
	lastScene Scene
}

const (
	keep       = 48 << 10 // bytes of past kept for tracebacks
	lookBehind = 1 << 10  // bytes in front of a trigger that can belong to its message
	lookAhead  = 8 << 10  // bytes behind a trigger that can belong to its message
	maxWait    = 48 << 10 // bytes read at once where one trigger follows another
	maxLines   = 3000     // lines kept, however short they are
	maxBorrows = 120      // lines without a name that can go on where a named one broke off
	maxText    = 4 << 10  // bytes of a message kept as text
)

// shared is what the windows of one log have in common.
type shared struct {
	scenes int             // that may still be looked at
	seen   map[string]int  // index in the log's messages by signature
	placed map[string]bool // signatures of messages whose surroundings were looked at
}

// first tells whether the surroundings of a message are of interest: it came for the first time, and the log is not full.
func (s *shared) first(key string) bool {
	if s.placed[key] || len(s.placed) >= MaxMessages {
		return false
	}
	s.placed[key] = true
	return true
}

func newWindow(rank int, s *shared) *window { return &window{rank: rank, hot: -1, shared: s} }

// add appends a line and reports whether the window is ripe: what its last trigger started is all there.
func (w *window) add(a *automaton, body []byte, ref lineRef) bool {
	ref.start = len(w.text)
	w.open = ref.open
	w.lines = append(w.lines, ref)
	w.text = append(w.text, body...)
	w.text = append(w.text, '\n')
	for at := ref.start; ; {
		end, state := a.scan(w.state, w.text[at:])
		w.state = state
		if end < 0 {
			break
		}
		at += end
		if w.hot < 0 {
			w.first = at
		}
		w.hot = at
	}
	if w.hot < 0 {
		w.forget()
		return false
	}
	return len(w.text)-w.hot > lookAhead || len(w.text)-w.done > maxWait || len(w.lines) > maxLines
}

// own takes note that the speaker has begun a line of its own.
func (w *window) own() { w.borrows, w.asked = 0, false }

// midway tells whether the next line may go on with something: a trigger has been seen, or the beginning of
// one, or the name of an exception.
func (w *window) midway() bool {
	if !w.asked && len(w.lines) > 0 {
		line := w.line(len(w.lines) - 1)
		w.asked, w.raised = true, bytes.Contains(line, []byte("Error")) || bytes.HasPrefix(line, []byte("torch."))
	}
	return w.borrows < maxBorrows && (w.hot >= 0 || w.state != 0 || w.raised)
}

// forget drops the oldest lines once the past has grown to twice what is kept, never what waits to be read.
func (w *window) forget() {
	if len(w.text) < 2*keep && len(w.lines) < maxLines {
		return
	}
	first := max(len(w.lines)-maxLines/2, w.lineAt(len(w.text)-keep))
	if w.hot >= 0 {
		first = min(first, w.lineAt(w.first-lookBehind))
	}
	cut := w.lines[first].start
	w.text = append(w.text[:0], w.text[cut:]...)
	w.lines = append(w.lines[:0], w.lines[first:]...)
	for i := range w.lines {
		w.lines[i].start -= cut
	}
	w.done = max(0, w.done-cut)
	w.first -= cut
	if w.hot >= 0 {
		w.hot -= cut
	}
}

// lineAt returns the index of the line that holds position at.
func (w *window) lineAt(at int) int {
	low, high := 0, len(w.lines)
	for high-low > 1 {
		mid := (low + high) / 2
		if w.lines[mid].start <= at {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// line returns the text of line i.
func (w *window) line(i int) []byte {
	end := len(w.text)
	if i+1 < len(w.lines) {
		end = w.lines[i+1].start
	}
	return w.text[w.lines[i].start : end-1]
}

// harvest reads the messages that wait in the window. Unless the log is over, one that starts so late that
// its end may still come is left for the next time.
func (w *window) harvest(over bool) []Message {
	if w.hot < 0 {
		return nil
	}
	from := max(w.done, w.first-lookBehind)
	limit := len(w.text)
	waiting := !over && len(w.text)-w.hot <= lookAhead && len(w.lines) <= maxLines
	if waiting {
		limit -= lookAhead
	}
	text := w.text[from:]
	if over && w.open {
		text = text[:len(text)-1]
	}
	t := squash(text)
	var found []Message
	for _, s := range readAll(t) {
		start, end := from+int(t.pos[s.start]), from+int(t.pos[s.end-1])+1
		if start >= limit {
			break
		}
		w.done = end
		if !w.lines[w.lineAt(start)].borrowed {
			found = append(found, w.place(*s.message, start, end))
		}
	}
	w.done = max(w.done, limit)
	if waiting {
		w.first = limit
	} else {
		w.hot = -1
	}
	w.forget()
	return found
}

// place adds to a message what its surroundings tell.
func (w *window) place(m Message, start, end int) Message {
	first, last := w.lineAt(start), w.lineAt(end-1)
	m.Line, m.Offset = w.lines[first].number, w.lines[first].offset
	m.lastLine, m.borrowing = w.lines[last].number, w.lines[last].borrowed
	if m.Rank < 0 {
		m.Rank = w.rank
	}
	m.Text = strings.Join(strings.Fields(string(w.text[start:min(end, start+maxText)])), " ")
	m.Tracebacks = w.tracebacks(first)
	m.key = m.signature()
	if w.shared.first(m.key) { // of a repetition nothing else is kept
		m.Versions = m.versions()
		m.Scene = w.scene(start, end)
		m.Near = w.near(start, end)
	}
	if len(m.Tracebacks) == 0 {
		m.Tracebacks = w.traceBelow(last)
	}
	if len(m.Tracebacks) == 0 {
		m.Tracebacks = w.excerpt(first)
	}
	return m
}
