package oomtext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
)

const (
	bufferSize  = 256 << 10
	maxLine     = 64 << 10 // a longer line is read in pieces
	maxSpeakers = 512      // speakers beyond these share the window of lines without a name
)

// reader takes a log apart into lines, lines into speakers, and collects what their windows yield.
type reader struct {
	triggers *automaton
	unnamed  *window
	named    map[uint64]*window
	order    []*window // windows in order of appearance, so that results do not depend on a map
	last     *window   // the named window that spoke last, nil before the first
	log      Log
	shared   *shared
	scratch  []byte
}

func newReader() *reader {
	r := &reader{triggers: triggerAutomaton(), named: map[uint64]*window{}, shared: &shared{maxScenes, map[string]int{}, map[string]bool{}}}
	r.unnamed = newWindow(-1, r.shared)
	r.order = []*window{r.unnamed}
	return r
}

func (r *reader) read(in io.Reader) (Log, error) {
	in = decode(in)
	buf := make([]byte, bufferSize)
	start, end := 0, 0 // the line at hand is buf[start:end] as far as it has come
	piece := false     // and goes on one whose beginning has been taken already
	for {
		n, err := in.Read(buf[end:])
		fresh := end
		end += n
		for {
			stop := bytes.IndexByte(buf[fresh:end], '\n')
			if stop < 0 {
				break
			}
			r.line(buf[start:fresh+stop], 1, piece)
			start, fresh, piece = fresh+stop+1, fresh+stop+1, false
		}
		if start < end && (end-start >= maxLine || err != nil) {
			r.line(buf[start:end], 0, piece)
			start, piece = end, true
		}
		switch {
		case errors.Is(err, io.EOF):
			return r.finish(), nil
		case err != nil:
			return r.finish(), fmt.Errorf("read log at byte %d: %w", r.log.Bytes, err)
		}
		if len(buf)-end < maxLine { // what is left of a line moves to the front
			end = copy(buf, buf[start:end])
			start = 0
		}
	}
}

// line takes one line, or a piece of an overlong one.
func (r *reader) line(raw []byte, terminator int64, piece bool) {
	if !piece {
		r.log.Lines++
	}
	offset := r.log.Bytes
	r.log.Bytes += int64(len(raw)) + terminator
	if bare, changed := undress(raw); changed {
		for part := range bytes.SplitSeq(bare, []byte("\n")) {
			r.plain(part, offset, piece, terminator == 0)
		}
		return
	}
	r.plain(raw, offset, piece, terminator == 0)
}

// plain takes a line without the dress of a page or a JSON string. A carriage return inside starts a new text on the same line: progress bars do that.
func (r *reader) plain(raw []byte, offset int64, piece, open bool) {
	if bytes.IndexByte(raw, 0x1b) >= 0 {
		r.scratch = stripANSI(r.scratch[:0], raw)
		raw = r.scratch
	}
	for {
		cut := bytes.IndexByte(raw, '\r')
		if cut < 0 {
			r.say(raw, offset, piece, open)
			return
		}
		if cut > 0 {
			r.say(raw[:cut], offset, piece, false)
		}
		raw = raw[cut+1:]
		if len(raw) == 0 {
			return
		}
	}
}

// say gives a line to its speaker. One without a name goes to the unnamed window, and to the speaker before
// it as well while that one is in the middle of something: terminals wrap a line without repeating its prefix.
func (r *reader) say(text []byte, offset int64, piece, open bool) {
	body, who := text, speaker{rank: -1}
	if !piece {
		body, who = peel(text)
	}
	if len(body) == 0 {
		return
	}
	ref := lineRef{number: r.log.Lines, offset: offset, open: open}
	if w := r.windowOf(who); w != r.unnamed {
		if w.label == "" {
			w.label = clip(text[:len(text)-len(body)])
		}
		w.own()
		r.last = w
		r.add(w, body, ref)
		return
	}
	if r.last != nil && r.last.midway() {
		r.last.borrows++
		borrowed := ref
		borrowed.borrowed = true
		r.add(r.last, body, borrowed)
	}
	r.add(r.unnamed, body, ref)
}

func (r *reader) windowOf(who speaker) *window {
	if who.key == 0 {
		return r.unnamed
	}
	w := r.named[who.key]
	if w != nil {
		return w
	}
	if len(r.named) >= maxSpeakers {
		return r.unnamed
	}
	w = newWindow(who.rank, r.shared)
	r.named[who.key] = w
	r.order = append(r.order, w)
	return w
}

func (r *reader) add(w *window, body []byte, ref lineRef) {
	start := len(w.text)
	ripe := w.add(r.triggers, body, ref)
	if w.hot >= start {
		r.hint(body)
	}
	if ripe {
		r.collect(w.harvest(false))
	}
}

// collect keeps new messages and counts those that came before.
func (r *reader) collect(found []Message) {
	for _, m := range found {
		if i, ok := r.shared.seen[m.key]; ok {
			r.log.Messages[i].again(m)
			continue
		}
		if len(r.log.Messages) >= MaxMessages {
			r.log.Dropped++
			continue
		}
		r.shared.seen[m.key] = len(r.log.Messages)
		r.log.Messages = append(r.log.Messages, m)
	}
}

// signature tells messages apart: speaker and text.
func (m Message) signature() string {
	return fmt.Sprint(m.Rank, " ", m.Format, " ", squash([]byte(m.Text)).s)
}

// again counts a repetition. Loggers print a message first and its traceback, with the message again, next.
func (m *Message) again(other Message) {
	m.Repeats++
	if len(m.Tracebacks) == 0 && other.Line-m.lastLine <= eventLines {
		m.Tracebacks = other.Tracebacks
	}
}

func (r *reader) finish() Log {
	for _, w := range r.order {
		r.collect(w.harvest(true))
	}
	messages := r.log.Messages
	sort.SliceStable(messages, func(i, j int) bool { return messages[i].Line < messages[j].Line })
	r.log.Messages = joinEvents(dropTails(messages))
	return r.log
}

// dropTails drops what the unnamed window read from lines that ended a named speaker's message.
func dropTails(messages []Message) []Message {
	kept := messages[:0]
	from, to := 0, 0
	for _, m := range messages {
		if !m.borrowing && m.Line > from && m.Line <= to {
			continue
		}
		if m.borrowing {
			from, to = m.Line, m.lastLine
		}
		kept = append(kept, m)
	}
	return kept
}

// stripANSI appends line to out without terminal escape sequences (ECMA-48: CSI … final byte, OSC … BEL).
func stripANSI(out, line []byte) []byte {
	for i := 0; i < len(line); i++ {
		if line[i] != 0x1b {
			out = append(out, line[i])
			continue
		}
		i++
		if i >= len(line) {
			break
		}
		switch line[i] {
		case '[':
			for i+1 < len(line) && (line[i+1] < 0x40 || line[i+1] > 0x7e) {
				i++
			}
			i++
		case ']':
			for i+1 < len(line) && line[i] != 0x07 && line[i] != 0x1b {
				i++
			}
		}
	}
	return out
}
