package alloc

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// anyConf draws settings a version accepts, as text, so that the parser takes part.
func anyConf(t *rapid.T, v torch.Version) Conf {
	text := ""
	add := func(format string, args ...any) {
		if text != "" {
			text += ","
		}
		text += fmt.Sprintf(format, args...)
	}
	if v.AtLeast(torch.V2_1) && rapid.Bool().Draw(t, "expandable") {
		add("expandable_segments:True")
	}
	if rapid.Bool().Draw(t, "split") {
		add("max_split_size_mb:%d", rapid.IntRange(21, 200).Draw(t, "max split"))
	}
	if rapid.Bool().Draw(t, "gc") {
		add("garbage_collection_threshold:0.%d", rapid.IntRange(1, 9).Draw(t, "threshold"))
	}
	switch rapid.IntRange(0, 2).Draw(t, "rounding") {
	case 1:
		add("roundup_power2_divisions:%d", 1<<rapid.IntRange(1, 4).Draw(t, "divisions"))
	case 2:
		if v.AtLeast(torch.V2_0) {
			add("roundup_power2_divisions:[1:2,16:4,>:8]")
		}
	}
	if v.AtLeast(torch.V2_11) && rapid.Bool().Draw(t, "segment") {
		if c, err := ParseConf(text+",large_segment_size_mb:16", v); err == nil && text != "" {
			return c
		}
	}
	c, err := ParseConf(text, v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func anyPolicy(t *rapid.T) Policy {
	v := rapid.SampledFrom(append(torch.Distinct(), torch.V1_12, torch.V1_13, torch.V2_1, torch.V2_15)).Draw(t, "torch")
	p := Policy{Torch: v, Conf: anyConf(t, v), Total: 2 * units.GiB}
	if rapid.Bool().Draw(t, "capped") {
		p.Cap = units.Bytes(rapid.IntRange(40, 1500).Draw(t, "cap")) * units.MiB
	}
	if rapid.Bool().Draw(t, "device") {
		p.Device = units.Bytes(rapid.IntRange(40, 1500).Draw(t, "device MiB")) * units.MiB
	}
	if rapid.Bool().Draw(t, "increasing") {
		p.Addresses = Increasing()
	}
	return p
}

func anySize(t *rapid.T) units.Bytes {
	limit := rapid.SampledFrom([]int{600, 1 << 12, 1 << 20, 1 << 21, 11 << 20, 80 << 20, 300 << 20}).Draw(t, "limit")
	return units.Bytes(rapid.IntRange(1, limit).Draw(t, "size"))
}

func TestAnyTapeUnderAnySettingsKeepsTheBooksStraight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := New(anyPolicy(t))
		var live, waiting []uint32
		next := uint32(0)
		for range rapid.IntRange(1, 120).Draw(t, "events") {
			switch op := rapid.IntRange(0, 19).Draw(t, "op"); {
			case op == 0:
				a.EmptyCache()
			case op < 8 && len(live) > 0:
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				deferred := op == 7
				a.Free(live[i], deferred)
				if deferred {
					waiting = append(waiting, live[i])
				}
				live = append(live[:i], live[i+1:]...)
			case op == 8 && len(waiting) > 0:
				a.FreeCompleted(waiting[0])
				waiting = waiting[1:]
			default:
				stream, pool := uint16(rapid.IntRange(0, 1).Draw(t, "stream")), uint16(rapid.IntRange(0, 8).Draw(t, "pool")/8)
				if a.Malloc(next, anySize(t), stream, pool) {
					live = append(live, next)
				}
				next++
			}
			mustHold(t, a)
		}
		for _, id := range live {
			a.Free(id, false)
		}
		for _, id := range waiting {
			a.FreeCompleted(id)
		}
		mustHold(t, a)
		if s := a.Stats(); s.Allocated != 0 || s.Active != 0 || s.Requested != 0 {
			t.Fatalf("everything is freed, yet %+v", s)
		}
		a.ReleasePool(1)
		a.EmptyCache()
		mustHold(t, a)
		if s := a.Stats(); s.Reserved != 0 || s.Segments != 0 {
			t.Fatalf("everything is released, yet %+v", s)
		}
	})
}

func mustHold(t *rapid.T, a *Allocator) {
	t.Helper()
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	s := a.Stats()
	if s.Allocated > s.Active || s.Active > s.Reserved || s.Requested > s.Active {
		t.Fatalf("requested ≤ active, allocated ≤ active ≤ reserved does not hold: %+v", s)
	}
	if d := a.policy.Device; d > 0 && s.Reserved > d {
		t.Fatalf("%v reserved on a device of %v", s.Reserved, d)
	}
}

func TestTheFreeSetIsASortedSet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s freeSet
		model := map[item]bool{}
		for i := range rapid.IntRange(0, 600).Draw(t, "operations") {
			it := item{units.Bytes(rapid.IntRange(0, 30).Draw(t, "size")) << rapid.IntRange(0, 40).Draw(t, "octave"), rank{
				addr:  uint64(rapid.IntRange(0, 30).Draw(t, "addr")),
				order: uint32(rapid.IntRange(0, 1).Draw(t, "order")),
				block: 1,
			}}
			if model[it] {
				s.remove(it)
				delete(model, it)
			} else {
				s.insert(it)
				model[it] = true
			}
			if s.n != len(model) {
				t.Fatalf("after %d operations %d items, want %d", i, s.n, len(model))
			}
		}
		n, last := 0, item{size: -1}
		for p := s.seek(item{}); s.at(p) != 0; p = s.next(p) {
			it := s.bins[p.bin].first
			if p.beyond {
				it = s.bins[p.bin].rest.runs[p.run].item(p.i)
			}
			if !last.less(it) || !model[it] {
				t.Fatalf("%v follows %v", it, last)
			}
			n, last = n+1, it
		}
		if n != len(model) {
			t.Fatalf("%d items in order, want %d", n, len(model))
		}
	})
}
