package viewdata

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Map is the memory reserved by PyTorch at an instant, by address.
type Map struct {
	Instant
	Used     units.Bytes `json:"used"`   // by what is alive
	Cached   units.Bytes `json:"cached"` // in segments nothing lives in: it can be given back
	Pinned   units.Bytes `json:"pinned"` // unused, in segments that mostly lie empty and cannot be given back
	Segments []Segment   `json:"segments"`
	More     int         `json:"more_segments"`
}

// Segment is a contiguous range reserved by PyTorch. Pages of an expandable segment that touch are one.
type Segment struct {
	Address    string      `json:"address"`
	Size       units.Bytes `json:"size"`
	Used       units.Bytes `json:"used"`
	Count      int         `json:"count"` // allocations in it
	Expandable bool        `json:"expandable"`
	Private    bool        `json:"private"` // of a private pool, as CUDA graphs have
	Pin        int         `json:"pin"`     // allocation that dies last, in a segment that mostly lies empty; -1: none
	Blocks     []Block     `json:"blocks"`
}

// Block is an allocation, or several small ones side by side.
type Block struct {
	Offset   units.Bytes `json:"o"`
	Size     units.Bytes `json:"s"`
	ID       uint32      `json:"i"` // the first
	Count    int         `json:"n"`
	Category string      `json:"c"`
}

// Map looks at the moment just after an event.
func (x *Index) Map(event, maxSegments int) Map {
	m := Map{Instant: x.instant(event), Segments: []Segment{}}
	ranges := x.ranges(m.Event)
	ids := x.byAddress(x.tapeFrom(m.Event+1) - 1)
	k := 0
	for _, r := range ranges {
		for k < len(ids) && x.T.Addr[ids[k]] < r.start {
			k++
		}
		first := k
		for k < len(ids) && x.T.Addr[ids[k]] < r.end {
			k++
		}
		m.add(x.segment(r, ids[first:k]))
	}
	slices.SortStableFunc(m.Segments, func(a, b Segment) int { return cmp.Compare(b.Size, a.Size) })
	if len(m.Segments) > maxSegments {
		m.More = len(m.Segments) - maxSegments
		m.Segments = m.Segments[:maxSegments]
	}
	return m
}

func (m *Map) add(s Segment) {
	m.Used += s.Used
	m.InUse = m.Used
	switch {
	case s.Count == 0:
		m.Cached += s.Size
	case s.Pin >= 0:
		m.Pinned += s.Size - s.Used
	}
	m.Segments = append(m.Segments, s)
}

// byAddress lists what is alive just after a tape event by address.
func (x *Index) byAddress(event int) []uint32 {
	var ids []uint32
	x.each(event, func(id int) { ids = append(ids, uint32(id)) })
	slices.SortStableFunc(ids, func(a, b uint32) int { return cmp.Compare(x.T.Addr[a], x.T.Addr[b]) })
	return ids
}

// visible is how many parts of a segment a screen can tell apart.
const visible = 512

// segment describes a range with the allocations in it. The one that dies last pins a range that mostly lies empty,
// unless its pages can be given back one by one.
func (x *Index) segment(r span, ids []uint32) Segment {
	size := units.Bytes(r.end - r.start)
	s := Segment{
		Address: fmt.Sprintf("%#x", r.start), Size: size, Count: len(ids),
		Expandable: r.expandable, Private: r.private, Pin: -1, Blocks: []Block{},
	}
	small := size / visible
	last := -1
	for _, id := range ids {
		at := units.Bytes(x.T.Addr[id] - r.start)
		bytes := min(x.T.Size(int(id)), size-at)
		s.Used += bytes
		if last < 0 || x.T.Died[id] > x.T.Died[last] {
			last = int(id)
		}
		category := x.T.Category[id].String()
		if n := len(s.Blocks); n > 0 {
			if b := &s.Blocks[n-1]; b.Category == category && bytes < small && at-b.Offset-b.Size < small {
				b.Size = max(b.Size, at+bytes-b.Offset)
				b.Count++
				continue
			}
		}
		s.Blocks = append(s.Blocks, Block{Offset: at, Size: bytes, ID: id, Count: 1, Category: category})
	}
	if last >= 0 && !r.expandable && size-s.Used > s.Used {
		s.Pin = last
	}
	return s
}

// span is a range of addresses that is held.
type span struct {
	start, end          uint64
	expandable, private bool
	owner               int // who made it; adjacent segments stay apart
}

// ranges finds what was held just after an event: what is held at the end, with every later change undone. The first change after the instant that touches
// an address tells whether it was held before: it was, where it is given back. Addresses that nothing touches later are
// as they are at the end.
func (x *Index) ranges(event int) []span {
	t := x.T
	from := event + 1
	later := x.segments[sort.Search(len(x.segments), func(i int) bool { return int(x.segments[i]) >= from }):]
	var all []span
	for n, i := range later {
		a := t.Trace.Action[i]
		all = append(all, span{
			start: t.Trace.Addr[i], end: t.Trace.Addr[i] + uint64(max(0, t.Trace.Size[i])),
			expandable: a == snapshot.ActionSegmentMap || a == snapshot.ActionSegmentUnmap, owner: n,
		})
	}
	gives := func(n int) bool {
		return n >= len(later) || t.Trace.Action[later[n]] == snapshot.ActionSegmentFree || t.Trace.Action[later[n]] == snapshot.ActionSegmentUnmap
	}
	for i := range t.Snapshot.Segments {
		s := &t.Snapshot.Segments[i]
		if s.Device == t.Device && s.TotalSize > 0 {
			all = append(all, span{start: s.Address, end: s.Address + uint64(s.TotalSize), expandable: s.Expandable, private: s.PoolID != [2]int64{}, owner: len(all)})
		}
	}
	return join(paint(all, gives))
}

// paint gives every address to the first range that has it, and keeps those whose owner says that they were held.
func paint(all []span, kept func(owner int) bool) []span {
	var edges []uint64
	for _, s := range all {
		if s.end > s.start {
			edges = append(edges, s.start, s.end)
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	next := make([]int, len(edges)+1) // the first piece from here on that is not painted
	for i := range next {
		next[i] = i
	}
	find := func(i int) int {
		for next[i] != i {
			next[i] = next[next[i]]
			i = next[i]
		}
		return i
	}
	var out []span
	for _, s := range all {
		if s.end <= s.start {
			continue
		}
		first, _ := slices.BinarySearch(edges, s.start)
		end, _ := slices.BinarySearch(edges, s.end)
		for i := find(first); i < end; i = find(i) {
			next[i] = i + 1
			if kept(s.owner) {
				piece := s
				piece.start, piece.end = edges[i], edges[i+1]
				out = append(out, piece)
			}
		}
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	return out
}

// join puts pieces of one segment together, and touching pages of expandable ones.
func join(pieces []span) []span {
	var out []span
	for _, p := range pieces {
		if n := len(out); n > 0 && out[n-1].end == p.start && (out[n-1].owner == p.owner || out[n-1].expandable && p.expandable) {
			out[n-1].end = p.end
			continue
		}
		out = append(out, p)
	}
	return out
}
