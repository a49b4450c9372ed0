package viewdata

import (
	"cmp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// By is a way to stack the curve.
type By string

// The ways there are. Match stacks what a word is found in against the rest.
const (
	ByCategory By = "category"
	ByLine     By = "line"
	ByPhase    By = "phase"
	ByHolder   By = "holder" // who keeps what is alive at the end
	ByModule   By = "module" // of the model, for what belongs to one
	Match      By = "match"
)

// Groups lists the ways that need no word: those by holder where the probe looked.
func (x *Index) Groups() []By {
	if x.T.Holders == nil {
		return []By{ByCategory, ByLine, ByPhase}
	}
	return []By{ByCategory, ByLine, ByPhase, ByHolder, ByModule}
}

// Waiting is the band of memory the program gave up and another stream may still use.
const Waiting = "waiting for another stream"

// block is how many events share a summary.
const block = 512

// Grouping sorts allocations into bands and holds the summaries of blocks of events. Sums are kept band by band.
type Grouping struct {
	By    By
	Bands []string

	tape  *tape.Tape
	band  []uint8 // by allocation
	start []int64 // by band, before the first event
	// For each block, by band: what was in use at its highest instant and after its last event.
	highest, after []int64
	high, low      []int64 // the total at its highest and lowest instant
	at             []uint32
}

// Group makes a grouping. It looks at every event once; callers keep it.
func (x *Index) Group(by By, word string) *Grouping {
	if !slices.Contains(x.Groups(), by) && by != Match {
		by = ByCategory
	}
	g := &Grouping{By: by, tape: &x.T.Tape, band: make([]uint8, len(x.T.Died))}
	switch by {
	case ByLine:
		x.lines(g)
	case ByPhase:
		x.phases(g)
	case ByHolder:
		x.holders(g)
	case ByModule:
		x.modules(g)
	case Match:
		x.found(g, word)
	default:
		g.By = ByCategory
		for c := range tape.Categories {
			g.Bands = append(g.Bands, tape.Category(c).String())
		}
		for id, c := range x.T.Category {
			g.band[id] = uint8(c)
		}
	}
	g.Bands = append(g.Bands, Waiting)
	g.summarize()
	return g
}

// maxLines is how many lines get a band of their own.
const maxLines = 9

// lines gives the lines that hold most at the peak a band each, largest first, and one to the rest.
func (x *Index) lines(g *Grouping) {
	bytes := map[string]units.Bytes{}
	for _, group := range x.T.ByStack(x.T.Peak.Event) {
		bytes[x.lineOf(group.Stack)] += group.Bytes
	}
	names := make([]string, 0, len(bytes))
	for name := range bytes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(bytes[b], bytes[a]), cmp.Compare(a, b)) })
	g.Bands = append(names[:min(len(names), maxLines)], "other lines")
	index := map[string]uint8{}
	for i, name := range g.Bands {
		index[name] = uint8(i)
	}
	byStack := make([]uint8, x.T.Origins.Stacks.Len())
	for id := range byStack {
		band, ok := index[x.lineOf(snapshot.StackID(id))]
		if !ok {
			band = uint8(len(g.Bands) - 1)
		}
		byStack[id] = band
	}
	for id, stack := range x.T.Stack {
		g.band[id] = byStack[stack]
	}
}

// lineOf names the user's line of a stack.
func (x *Index) lineOf(stack snapshot.StackID) string {
	if f, ok := x.T.Origins.UserFrame(stack); ok {
		return callsite.Describe(f)
	}
	return x.nameless(stack)
}

// nameless says why a stack has no line.
func (x *Index) nameless(stack snapshot.StackID) string {
	switch {
	case !x.T.Origins.Recorded:
		return "(no stacks recorded)"
	case stack == 0:
		if x.T.Complete {
			return "(autograd engine)"
		}
		return "(autograd engine, or before the history)"
	}
	return "(no Python frame)"
}

// phaseNames are for people; the contract's names put several under "other".
func phaseNames() []string {
	return []string{"other", "load", "data", "forward", "backward", "optimizer", "save", "own code"}
}

func (x *Index) phases(g *Grouping) {
	g.Bands = phaseNames()
	for id, p := range x.T.Phase {
		g.band[id] = uint8(p)
	}
}

func (x *Index) found(g *Grouping, word string) {
	g.Bands = []string{"everything else", "found"}
	match := x.matches(word)
	for id, stack := range x.T.Stack {
		if match[stack] || x.heldAs(id, strings.ToLower(word)) {
			g.band[id] = 1
		}
	}
}

// waiting is the last band.
func (g *Grouping) waiting() int { return len(g.Bands) - 1 }

// apply changes the sums by one event and returns the change of their total. What is in use follows PyTorch's
// requested_bytes, which falls when the block returns to its pool (CUDACachingAllocator.cpp, free_block).
func (g *Grouping) apply(now []int64, i int) int64 {
	e := &g.tape.Events[i]
	size := int64(e.Size)
	switch e.Kind {
	case tape.Alloc:
		now[g.band[e.ID]] += size
		return size
	case tape.Free:
		now[g.band[e.ID]] -= size
		if e.Deferred {
			now[g.waiting()] += size
			return 0
		}
		return -size
	case tape.FreeCompleted:
		now[g.waiting()] -= size
		return -size
	}
	return 0
}

func (g *Grouping) summarize() {
	n, bands := len(g.tape.Events), len(g.Bands)
	g.start = make([]int64, bands)
	for _, l := range g.tape.Initial {
		g.start[g.band[l.ID]] += int64(l.Size)
	}
	blocks := n / block // the rest is short enough to look at
	g.highest, g.after = make([]int64, 0, blocks*bands), make([]int64, 0, blocks*bands)
	g.high, g.low, g.at = make([]int64, blocks), make([]int64, blocks), make([]uint32, blocks)
	now := slices.Clone(g.start)
	top := make([]int64, bands)
	total := sum(now)
	for b := range blocks {
		first := true
		for i := b * block; i < (b+1)*block; i++ {
			total += g.apply(now, i)
			if first || total > g.high[b] {
				g.high[b], g.at[b] = total, uint32(i)
				copy(top, now)
			}
			if first || total < g.low[b] {
				g.low[b] = total
			}
			first = false
		}
		g.highest = append(g.highest, top...)
		g.after = append(g.after, now...)
	}
}

// before gives the sums just before a tape event.
func (g *Grouping) before(event int) []int64 {
	b := min(event/block, len(g.high))
	now := slices.Clone(g.start)
	if b > 0 {
		copy(now, g.after[(b-1)*len(g.Bands):b*len(g.Bands)])
	}
	for i := b * block; i < event; i++ {
		g.apply(now, i)
	}
	return now
}

func sum(all []int64) int64 {
	var s int64
	for _, v := range all {
		s += v
	}
	return s
}
