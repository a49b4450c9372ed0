package oomtext

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/units"
)

// maxBuffers is how many of a program's largest buffers are kept.
const maxBuffers = 8

// readProgram reads XLA's report on a program that does not fit its memory space: "Ran out of memory in memory space hbm. Used 17.00G of 15.48G hbm.", and the list of
// its largest buffers. The memory spaces beside hbm are on the chip: the size of a kernel's blocks, not of the model.
func (t squashed) readProgram(m *Message, at int) int {
	end := at + len("ranoutofmemoryinmemoryspace")
	if !t.has(end, "hbm") {
		m.Kind = NotAnOOM
	}
	i := t.find(".used", end, end+20)
	if i < 0 {
		m.Truncated = true
		return end
	}
	program, stop, ok := t.sizeAt(i + len(".used"))
	if !ok {
		m.Truncated = true
		return end
	}
	m.Program, end = program, stop
	if t.has(end, "of") {
		if a, stop, ok := t.sizeAt(end + len("of")); ok {
			m.Capacity, end = a, stop
		}
	}
	m.Truncated = m.Capacity.Text == ""
	return t.readBuffers(m, end)
}

// readBuffers reads the list below: size, operator, shape of each.
func (t squashed) readBuffers(m *Message, end int) int {
	from := t.find("largestprogramallocations", end, min(len(t.s), end+1500))
	if from < 0 {
		return end
	}
	at := from
	for len(m.Largest) < maxBuffers {
		i := t.find(".size:", at, min(len(t.s), at+2500))
		if i < 0 {
			break
		}
		size, stop, ok := t.sizeAt(i + len(".size:"))
		if !ok {
			break
		}
		next := t.find(".size:", stop, min(len(t.s), stop+2500))
		if next < 0 {
			next = min(len(t.s), stop+1200)
		}
		b := Buffer{Size: size}
		if j := t.find(`opname="`, stop, next); j >= 0 {
			j += len(`opname="`)
			if k := t.find(`"`, j, next); k >= 0 {
				b.Operation = clip(t.rawText(j, k))
			}
		}
		if j := t.find("shape:", stop, next); j >= 0 {
			if k := t.find("[", j, j+16); k >= 0 {
				b.Shape, stop = t.shapeAt(k+1, ']')
			}
		}
		m.Largest = append(m.Largest, b)
		at, end = stop, max(end, stop)
	}
	return end
}

// Quadratic tells a buffer that pairs every token with every other: its last two dimensions are the same and large, or an attention layer made it.
func (b Buffer) Quadratic() bool {
	n := len(b.Shape)
	square := n >= 3 && b.Shape[n-1] >= 512 && b.Shape[n-1] == b.Shape[n-2]
	op := strings.ToLower(b.Operation)
	return square && (strings.Contains(op, "attention") || strings.Contains(op, "attn") || strings.Contains(op, "softmax") || strings.Contains(op, "hqk")) ||
		square && b.Size.Bytes >= 64*units.MiB
}
