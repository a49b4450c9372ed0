package course

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// sizes of requests: both pools, what is rounded, and what has a segment of its own.
var sizes = rapid.SampledFrom([]units.Bytes{300, 512, 4 * units.KiB, 700 * units.KiB, units.MiB + 1, 3 * units.MiB, 9 * units.MiB, 15 * units.MiB, 32 * units.MiB})

func keyed(kind Kind, n int) key {
	return key{kind, tape.Owner{Category: tape.Gradients, Op: string(rune('a' + n))}, 0}
}

// drawTurn makes a turn that frees some of what earlier ones left, allocates and frees, and leaves something.
func drawTurn(t *rapid.T, kind Kind) *Turn {
	out := &Turn{kind: kind}
	held := rapid.IntRange(0, 5).Draw(t, "held")
	forgets := func(n int) {
		out.ops = append(out.ops, forget|op(len(out.gets)))
		out.gets = append(out.gets, keyed(kind, n))
	}
	late := rapid.Bool().Draw(t, "late") // one of them is freed only after the first allocations
	for n := range held {
		if n > 0 || !late {
			forgets(n)
		}
	}
	var live []int
	take1 := func(verb op) {
		live = append(live, len(out.sizes))
		out.ops = append(out.ops, verb|op(len(out.sizes)))
		out.sizes = append(out.sizes, sizes.Draw(t, "size"))
	}
	for range rapid.IntRange(1, 12).Draw(t, "events") {
		switch pick := rapid.IntRange(0, 4).Draw(t, "event"); {
		case pick == 0 && len(live) > 0:
			i := rapid.IntRange(0, len(live)-1).Draw(t, "freed")
			out.ops = append(out.ops, drop|op(live[i]))
			live = append(live[:i], live[i+1:]...)
		case pick == 1:
			take1(elastic)
			out.ops = append(out.ops, drop|op(live[len(live)-1]))
			live = live[:len(live)-1]
		default:
			take1(take)
		}
	}
	if held > 0 && late {
		forgets(0)
	}
	for i, n := range live {
		if i < held {
			out.left = append(out.left, left{n, keyed(kind, i)})
			continue
		}
		out.ops = append(out.ops, drop|op(n))
	}
	return out
}

func drawPolicy(t *rapid.T) alloc.Policy {
	p := alloc.Policy{Torch: rapid.SampledFrom([]torch.Version{torch.V2_0, torch.V2_11, torch.V2_13}).Draw(t, "torch")}
	p.Conf.Expandable = rapid.Bool().Draw(t, "expandable")
	if rapid.Bool().Draw(t, "limited") {
		p.Device = units.Bytes(rapid.IntRange(120, 400).Draw(t, "limit")) * units.MiB
	}
	return p
}

// TestACourseThatRemembersIsTheCourseThatPlays compares a course with one that plays every turn.
func TestACourseThatRemembersIsTheCourseThatPlays(t *testing.T) {
	t.Parallel()
	known := 0
	rapid.Check(t, func(t *rapid.T) {
		begin := &tape.Tape{Owners: []tape.Owner{{Category: tape.Parameters}}, Allocs: 3}
		for id := range uint32(3) {
			begin.Events = append(begin.Events, tape.Event{Kind: tape.Alloc, ID: id, Size: sizes.Draw(t, "parameter")})
		}
		policy := drawPolicy(t)
		fast, _ := Start(policy, begin, 3)
		slow, _ := Start(policy, begin, 3)
		slow.off = true
		var turns, replayed []*Bound
		for i := range rapid.IntRange(1, 4).Draw(t, "turns") {
			turn := drawTurn(t, Kind(i%2))
			turns, replayed = append(turns, fast.Bind(turn)), append(replayed, slow.Bind(turn))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.IntRange(0, len(turns)+1).Draw(t, "next")
			switch n {
			case len(turns):
				fast.EmptyCache()
				slow.EmptyCache()
				continue
			case len(turns) + 1:
				fast.Forget(Evaluation)
				slow.Forget(Evaluation)
				continue
			}
			got, want := fast.Play(turns[n]), slow.Play(replayed[n])
			got.Failure, want.Failure = alloc.Failure{Segment: got.Failure.Segment}, alloc.Failure{Segment: want.Failure.Segment}
			if got != want {
				t.Fatalf("turn %d: remembered %+v, played %+v", n, got, want)
			}
			if got.Failed {
				break
			}
		}
		known += fast.hits
		if fast.real {
			if err := fast.a.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if known == 0 {
		t.Error("no turn was ever remembered")
	}
	t.Logf("%d turns were known", known)
}

// TestAKnownTurnLeavesTheAllocatorWhereItBegan: a turn that frees its way into a known state is not played, so the next one must not take the allocator to
// be where it was before those frees.
func TestAKnownTurnLeavesTheAllocatorWhereItBegan(t *testing.T) {
	t.Parallel()
	begin := &tape.Tape{Owners: []tape.Owner{{Category: tape.Parameters}}, Allocs: 1, Events: []tape.Event{{Kind: tape.Alloc, Size: 300}}}
	passing := func() *Turn { return &Turn{kind: Training, ops: []op{take, drop}, sizes: []units.Bytes{300}} }
	leaving := &Turn{
		kind: Evaluation, ops: []op{forget, take}, sizes: []units.Bytes{300},
		gets: []key{keyed(Evaluation, 0)}, left: []left{{0, keyed(Evaluation, 0)}},
	}
	c, _ := Start(alloc.Policy{Torch: torch.V2_11}, begin, 1)
	a, b, other := c.Bind(passing()), c.Bind(leaving), c.Bind(passing())
	for _, turn := range []*Bound{b, a, a, b} {
		c.Play(turn)
	}
	if got := c.Play(other).Allocated; got != 3*512 {
		t.Errorf("what was there, what a turn left and its own block come to %v", got)
	}
}
