package oomtext

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/units"
)

// shortUnits are those of XLA ("12.06G"), Kubernetes ("61035596Ki") and R. They count only where the word ends.
var shortUnits = []unit{
	{"gi", "Gi", units.GiB}, {"mi", "Mi", units.MiB}, {"ki", "Ki", units.KiB},
	{"t", "T", units.TiB}, {"g", "G", units.GiB}, {"m", "M", units.MiB}, {"k", "K", units.KiB},
}

// sizeAt reads a size as any stack prints one: with a unit, with the letter of one, with commas between thousands, or a bare count of bytes.
// Marks such as ": " or "(" may stand in front.
func (t squashed) sizeAt(i int) (Amount, int, bool) {
	for i < len(t.s) && strings.IndexByte(":=(~ ", t.s[i]) >= 0 {
		i++
	}
	end := t.groupedEnd(i)
	if end == i {
		return Amount{}, i, false
	}
	number := strings.ReplaceAll(t.s[i:end], ",", "")
	for _, u := range unitTable {
		if t.has(end, u.name) && (u.name != "b" || !letterAt(t.s, end+1) || t.breaks(end+1)) {
			a, ok := newAmount(number, u)
			return a, end + len(u.name), ok
		}
	}
	for _, u := range shortUnits {
		stop := end + len(u.name)
		if t.has(end, u.name) && (!letterAt(t.s, stop) || t.breaks(stop)) {
			a, ok := newAmount(number, u)
			return a, stop, ok
		}
	}
	if strings.Contains(number, ".") || t.has(end, ",") && strings.Trim(t.s[end+1:min(len(t.s), end+4)], "0123456789") == "" && end+4 > len(t.s) {
		return Amount{}, i, false // a fraction without a unit, or thousands cut inside
	}
	a, ok := newAmount(number, unit{"", "bytes", 1})
	if t.cutOff(end) && a.Bytes < shortestCount {
		return Amount{}, i, false // the beginning of "15.48G" more likely than 15 bytes
	}
	return a, end, ok
}

// shortestCount is the least that a bare count of bytes at the very end of a text must be to be taken for one.
const shortestCount = 64 << 10

// cutOff tells a bare number at the very end of a text that ends without a line feed: its last digits, or those behind its point, may be missing.
func (t squashed) cutOff(end int) bool {
	last := len(t.s) - 1
	if last < 0 || end < 1 || end > len(t.s) || !digit(t.s[end-1]) || int(t.pos[last])+1 != len(t.raw) {
		return false
	}
	return end == last+1 || end == last && t.s[last] == '.'
}

// sizeBefore reads the size that ends at end and returns where it starts.
func (t squashed) sizeBefore(end int) (Amount, int, bool) {
	a, ok := t.amountBefore(end)
	if !ok {
		return Amount{}, end, false
	}
	start := end
	for start > 0 && !digit(t.s[start-1]) {
		start--
	}
	return a, t.numberStart(start), true
}

// groupedEnd returns the end of a number that may have commas between groups of three digits.
func (t squashed) groupedEnd(i int) int {
	end := t.numberEnd(i)
	if end-i > 3 || end == i || strings.Contains(t.s[i:end], ".") {
		return end
	}
	for t.has(end, ",") && t.numberEnd(end+1) == end+4 && !strings.Contains(t.s[end+1:end+4], ".") {
		end += 4
	}
	return end
}
