package cudnn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"math/bits"
	"slices"
)

// seen are layers that cuDNN was asked about and of which the forest is wrong or not sure, so that they are answered as they were, and not as their neighbours: of each a hash, whether the forest is right about its passes, and
// the formula where it is not. A layer that is not in it is taken for one by chance in one of 150,000 cases.
//
// The format: a line, the checksum of the table it goes with, how many layers there are, rice, where every 128th begins (hash and bit, each as what it is more than the one before), and bits: for every layer, in the order of the hashes, how far its hash is from the one before (the quotient by 2^rice
// in ones and a zero, then the rest), a bit that says that all passes are right, and else for each pass two bits and, where the forest is wrong, the number of the formula, among its labels or among all.
type seen struct {
	count int
	rice  int
	data  []byte
	index []place // of every indexed layer
}

// place is where a layer begins: the hash before it, and its first bit.
type place struct {
	hash uint64
	at   int
}

const (
	seenMagic = "plimsoll seen 2\n"
	hashBits  = 31
	indexed   = 128 // layers between two places
	labelBits = 9
	rareBits  = 14 // any formula
	rare      = 1 << labelBits
	maxSeen   = 1 << 22
)

// What is known of a pass.
const (
	passRight   = iota // the forest names its workspace
	passOther          // another formula does
	passUnknown        // no formula does, or nothing was asked
	passRare           // a formula does that is none of the forest's
)

var errSeen = errors.New("not a list of layers that goes with this table")

// hash tells a convolution from others (FNV-1a, folded).
func (c Conv) hash() uint64 {
	h := uint64(14695981039346656037)
	for _, n := range []int{c.N, c.C, c.H, c.W, c.K, c.P, c.Q, c.R, c.S, c.Depth, c.KernelDepth, c.Stride, c.Pad, c.Dilation, c.Groups, c.Width, int(flag(c.BF16) | flag(c.Last)<<1 | flag(c.Transposed)<<2)} {
		for range 3 {
			h = (h ^ uint64(n&0xff)) * 1099511628211
			n >>= 8
		}
	}
	return (h ^ h>>32) & (1<<hashBits - 1)
}

// find is the formula of a pass that was asked, negative where the forest is right about it; false where it was not asked.
func (s *seen) find(c Conv, role Pass, labels []int) (formula int, ok bool) {
	if s == nil {
		return 0, false
	}
	want := c.hash()
	i, _ := slices.BinarySearchFunc(s.index, want, func(p place, h uint64) int {
		if p.hash < h {
			return -1
		}
		return 1
	})
	i = max(0, i-1)
	r, hash := bitReader{data: s.data, at: s.index[i].at}, s.index[i].hash
	for range min(indexed, s.count-i*indexed) {
		if r.over() {
			return 0, false
		}
		var said Told
		hash, said = s.next(&r, hash)
		if hash > want {
			return 0, false
		}
		if hash == want {
			switch label := said[role]; {
			case label == -1:
				return -1, true
			case label >= rare && label-rare < formulas:
				return label - rare, true
			case label >= 0 && label < len(labels):
				return labels[label], true
			}
			return 0, false
		}
	}
	return 0, false
}

// Told is what is remembered of each pass of a layer: the label, or rare and the formula, -1 where the forest is right and -passUnknown where nothing is known.
type Told [passes]int

// Remembered are the layers of the list that a table has, by their hashes.
func (t *Table) Remembered() map[uint64]Told {
	out := map[uint64]Told{}
	if t.seen == nil {
		return out
	}
	r, hash, said := bitReader{data: t.seen.data}, uint64(0), Told{}
	for range t.seen.count {
		hash, said = t.seen.next(&r, hash)
		out[hash] = said
	}
	return out
}

// next reads a layer.
func (s *seen) next(r *bitReader, hash uint64) (uint64, Told) {
	quotient := uint64(0)
	for !r.over() {
		ones := uint64(bits.LeadingZeros64(^r.peek()))
		r.at += int(min(ones, 56))
		quotient += min(ones, 56)
		if ones < 56 {
			break
		}
	}
	r.take(1)
	hash += quotient<<s.rice | r.take(s.rice)
	said := Told{-1, -1, -1}
	if r.take(1) == 1 {
		return hash, said
	}
	for p := range said {
		switch r.take(2) {
		case passOther:
			said[p] = int(r.take(labelBits))
		case passRare:
			said[p] = rare + int(r.take(rareBits))
		case passUnknown:
			said[p] = -passUnknown
		}
	}
	return hash, said
}

