package watch_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/live/simgpu"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/units"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func oneCard(total units.Bytes) []watch.Card {
	return []watch.Card{{ID: "GPU-0", Instance: -1, Name: "NVIDIA H100", Total: total, Reserved: 640 * units.MiB, Used: 2 * units.MiB}}
}

func trainer(law simgpu.Law) simgpu.Process {
	return simgpu.Process{PID: 4242, Law: law, Who: watch.Identity{Command: "python train.py", Rank: -1, Started: 1}}
}

// look watches a machine from second `from` to second `to` at one reading every step seconds; each returns false to stop.
func look(m *simgpu.Machine, from, to, step float64, each func(at float64, v watch.View) bool) {
	history := watch.NewHistory()
	ctx := context.Background()
	if _, err := m.Read(ctx, start); err != nil {
		panic(err)
	}
	for at := from; at <= to; at += step {
		if !each(at, history.Look(ctx, m, start.Add(time.Duration(at*float64(time.Second))))) {
			return
		}
	}
}

func growth(v watch.View) (watch.Finding, bool) {
	for _, f := range v.Findings {
		if f.ID == "growth" {
			return f, true
		}
	}
	return watch.Finding{}, false
}

// foretold is a leak as the watcher saw it first.
type foretold struct {
	after    float64 // seconds from the leak's first byte, or from the first look
	timeLeft float64
	actual   float64 // seconds from then until the simulated machine ran out of memory
}

// catchLeak watches until growth is reported, then lets the machine run until the process runs out of memory.
func catchLeak(t interface{ Fatalf(string, ...any) }, m *simgpu.Machine, from, begins, step float64) foretold {
	var f foretold
	look(m, from, begins+900, step, func(at float64, v watch.View) bool {
		if _, ok := growth(v); !ok {
			return true
		}
		f = foretold{after: at - max(from, begins), timeLeft: v.Cards[0].TimeLeft.Seconds()}
		f.actual = -at
		return false
	})
	if f.actual == 0 {
		t.Fatalf("no growth was ever reported")
	}
	for at := -f.actual; at < 400*24*3600; at += 600 {
		if _, err := m.Read(context.Background(), start.Add(time.Duration(at*float64(time.Second)))); err != nil {
			t.Fatalf("%v", err)
		}
		if died, ok := m.OutOfMemory(4242); ok {
			f.actual += died
			return f
		}
	}
	t.Fatalf("the simulated machine never ran out of memory")
	return f
}

func TestALeakOf50MiBAMinuteIsFoundWithinTwoMinutesWithItsTimeToOutOfMemory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// The allocator takes memory in segments of 2 or 20 MiB; a chunk of 64 KiB stands for a smooth leak.
		chunk := rapid.SampledFrom([]units.Bytes{64 * units.KiB, 2 * units.MiB, 20 * units.MiB}).Draw(t, "chunk")
		base := units.Bytes(rapid.Int64Range(int64(units.GiB), int64(60*units.GiB)).Draw(t, "base"))
		from := float64(rapid.IntRange(0, 300).Draw(t, "first look"))
		step := rapid.SampledFrom([]float64{1, 2, 5}).Draw(t, "interval")
		m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{trainer(simgpu.Leak(base, 50*units.MiB, chunk))})
		f := catchLeak(t, m, from, 0, step)
		if f.after > 120 {
			t.Errorf("found after %.0f s", f.after)
		}
		if off := math.Abs(f.timeLeft-f.actual) / f.actual; off > 0.15 {
			t.Errorf("foretold %.0f s, it took %.0f s: %.0f %% off", f.timeLeft, f.actual, 100*off)
		}
	})
}

func TestALeakThatStartsLateIsFoundWithinTwoMinutes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		begins := float64(rapid.IntRange(30, 600).Draw(t, "begins"))
		chunk := rapid.SampledFrom([]units.Bytes{64 * units.KiB, 2 * units.MiB, 20 * units.MiB}).Draw(t, "chunk")
		law := simgpu.After(begins, simgpu.Warmup(20*units.GiB, 15), simgpu.Leak(20*units.GiB, 50*units.MiB, chunk))
		f := catchLeak(t, simgpu.New(oneCard(40*units.GiB), []simgpu.Process{trainer(law)}), 0, begins, 1)
		if off := math.Abs(f.timeLeft-f.actual) / f.actual; f.after > 120 || off > 0.15 {
			t.Errorf("found after %.0f s, time left %.0f %% off", f.after, 100*off)
		}
	})
}

func TestALeakBelowASawtoothIsFound(t *testing.T) {
	t.Parallel()
	law := simgpu.Plus(simgpu.Sawtooth(4*units.GiB, 9*units.GiB, 40), simgpu.Leak(0, 50*units.MiB, 2*units.MiB))
	f := catchLeak(t, simgpu.New(oneCard(80*units.GiB), []simgpu.Process{trainer(law)}), 0, 0, 1)
	if off := math.Abs(f.timeLeft-f.actual) / f.actual; f.after > 400 || off > 0.15 {
		t.Errorf("found after %.0f s, time left %.0f %% off", f.after, 100*off)
	}
}

func TestAHealthySawtoothRaisesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		floor := units.Bytes(rapid.Int64Range(0, int64(30*units.GiB)).Draw(t, "floor"))
		height := units.Bytes(rapid.Int64Range(int64(64*units.MiB), int64(40*units.GiB)).Draw(t, "height"))
		// A first tooth longer than a minute and a half cannot be told from a leak by anyone who has not seen it fall.
		period := float64(rapid.IntRange(4, 85).Draw(t, "period"))
		step := rapid.SampledFrom([]float64{1, 2, 5}).Draw(t, "interval")
		m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{trainer(simgpu.Sawtooth(floor, floor+height, period))})
		look(m, 0, 900, step, func(at float64, v watch.View) bool {
			if len(v.Findings) > 0 {
				t.Fatalf("after %.0f s: %s", at, v.Findings[0].Title)
			}
			return true
		})
	})
}

func TestALongSawtoothRaisesNothingOnceItHasBeenSeenToFall(t *testing.T) {
	t.Parallel()
	m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{trainer(simgpu.Sawtooth(10*units.GiB, 30*units.GiB, 240))})
	look(m, 200, 3600, 1, func(at float64, v watch.View) bool {
		if f, ok := growth(v); ok {
			t.Fatalf("after %.0f s: %s", at, f.Title)
		}
		return true
	})
}

func TestAWarmUpThatEndsIsNotReportedAsGrowth(t *testing.T) {
	t.Parallel()
	for _, over := range []float64{3, 20, 55, 80} {
		m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{trainer(simgpu.Warmup(60*units.GiB, over))})
		look(m, 0, 600, 1, func(at float64, v watch.View) bool {
			if f, ok := growth(v); ok {
				t.Fatalf("warm-up of %.0f s, after %.0f s: %s", over, at, f.Title)
			}
			return true
		})
	}
}

func TestGrowthThatStopsIsForgotten(t *testing.T) {
	t.Parallel()
	law := simgpu.After(180, simgpu.Leak(units.GiB, 600*units.MiB, 20*units.MiB), simgpu.Constant(3*units.GiB))
	m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{trainer(law)})
	seen := false
	look(m, 0, 300, 1, func(at float64, v watch.View) bool {
		_, ok := growth(v)
		seen = seen || ok
		if at > 200 && ok {
			t.Fatalf("still reported at %.0f s", at)
		}
		return true
	})
	if !seen {
		t.Error("the growth was not reported while it lasted")
	}
}

func TestTheMemoryOfADeadProcessIsNamed(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]simgpu.Process{
		"listed for nobody": {PID: 4242, Law: simgpu.Constant(9 * units.GiB), Dies: 30, Leaves: 8 * units.GiB},
		"still listed":      {PID: 4242, Law: simgpu.Constant(9 * units.GiB), Dies: 30, LeavesEntry: true},
	} {
		p.Who = watch.Identity{Command: "python eval.py", Rank: -1, Started: 7}
		m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{p})
		look(m, 0, 60, 1, func(at float64, v watch.View) bool {
			switch {
			case at < 30 && len(v.Findings) > 0:
				t.Errorf("%s: reported while alive: %s", name, v.Findings[0].Title)
			case at < 35:
			case len(v.Findings) != 1 || v.Findings[0].ID != "orphan-memory":
				t.Errorf("%s: after %.0f s: findings %v", name, at, v.Findings)
				return false
			case !strings.Contains(v.Findings[0].Title, "python eval.py (pid 4242)"):
				t.Errorf("%s: the dead process is not named: %s", name, v.Findings[0].Title)
				return false
			}
			return true
		})
	}
}

func TestAProcessThatEndsCleanlyLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	p := trainer(simgpu.Constant(9 * units.GiB))
	p.Dies = 30
	look(simgpu.New(oneCard(80*units.GiB), []simgpu.Process{p}), 0, 90, 1, func(at float64, v watch.View) bool {
		if len(v.Findings) > 0 {
			t.Fatalf("after %.0f s: %s", at, v.Findings[0].Title)
		}
		return true
	})
}

func TestALeakOfAProcessThatHidesItsAmountShowsOnTheCard(t *testing.T) {
	t.Parallel()
	p := trainer(simgpu.Leak(10*units.GiB, 50*units.MiB, 2*units.MiB))
	p.NoAmount = true
	f := catchLeak(t, simgpu.New(oneCard(80*units.GiB), []simgpu.Process{p}), 0, 0, 1)
	if off := math.Abs(f.timeLeft-f.actual) / f.actual; f.after > 120 || off > 0.15 {
		t.Errorf("found after %.0f s, time left %.0f %% off", f.after, 100*off)
	}
}

func TestALeakingProcessBesideASawtoothIsTheOneThatIsNamed(t *testing.T) {
	t.Parallel()
	healthy := trainer(simgpu.Sawtooth(4*units.GiB, 20*units.GiB, 30))
	healthy.PID = 7
	m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{healthy, trainer(simgpu.Leak(units.GiB, 50*units.MiB, 20*units.MiB))})
	named := false
	look(m, 0, 300, 1, func(at float64, v watch.View) bool {
		for _, f := range v.Findings {
			if f.PID != 4242 {
				t.Errorf("after %.0f s: %s", at, f.Title)
			}
			named = true
		}
		return true
	})
	if !named {
		t.Error("the leak was not found")
	}
}

