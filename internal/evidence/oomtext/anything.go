package oomtext

import (
	"bytes"
	"strings"
)

// The readers of last resort take what no other knows: a sentence of any program that says, in the common words, that an allocation failed. They are strict about the
// sentence: it states a failure, it is not advice, a comment or source code, and it names a device or a size.

// anyFormat names what they read.
const anyFormat = "other"

// supposing are words of a sentence that speaks about running out of memory instead of reporting it.
var supposing = []string{"if", "may", "might", "could be", "avoid", "prevent", "try ", "trying to reduce", "consider", "can ", "would", "when ", "in case", "likely", "possible", "possibly", "potential", "risk",
	"fix", "handle", "retry", "skip", "warn", "hint", "should", "how to", "see ", "e.g", "reduce", "without", "test", "note:", "except", "==", " in str(", "//", "/*", "def ", "raise ", "return ", "print(", "assert", "?", "unless", "recover", "#"}

// failing are words that report a failure.
var failing = []string{"error", "fail", "exception", "fatal", "abort", "terminate", "insufficient", "unable", "cannot", "can't", "could not", "exhausted"}

// deviceTalk are words that tell device memory from main memory.
var deviceTalk = []string{"cuda", "gpu", "vram", "hip", "rocm", "device memory", "device_memory", "npu", "hbm", "tpu", "vulkan", "metal", "video memory", "opencl", "sycl", "level_zero"}

// readAnyDevice reads "… error …: out of memory" with a word for a device on the same line, as "cudaMalloc failed: out of memory" or "GPU error 2: out of memory".
func readAnyDevice(t squashed, at int) (span, bool) {
	line := t.line(at)
	if t.has(at, "outofmemoryerror") || !oneOf(line, failing) || !oneOf(line, deviceTalk) || oneOf(line, supposing) {
		return span{}, false
	}
	m := newMessage(DeviceOOM, anyFormat)
	m.Truncated = true
	return t.anything(m, at, at+len("outofmemory"), line)
}

// readAnyAllocation reads "failed to allocate N bytes" and its kin, where a size stands beside the words.
func readAnyAllocation(t squashed, at int) (span, bool) {
	line := t.line(at)
	if line == "" || oneOf(line, supposing) || !oneOf(line, failing) && !strings.Contains(line, "not enough memory") {
		return span{}, false
	}
	m := newMessage(HostOOM, anyFormat)
	m.Certain = false
	end := at
	for end < len(t.s) && letter(t.s[end]) && end-at < 24 {
		end++
	}
	stop := t.lineEnd(at)
	for i := end; i < min(stop, end+60); i++ {
		if digit(t.s[i]) && !digit(t.s[i-1]) && t.s[i-1] != '.' && !letter(t.s[i-1]) || digit(t.s[i]) && t.breaks(i) {
			if a, next, ok := t.amountAt(i); ok && a.Known && a.Bytes >= 1<<10 {
				m.Requested, end = a, next
				break
			}
		}
	}
	device := oneOf(line, deviceTalk)
	if !m.Requested.Known && !(device && strings.Contains(line, "memory")) {
		return span{}, false
	}
	if device {
		m.Kind = DeviceOOM
	} else {
		m.Backend = "cpu"
	}
	return t.anything(m, at, end, line)
}

func (t squashed) anything(m Message, at, end int, line string) (span, bool) {
	if m.Kind == DeviceOOM {
		m.Backend = t.backendIn(t.lineStart(at), t.lineEnd(at))
	}
	start := at
	m.Class, start = t.classBefore(at)
	if m.Class == "" && t.inSource(at) {
		return span{}, false
	}
	return span{&m, start, end}, true
}

// longestLine bounds the lines the readers of last resort look at.
const longestLine = 400

// line returns the line around position i in lower case, "" where it is too long to be a sentence.
func (t squashed) line(i int) string {
	at := int(t.pos[i])
	head := t.raw[max(0, at-longestLine):at]
	tail := t.raw[at:min(len(t.raw), at+longestLine)]
	from, to := bytes.LastIndexByte(head, '\n')+1, bytes.IndexByte(tail, '\n')
	if from == 0 && len(head) == longestLine || to < 0 && len(tail) == longestLine {
		return ""
	}
	if to < 0 {
		to = len(tail)
	}
	return strings.ToLower(string(head[from:]) + string(tail[:to]))
}

// lineStart and lineEnd bound the line around position i in squashed text.
func (t squashed) lineStart(i int) int {
	for i > 0 && bytes.IndexByte(t.raw[t.pos[i-1]:t.pos[i]], '\n') < 0 {
		i--
	}
	return i
}

func (t squashed) lineEnd(i int) int {
	for i++; i < len(t.s); i++ {
		if bytes.IndexByte(t.raw[t.pos[i-1]:t.pos[i]], '\n') >= 0 {
			return i
		}
	}
	return len(t.s)
}
