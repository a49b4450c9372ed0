package oomtext

import (
	"iter"
	"strings"
)

// phrase is a message that a few words give away, with sizes that stand near them. Most stacks print one sentence, so one line of a table reads it.
type phrase struct {
	words   string // as in squashed text
	kind    Kind
	format  string
	library string // who speaks, "" as format
	backend string
	purpose string   // what the memory was for
	maybe   bool     // the words do not say by themselves that memory ran out
	near    []string // one of these stands within reach in front of the words or behind them; none: nothing is needed
	not     []string // none of these does
	opening string   // the message begins at this, if it stands in front of the words
	closing string   // and ends behind the last of these words, separated by bars
	sizes   []place
}

// place says where a size stands.
type place struct {
	to     func(*Message) *Amount
	anchor string
	before bool // the size stands in front of the anchor
}

// How far from the words of a phrase what belongs to it may stand, in squashed bytes.
const (
	phraseBack    = 240
	phraseAhead   = 420
	closingWithin = 260
)

func requested(m *Message) *Amount   { return &m.Requested }
func capacity(m *Message) *Amount    { return &m.Capacity }
func free(m *Message) *Amount        { return &m.Free }
func allocated(m *Message) *Amount   { return &m.Allocated }
func allowed(m *Message) *Amount     { return &m.Allowed }
func processHeld(m *Message) *Amount { return &m.Process }

func behind(to func(*Message) *Amount, anchor string) place { return place{to: to, anchor: anchor} }

func inFront(to func(*Message) *Amount, anchor string) place {
	return place{to: to, anchor: anchor, before: true}
}

// phraseTemplates makes a template of every phrase.
func phraseTemplates(phrases []phrase) []template {
	var out []template
	for _, p := range phrases {
		out = append(out, template{[]string{p.words}, func(t squashed, at int) (span, bool) { return p.read(t, at) }})
	}
	return out
}

func (p phrase) read(t squashed, at int) (span, bool) {
	from, to := t.paragraph(at, at+len(p.words))
	around := t.s[from:to]
	if len(p.near) > 0 && !oneOf(around, p.near) || oneOf(around, p.not) {
		return span{}, false
	}
	m := newMessage(p.kind, p.format)
	m.Library, m.Backend, m.Purpose, m.Certain = p.library, p.backend, p.purpose, !p.maybe
	if m.Library == "" {
		m.Library = p.format
	}
	if m.Backend == "" {
		m.Backend = t.backendIn(from, to)
	}
	if m.Purpose == "" {
		m.Purpose = purposeIn(t.before(at, 60))
	}
	start, end := at, at+len(p.words)
	if p.opening != "" {
		if i := strings.LastIndex(t.s[from:at], p.opening); i >= 0 {
			start = from + i
		}
	}
	for rest, closing := range t.closings(end, min(to, end+closingWithin), p.closing) {
		end = max(end, rest+len(closing))
	}
	for _, s := range p.sizes {
		first, last := t.readPlace(s, start, to, &m)
		start, end = min(start, first), max(end, last)
	}
	m.Device = t.deviceIn(start, min(to, end+40))
	class, open := t.classBefore(start)
	if class == "" && t.inSource(start) {
		return span{}, false
	}
	m.Class, m.Truncated = class, t.cutOff(end)
	return span{&m, open, end}, true
}

// closings yields where each of the words, separated by bars, stands last in [from, to).
func (t squashed) closings(from, to int, words string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for w := range strings.SplitSeq(words, "|") {
			if i := strings.LastIndex(t.s[from:to], w); w != "" && i >= 0 && !yield(from+i, w) {
				return
			}
		}
	}
}

// purposeIn tells what ggml's function of that name allocates.
func purposeIn(head string) string {
	switch {
	case strings.Contains(head, "alloctensorrange"):
		return "weights"
	case strings.Contains(head, "gallocrreserve"):
		return "compute"
	case strings.Contains(head, "kvcache"):
		return "cache"
	}
	return ""
}

// readPlace reads one size and returns the stretch of text it took: nothing is (end of text, 0).
func (t squashed) readPlace(s place, from, to int, m *Message) (int, int) {
	nothing := len(t.s)
	i := t.find(s.anchor, from, to)
	if i < 0 {
		return nothing, 0
	}
	if s.before {
		a, start, ok := t.sizeBefore(i)
		if ok {
			*s.to(m) = a
			return start, i + len(s.anchor)
		}
		return nothing, 0
	}
	a, end, ok := t.sizeAt(i + len(s.anchor))
	if ok {
		*s.to(m) = a
		return i, end
	}
	return nothing, 0
}

// paragraph returns the text that can belong to what stands at [at, end): so far, and no further than the next traceback.
func (t squashed) paragraph(at, end int) (int, int) {
	from, to := max(0, at-phraseBack), min(len(t.s), end+phraseAhead)
	if i := strings.LastIndex(t.s[from:at], "(mostrecentcalllast)"); i >= 0 {
		from += i
	}
	if i := t.find("traceback(mostrecent", end, to); i >= 0 {
		to = i
	}
	return from, to
}

// sourceWords are those of a line of source code, in a traceback or a comment.
var sourceWords = []string{"raise ", "error(", "exception(", " in str(", "assert", "==", "print(", "logger.", "log.", "return "}

// inSource tells text that is quoted in source code, not printed by the program.
func (t squashed) inSource(at int) bool {
	c := t.rawBefore(at)
	return (c == '\'' || c == '"') && oneOf(t.line(at), sourceWords)
}

// deviceWords by backend, as messages of any stack spell them.
var deviceWords = []struct{ word, backend string }{
	{"cuda", "cuda"}, {"nvidia", "cuda"}, {"rocm", "hip"}, {"hip", "hip"}, {"sycl", "xpu"}, {"vulkan", "vulkan"}, {"vk::", "vulkan"}, {"metal", "mps"}, {"hbm", "tpu"}, {"tpu", "tpu"}, {"npu", "npu"},
}

// backendIn names the backend that words in [from, to) tell, "" unknown.
func (t squashed) backendIn(from, to int) string {
	for _, d := range deviceWords {
		if t.find(d.word, from, to) >= 0 {
			return d.backend
		}
	}
	return ""
}

// deviceIn reads "on device 0", "GPU 1", "CUDA0", "GPU=0" in [from, to), -1 where there is none.
func (t squashed) deviceIn(from, to int) int {
	for _, anchor := range []string{"ondevice", "ongpu", "gpu=", "gpu:", "device:", "cuda:", "cuda", "rocm", "gpu"} {
		for i := t.find(anchor, from, to); i >= 0; i = t.find(anchor, i+1, to) {
			at := i + len(anchor)
			n, end, ok := t.intAt(at)
			if ok && n >= 0 && n < 64 && !letterAt(t.s, end) && !t.has(end, ".") || ok && n >= 0 && n < 64 && t.has(end, "buffer") {
				return n
			}
		}
	}
	return -1
}