func TestAReadingThatFailsKeepsTheLastNumbersUnderTheError(t *testing.T) {
	t.Parallel()
	history := watch.NewHistory()
	m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{trainer(simgpu.Constant(units.GiB))})
	history.Look(context.Background(), m, start)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	v := history.Look(ended, m, start.Add(time.Second))
	if v.Error == "" || v.Failures != 1 || len(v.Cards) != 1 || !v.Time.Equal(start) {
		t.Errorf("%+v", v)
	}
	if v = history.Look(context.Background(), m, start.Add(2*time.Second)); v.Error != "" || v.Readings != 2 {
		t.Errorf("after it works again: %+v", v)
	}
}

func TestAClockThatJumpsBackIsIgnored(t *testing.T) {
	t.Parallel()
	history := watch.NewHistory()
	m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{trainer(simgpu.Constant(units.GiB))})
	history.Look(context.Background(), m, start.Add(time.Hour))
	if v := history.Look(context.Background(), m, start); v.Readings != 1 || !v.Time.Equal(start.Add(time.Hour)) {
		t.Errorf("%+v", v)
	}
}

func TestRanksThatTouchTheFirstCardAreReported(t *testing.T) {
	t.Parallel()
	var cards []watch.Card
	var script []simgpu.Process
	for i := range 4 {
		cards = append(cards, watch.Card{ID: string(rune('a' + i)), Index: i, Instance: -1, Total: 80 * units.GiB})
		who := watch.Identity{Command: "python ddp.py", Rank: i, World: 4, Started: 9}
		script = append(script, simgpu.Process{PID: 100 + i, Card: i, Law: simgpu.Constant(40 * units.GiB), Who: who})
		if i > 0 {
			script = append(script, simgpu.Process{PID: 100 + i, Card: 0, Law: simgpu.Constant(520 * units.MiB), Who: who})
		}
	}
	look(simgpu.New(cards, script), 0, 2, 1, func(at float64, v watch.View) bool {
		if len(v.Findings) != 1 || v.Findings[0].ID != "rank0-contexts" || v.Findings[0].CardID != "a" || v.Findings[0].Bytes != 1560*units.MiB {
			t.Errorf("%+v", v.Findings)
		}
		return at < 1
	})
}

func TestACrowdOfDeadProcessesIsToldOnce(t *testing.T) {
	t.Parallel()
	var script []simgpu.Process
	for i := range 25 {
		script = append(script, simgpu.Process{PID: 100 + i, Law: simgpu.Constant(2 * units.GiB), Dies: 1, LeavesEntry: true, Who: watch.Identity{Rank: -1}})
	}
	look(simgpu.New(oneCard(80*units.GiB), script), 5, 5, 1, func(_ float64, v watch.View) bool {
		if len(v.Findings) != 1 || !strings.Contains(v.Findings[0].Title, "50.0 GiB on GPU 0 is held by 25 dead processes") {
			t.Errorf("%+v", v.Findings)
		}
		return true
	})
}

// drawn gives a law that follows a list of sizes, one a second.
func drawn(sizes []units.Bytes) simgpu.Law {
	return func(age float64) units.Bytes { return sizes[min(int(age), len(sizes)-1)] }
}

func TestMemoryThatOnlyFluctuatesRaisesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		height := int64(rapid.IntRange(1, 20000).Draw(t, "height")) * int64(units.MiB)
		sizes := make([]units.Bytes, 900)
		for i := range sizes {
			sizes[i] = 20*units.GiB + units.Bytes(random.Int64N(height))
		}
		m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{trainer(drawn(sizes))})
		look(m, 0, 899, 1, func(at float64, v watch.View) bool {
			if f, ok := growth(v); ok {
				t.Fatalf("after %.0f s: %s", at, f.Title)
			}
			return true
		})
	})
}

// Batches of varying length make the allocator hold what the longest so far needed: new records come, ever more rarely.
func TestRecordsOfVaryingBatchesRarelyLookLikeGrowth(t *testing.T) {
	t.Parallel()
	const runs = 120
	alarmed := 0
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, 1))
		var longest units.Bytes
		sizes := make([]units.Bytes, 900)
		for i := range sizes {
			for range 3 { // steps a second
				longest = max(longest, units.Bytes(random.Int64N(int64(20*units.GiB))))
			}
			sizes[i] = 10*units.GiB + longest
		}
		m := simgpu.New(oneCard(80*units.GiB), []simgpu.Process{trainer(drawn(sizes))})
		look(m, 0, 899, 1, func(_ float64, v watch.View) bool {
			if _, ok := growth(v); ok {
				alarmed++
				return false
			}
			return true
		})
	}
	if alarmed > runs/20 {
		t.Errorf("%d of %d healthy runs were called growth", alarmed, runs)
	}
}
