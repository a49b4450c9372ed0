package viewdata

import (
	"sort"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Span is a stretch of the recording in so many columns of a screen.
type Span struct {
	ByTime   bool    // From and To are microseconds since the first event, not events
	From, To float64 // To is exclusive
	Columns  int
}

// Curve is memory over a span, one value a column. Where a column holds many events, Bands tells the instant of it at which most was in use.
type Curve struct {
	By      By        `json:"by"`
	Names   []string  `json:"names"`
	ByTime  bool      `json:"by_time"`
	From    float64   `json:"from"`
	To      float64   `json:"to"`
	Columns int       `json:"columns"`
	Exact   bool      `json:"exact"` // a column is a single event
	Bands   [][]int64 `json:"bands"` // by name, by column
	Low     []int64   `json:"low"`   // the least in use in the column
	High    []int64   `json:"high"`
	Event   []int     `json:"event"` // of High
	// Phases names what the program was doing; Phase is an index into it for each column.
	Phases []string `json:"phases"`
	Phase  []uint8  `json:"phase"`
	// Reserved is the most reserved by PyTorch in the column.
	Reserved []units.Bytes `json:"reserved"`
}

// maxColumns bounds an answer; no screen is wider.
const maxColumns = 1 << 16

// Curve answers a span.
func (x *Index) Curve(g *Grouping, s Span) Curve {
	s, bounds := x.bounds(s)
	n := len(bounds) - 1
	c := Curve{
		By: g.By, Names: g.Bands, ByTime: s.ByTime, From: s.From, To: s.To, Columns: n,
		Exact: !s.ByTime && bounds[n]-bounds[0] == n,
		Bands: make([][]int64, len(g.Bands)), Low: make([]int64, n), High: make([]int64, n), Event: make([]int, n),
	}
	for b := range c.Bands {
		c.Bands[b] = make([]int64, n)
	}
	first := x.tapeFrom(bounds[0])
	w := sweep{g: g, now: g.before(first), top: make([]int64, len(g.Bands))}
	w.total = sum(w.now)
	for i := range n {
		next := x.tapeFrom(bounds[i+1])
		w.column(first, next)
		first = next
		for b, v := range w.top {
			c.Bands[b][i] = max(0, v)
		}
		c.Low[i], c.High[i], c.Event[i] = w.low, w.high, bounds[i]
		if w.at >= 0 {
			c.Event[i] = x.recorded(w.at)
		}
	}
	c.Reserved = x.reserved(bounds)
	c.Phases, c.Phase = phaseNames(), x.doing(bounds)
	return c
}

// doing tells what the program was doing in each column: what the stack of the first allocation in it says, and where there is
// none, of the last before. After the last allocation of all nobody knows.
func (x *Index) doing(bounds []int) []uint8 {
	out := make([]uint8, len(bounds)-1)
	var last callsite.Phase
	for i := range out {
		first, end := x.tapeFrom(bounds[i]), x.tapeFrom(bounds[i+1])
		if first > x.lastAlloc {
			break
		}
		for k := first; k < min(end, first+block); k++ {
			if e := &x.T.Tape.Events[k]; e.Kind == tape.Alloc {
				last = x.T.Phase[e.ID]
				break
			}
		}
		out[i] = uint8(last)
	}
	return out
}

// bounds cuts a span into columns: column i is the events from bounds[i] to bounds[i+1].
func (x *Index) bounds(s Span) (Span, []int) {
	n := x.Events()
	s.ByTime = s.ByTime && x.T.Trace.TimeUS != nil
	end := float64(n)
	if s.ByTime {
		end = float64(x.Time(n-1) + 1)
	}
	if !(s.To > s.From) || s.From >= end || s.To <= 0 { // also where either is not a number
		s.From, s.To = 0, end
	}
	s.From, s.To = max(0, s.From), min(end, s.To)
	s.Columns = max(1, min(s.Columns, maxColumns))
	if !s.ByTime {
		s.From, s.To = float64(int(s.From)), float64(min(n, int(s.To+0.999999)))
		s.Columns = max(1, min(s.Columns, int(s.To-s.From)))
	}
	bounds := make([]int, s.Columns+1)
	for i := range bounds {
		at := s.From + (s.To-s.From)*float64(i)/float64(s.Columns)
		if s.ByTime {
			bounds[i] = x.eventAfter(int64(at) - 1)
		} else {
			bounds[i] = int(at)
		}
		bounds[i] = min(n, bounds[i])
		if i > 0 {
			bounds[i] = max(bounds[i], bounds[i-1])
		}
	}
	return s, bounds
}

// sweep walks the events of a span once, whole blocks by their summaries.
type sweep struct {
	g         *Grouping
	now, top  []int64
	total     int64
	low, high int64
	at        int // tape event of high; -1: nothing happened in the column
}

// column looks at the tape events from a to b. An empty column shows what was in use already.
func (w *sweep) column(a, b int) {
	if a == b {
		w.low, w.high, w.at = w.total, w.total, -1
		copy(w.top, w.now)
		return
	}
	bands := len(w.now)
	first := true
	for i := a; i < b; {
		if k := i / block; i%block == 0 && i+block <= b {
			if first || w.g.high[k] > w.high {
				w.high, w.at = w.g.high[k], int(w.g.at[k])
				copy(w.top, w.g.highest[k*bands:])
			}
			if first || w.g.low[k] < w.low {
				w.low = w.g.low[k]
			}
			copy(w.now, w.g.after[k*bands:])
			w.total = sum(w.now)
			first = false
			i += block
			continue
		}
		w.total += w.g.apply(w.now, i)
		if first || w.total > w.high {
			w.high, w.at = w.total, i
			copy(w.top, w.now)
		}
		if first || w.total < w.low {
			w.low = w.total
		}
		first = false
		i++
	}
}

// reserved gives the most held in each column.
func (x *Index) reserved(bounds []int) []units.Bytes {
	out := make([]units.Bytes, len(bounds)-1)
	k := sort.Search(len(x.held)-1, func(i int) bool { return int(x.held[1+i].event) >= bounds[0] })
	for i := range out {
		out[i] = x.held[k].bytes
		for first := true; k+1 < len(x.held) && int(x.held[k+1].event) < bounds[i+1]; first = false {
			k++
			if now := x.held[k].bytes; now > out[i] || first && int(x.held[k].event) == bounds[i] {
				out[i] = now
			}
		}
	}
	return out
}
