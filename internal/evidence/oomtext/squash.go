package oomtext

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/units"
)

// squashed is a text without white space and without the marks of markdown, in lower case. Templates are
// matched in it: it looks the same however the text was wrapped.
type squashed struct {
	raw []byte
	s   string
	pos []int32 // position in the raw text of each byte of s
}

// dropped are bytes that templates never depend on. The underscore is one: people wrap messages in it.
func dropped(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', '\v', '\f', '*', '`', '_':
		return true
	}
	return false
}

func squash(raw []byte) squashed {
	s := make([]byte, 0, len(raw))
	pos := make([]int32, 0, len(raw))
	for i, c := range raw {
		if dropped(c) {
			continue
		}
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		s = append(s, c)
		pos = append(pos, int32(i))
	}
	return squashed{raw, string(s), pos}
}

// find returns the position of what in [from, to), or -1.
func (t squashed) find(what string, from, to int) int {
	to = min(to, len(t.s))
	if from < 0 || from >= to {
		return -1
	}
	i := strings.Index(t.s[from:to], what)
	if i < 0 {
		return -1
	}
	return from + i
}

// has tells whether the text goes on with what at i.
func (t squashed) has(i int, what string) bool {
	return i >= 0 && i <= len(t.s) && strings.HasPrefix(t.s[i:], what)
}

// before returns up to n bytes in front of i.
func (t squashed) before(i, n int) string { return t.s[max(0, i-n):i] }

// rawText returns bytes [from, to) as the text spells them, white space apart.
func (t squashed) rawText(from, to int) string {
	if from >= to {
		return ""
	}
	raw := t.raw[t.pos[from] : t.pos[to-1]+1]
	return string(bytes.Join(bytes.Fields(raw), nil))
}

// rawBefore returns the raw byte in front of position i, a line feed at the start.
func (t squashed) rawBefore(i int) byte {
	if at := t.pos[i]; at > 0 {
		return t.raw[at-1]
	}
	return '\n'
}

// rawAfter returns the raw byte behind the one at i, a line feed at the end.
func (t squashed) rawAfter(i int) byte {
	if at := int(t.pos[i]) + 1; at < len(t.raw) {
		return t.raw[at]
	}
	return '\n'
}

// unit is a spelling of a unit; all are powers of two. PyTorch's format_size divides by 1024 whatever it
// prints (c10/cuda/CUDACachingAllocator.cpp; MPSAllocator.mm, which says "GB" in older releases); the kernel's
// kB in an oom-kill report is K(pages) (mm/oom_kill.c).
type unit struct {
	name, shown string
	size        units.Bytes
}

var unitTable = []unit{ // longest first
	{"bytes", "bytes", 1}, {"byte", "bytes", 1},
	{"tib", "TiB", units.TiB}, {"gib", "GiB", units.GiB}, {"mib", "MiB", units.MiB}, {"kib", "KiB", units.KiB},
	{"tb", "TB", units.TiB}, {"gb", "GB", units.GiB}, {"mb", "MB", units.MiB}, {"kb", "kB", units.KiB},
	{"b", "B", 1},
}

// amountAt reads a size that starts at i and returns the position behind it.
func (t squashed) amountAt(i int) (Amount, int, bool) {
	end := t.numberEnd(i)
	if end == i {
		return Amount{}, i, false
	}
	for _, u := range unitTable {
		if !t.has(end, u.name) || u.name == "b" && letterAt(t.s, end+1) {
			continue
		}
		a, ok := newAmount(t.s[i:end], u)
		return a, end + len(u.name), ok
	}
	return Amount{}, i, false
}

// amountBefore reads the size that ends at end.
func (t squashed) amountBefore(end int) (Amount, bool) {
	for _, u := range unitTable {
		if end < 0 || end > len(t.s) || !strings.HasSuffix(t.s[:end], u.name) {
			continue
		}
		stop := end - len(u.name)
		start := t.numberStart(stop)
		if start == stop {
			continue
		}
		return newAmount(t.s[start:stop], u)
	}
	return Amount{}, false
}

// countAt reads a bare number of bytes.
func (t squashed) countAt(i int) (Amount, int, bool) {
	end := i
	for end < len(t.s) && digit(t.s[end]) {
		end++
	}
	if end == i {
		return Amount{}, i, false
	}
	a, ok := newAmount(t.s[i:end], unit{"", "bytes", 1})
	return a, end, ok
}

// intAt reads a small whole number, sign allowed; -1 and false where there is none or it is absurd.
func (t squashed) intAt(i int) (int, int, bool) {
	end := i
	if t.has(end, "-") {
		end++
	}
	for end < len(t.s) && digit(t.s[end]) {
		end++
	}
	n, err := strconv.Atoi(t.s[min(i, len(t.s)):end])
	if err != nil || n > math.MaxInt32 || n < math.MinInt32 {
		return -1, end, false
	}
	return n, end, true
}

// pidAt reads a process id or a count, 0 for none.
func (t squashed) pidAt(i int) (int, int) {
	n, end, _ := t.intAt(i)
	return max(n, 0), end
}

// numberEnd returns the end of digits with at most one point inside.
func (t squashed) numberEnd(i int) int {
	end, point := i, false
	for end < len(t.s) {
		switch {
		case digit(t.s[end]):
		case t.s[end] == '.' && !point && end > i && end+1 < len(t.s) && digit(t.s[end+1]):
			point = true
		default:
			return end
		}
		end++
	}
	return end
}

func (t squashed) numberStart(end int) int {
	start, point := end, false
	for start > 0 {
		c := t.s[start-1]
		switch {
		case digit(c):
		case c == '.' && !point && start < end && start > 1 && digit(t.s[start-2]):
			point = true
		default:
			return start
		}
		start--
	}
	return start
}

func newAmount(number string, u unit) (Amount, bool) {
	text := number + " " + u.shown
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return Amount{}, false
	}
	bytes := value * float64(u.size)
	if bytes >= math.MaxInt64 {
		return Amount{Text: text}, true
	}
	a := Amount{Bytes: units.Bytes(math.Round(bytes)), Text: text, Known: true}
	if u.size > 1 {
		_, decimals, _ := strings.Cut(number, ".")
		a.Within = units.Bytes(math.Ceil(float64(u.size) / 2 * math.Pow10(-len(decimals))))
	}
	return a, true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func letterAt(s string, i int) bool { return i < len(s) && letter(s[i]) }
