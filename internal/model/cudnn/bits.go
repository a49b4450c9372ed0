package cudnn

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// bitWriter appends numbers of any width, the highest bit first.
type bitWriter struct {
	data []byte
	n    int // bits written
}

func (w *bitWriter) put(v uint64, width int) {
	for width > 0 {
		if w.n%8 == 0 {
			w.data = append(w.data, 0)
		}
		free := 8 - w.n%8
		some := min(free, width)
		width -= some
		w.data[w.n/8] |= byte(v>>width&(1<<some-1)) << (free - some)
		w.n += some
	}
}

// join appends what another has written.
func (w *bitWriter) join(other *bitWriter) {
	r := bitReader{data: other.data}
	for left := other.n; left > 0; left -= 32 {
		w.put(r.take(min(left, 32)), min(left, 32))
	}
}

// bitReader reads what a bitWriter wrote; beyond the end there are zeros.
type bitReader struct {
	data []byte
	at   int
}

// peek are the next bits, 57 or more, from the highest on.
func (r *bitReader) peek() uint64 {
	from := r.at >> 3
	if from+8 <= len(r.data) {
		return binary.BigEndian.Uint64(r.data[from:]) << (r.at & 7)
	}
	var last [8]byte
	copy(last[:], r.data[min(from, len(r.data)):])
	return binary.BigEndian.Uint64(last[:]) << (r.at & 7)
}

// take reads a number of at most 32 bits.
func (r *bitReader) take(width int) uint64 {
	v := r.peek() >> (64 - width)
	r.at += width
	return v
}

func (r *bitReader) over() bool { return r.at > 8*len(r.data) }

// prefixCode is a canonical Huffman code: the lengths of its words say what they are.
type prefixCode struct {
	symbols []uint16       // by length, then by number
	counts  [maxWord]int32 // words of each length
	short   [1 << shortWord]struct {
		symbol uint16
		length uint8 // 0: none of the short ones
	}
}

const (
	maxWord   = 33
	shortWord = 8 // words of so many bits are found at once
)

// codeOf makes the code for symbols that occur so many times; those that do not occur have no word. It gives the length of every symbol's word.
func codeOf(counts []int) []byte {
	type tree struct {
		weight  int
		symbols []int
	}
	var trees []tree
	lengths := make([]byte, len(counts))
	for s, n := range counts {
		if n > 0 {
			trees = append(trees, tree{n, []int{s}})
		}
	}
	if len(trees) == 1 {
		lengths[trees[0].symbols[0]] = 1
	}
	for len(trees) > 1 { // the two lightest become one, whose symbols all get a bit more
		slices.SortStableFunc(trees, func(a, b tree) int { return cmp.Compare(b.weight, a.weight) })
		a, b := trees[len(trees)-1], trees[len(trees)-2]
		trees = append(trees[:len(trees)-2], tree{a.weight + b.weight, slices.Concat(a.symbols, b.symbols)})
		for _, s := range trees[len(trees)-1].symbols {
			lengths[s]++
		}
	}
	return lengths
}

// newCode is the code whose words have such lengths; false where there is none.
func newCode(lengths []byte) (c prefixCode, ok bool) {
	for s, n := range lengths {
		if int(n) >= maxWord {
			return c, false
		}
		if n > 0 {
			c.counts[n]++
			c.symbols = append(c.symbols, uint16(s))
		}
	}
	slices.SortStableFunc(c.symbols, func(a, b uint16) int { return cmp.Compare(lengths[a], lengths[b]) })
	room := int64(1)
	for _, n := range c.counts[1:] {
		if room = 2*room - int64(n); room < 0 {
			return c, false // more words than fit
		}
	}
	word, index := 0, 0
	for length := 1; length <= shortWord; length++ {
		for range c.counts[length] {
			for i := range 1 << (shortWord - length) {
				short := &c.short[word<<(shortWord-length)+i]
				short.symbol, short.length = c.symbols[index], uint8(length)
			}
			word, index = word+1, index+1
		}
		word <<= 1
	}
	return c, true
}

// words are the words of all symbols.
func (c *prefixCode) words() map[int]bitWriter {
	out := map[int]bitWriter{}
	word, index := uint64(0), 0
	for length := 1; length < maxWord; length++ {
		for range c.counts[length] {
			var w bitWriter
			w.put(word, length)
			out[int(c.symbols[index])] = w
			word++
			index++
		}
		word <<= 1
	}
	return out
}

// read is the next symbol; the first one where the bits are no word.
func (c *prefixCode) read(r *bitReader) int {
	next := r.peek()
	if s := &c.short[next>>(64-shortWord)]; s.length > 0 {
		r.at += int(s.length)
		return int(s.symbol)
	}
	word, first, index := int64(0), int64(0), int64(0)
	for length := 1; length < maxWord; length++ {
		word = word<<1 | int64(r.take(1))
		count := int64(c.counts[length])
		if word-first < count {
			return int(c.symbols[index+word-first])
		}
		index += count
		first = (first + count) << 1
	}
	return 0
}

// width is how many bits tell n things apart.
func width(n int32) int { return bits.Len32(uint32(max(n, 1) - 1)) }