// Remember makes the list of layers that goes with a table, and gives it to the table: those that are kept (Remembered), and of rows those of which so many
// passes are told wrongly and have a formula of the forest, or all that it is not sure of (0).
func (t *Table) Remember(rows []Row, wrong int, kept map[uint64]Told) []byte {
	said := maps.Clone(kept)
	if said == nil {
		said = map[uint64]Told{}
	}
	t.seen, t.known = nil, nil
	for _, row := range rows {
		c, ok := row.Conv()
		measured, has := row.In(Heuristic)
		if !ok || !has {
			continue
		}
		if _, there := said[c.hash()]; there {
			continue // measured twice, or two of one hash
		}
		known, plain, off := Told{}, true, 0
		for _, p := range Passes() {
			label, sure := t.told(c, p, int64(measured.Of(p)))
			known[c.Role(p)] = label
			plain = plain && label == -1 && sure
			if label >= 0 && label < rare {
				off++
			}
		}
		if !plain && off >= wrong { // what all trees know need not be remembered
			said[c.hash()] = known
		}
	}
	data := writeList(t, said)
	if err := t.recall(data); err != nil {
		panic(err) // it was written just now
	}
	return data
}

// writeList gives layers in the form of a list that goes with a table.
func writeList(t *Table, said map[uint64]Told) []byte {
	hashes := slices.Sorted(maps.Keys(said))
	rice := bits.Len64((1<<hashBits)/uint64(max(1, len(hashes)))) - 1 // a gap is as long as this most often
	var out bitWriter
	var index []byte
	last, before := uint64(0), place{}
	for i, h := range hashes {
		if i%indexed == 0 {
			index = binary.AppendUvarint(binary.AppendUvarint(index, last-before.hash), uint64(out.n-before.at))
			before = place{last, out.n}
		}
		writeSeen(&out, h-last, rice, said[h])
		last = h
	}
	data := binary.BigEndian.AppendUint32([]byte(seenMagic), crc32.ChecksumIEEE(t.data))
	data = binary.AppendUvarint(data, uint64(len(hashes)))
	data = binary.AppendUvarint(data, uint64(rice))
	return slices.Concat(data, index, out.data)
}

// told is what is to be remembered of a pass: -1 where the forest is right, the label of the formula that is nearest, -passUnknown where none is near; and whether the trees agree.
func (t *Table) told(c Conv, p Pass, bytes int64) (label int, sure bool) {
	said := t.find(c, p, Heuristic)
	if close(int64(said.Takes), bytes) {
		return -1, said.Sure >= enough
	}
	role := c.Role(p)
	own := newTerms(c, role, t.Card.SMs)
	best, off := -passUnknown, int64(0)
	for i, formula := range t.forests[Heuristic][role].labels {
		if d := max(own.value(formula)-bytes, bytes-own.value(formula)); i < 1<<labelBits && explains(own.value(formula), bytes) && (best < 0 || d < off) {
			best, off = i, d
		}
	}
	if best < 0 {
		best = own.rarely(bytes)
	}
	return best, false
}

// rarely is rare and the first formula that tells a workspace to the byte, but for counters and alignment; -passUnknown where none does.
func (t *terms) rarely(bytes int64) int {
	for formula := range formulas {
		if exactly(t.value(formula), bytes) {
			return rare + formula
		}
	}
	return -passUnknown
}

// enough is the share of trees whose agreement is believed.
const enough = 0.8

func writeSeen(out *bitWriter, gap uint64, rice int, said Told) {
	for range gap >> rice {
		out.put(1, 1)
	}
	out.put(0, 1)
	out.put(gap&(1<<rice-1), rice)
	if said == (Told{-1, -1, -1}) {
		out.put(1, 1)
		return
	}
	out.put(0, 1)
	for _, label := range said {
		switch {
		case label >= rare:
			out.put(passRare, 2)
			out.put(uint64(label-rare), rareBits)
		case label >= 0:
			out.put(passOther, 2)
			out.put(uint64(label), labelBits)
		case label == -passUnknown:
			out.put(passUnknown, 2)
		default:
			out.put(passRight, 2)
		}
	}
}

// recall gives a table the list that Remember made for it; anything else is refused.
func (t *Table) recall(data []byte) error {
	body, ok := bytes.CutPrefix(data, []byte(seenMagic))
	if !ok || len(body) < 4 || binary.BigEndian.Uint32(body) != crc32.ChecksumIEEE(t.data) {
		return errSeen
	}
	r := reader{data: body[4:]}
	s := &seen{count: r.count(maxSeen), rice: r.count(hashBits)}
	var last place
	for range (s.count + indexed - 1) / indexed {
		last = place{last.hash + uint64(r.count(1<<hashBits)), last.at + r.count(maxBits)}
		if r.bad || last.at > maxBits {
			return errSeen
		}
		s.index = append(s.index, last)
	}
	s.data = r.data
	if r.bad || last.at > 8*len(s.data) {
		return errSeen
	}
	if s.count > 0 {
		t.seen, t.known = s, nil
	}
	return nil
}
