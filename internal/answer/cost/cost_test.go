package cost

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

func h200(tb testing.TB) Rates {
	tb.Helper()
	c, err := gpu.Find("h200")
	if err != nil {
		tb.Fatal(err)
	}
	r, err := Of(c, false)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func unit(n int) units.Bytes { return units.Bytes(n) }

func product(d tensor.DType, batch, rows, cols, inner int) eager.Work {
	width := d.Width()
	w := eager.Work{Kind: eager.Product, DType: d, Result: d, Kernels: 1, Shape: [4]int{batch, rows, cols, inner}, Phase: eager.PhaseForward}
	w.FLOPs = 2 * float64(batch) * float64(rows) * float64(cols) * float64(inner)
	w.Read, w.Written = width*unit(batch*inner*(rows+cols)), width*unit(batch*rows*cols)
	return w
}

func TestALargeProductRunsAtTheMeasuredShareOfThePeak(t *testing.T) {
	t.Parallel()
	r := h200(t)
	for _, c := range []struct {
		dtype       tensor.DType
		least, most float64 // TFLOP/s; measured: 0.80 of 989 for an 8192³ product alone, 47 to 53 in fp32
	}{{tensor.BFloat16, 740, 800}, {tensor.Float32, 47, 53}} {
		w := product(c.dtype, 1, 8192, 8192, 8192)
		rate := w.FLOPs / r.kernel(w) / 1e12
		if rate < c.least || rate > c.most {
			t.Errorf("%v: %.0f TFLOP/s", c.dtype, rate)
		}
	}
}

func TestMoreWorkNeverTakesLess(t *testing.T) {
	t.Parallel()
	r := h200(t)
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]tensor.DType{tensor.BFloat16, tensor.Float32}).Draw(t, "type")
		size := rapid.IntRange(1, 512)
		m, n, k := 8*size.Draw(t, "rows"), 8*size.Draw(t, "cols"), 8*size.Draw(t, "inner")
		small, large := r.kernel(product(d, 1, m, n, k)), r.kernel(product(d, 2, m, n, k))
		if large < small {
			t.Errorf("twice the products take %g s, once %g s", large, small)
		}
	})
}

func TestAStepIsNeverShorterThanEitherClock(t *testing.T) {
	t.Parallel()
	r := h200(t)
	rapid.Check(t, func(t *rapid.T) {
		c := NewClock(r)
		for range rapid.IntRange(1, 60).Draw(t, "entries") {
			kind := eager.Kind(rapid.IntRange(0, int(eager.Kept)).Draw(t, "kind"))
			w := eager.Work{Kind: kind, DType: tensor.BFloat16, Result: tensor.BFloat16, Phase: eager.PhaseForward, Shape: [4]int{64, 1 << 20, 64, 64}}
			if kind < eager.View {
				w.Kernels = 1
				w.Read = unit(rapid.IntRange(0, 1<<28).Draw(t, "bytes"))
			}
			c.See(w)
		}
		s := c.Step()
		if s.Seconds < s.Host || s.Seconds < s.GPU || s.Seconds > s.Host+s.GPU+1e-12 {
			t.Errorf("step %g s, host %g s, card %g s", s.Seconds, s.Host, s.GPU)
		}
	})
}

func TestOptimizersTakeWhatTheyTouch(t *testing.T) {
	t.Parallel()
	r := h200(t)
	trained := Trained{Tensors: 146, Elements: 1.24e9, Width: 4}
	busy := Step{Seconds: 1, Ahead: 1} // the host is far ahead
	step := func(name torch.Optimizer, s Step) float64 {
		t.Helper()
		seconds, err := r.Optimizer(name, trained, s)
		if err != nil {
			t.Fatal(err)
		}
		return seconds
	}
	foreach := step("adamw", busy)
	if foreach < 0.025 || foreach > 0.029 { // measured: 27.0 ms
		t.Errorf("AdamW on 1.24 B fp32 parameters: %.1f ms", 1000*foreach)
	}
	if fused := step("adamw-fused", busy); fused >= foreach/2 {
		t.Errorf("fused takes %.1f ms, foreach %.1f ms", 1000*fused, 1000*foreach)
	}
	if waiting := step("adamw", Step{Seconds: 1}); waiting <= foreach {
		t.Error("an optimizer that waits for its host is not slower")
	}
}

func TestCardsWithoutRatesAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := Of(gpu.Card{Title: "unknown"}, false); err == nil {
		t.Error("a card without rates was taken")
	}
	for _, c := range gpu.Cards() {
		if _, err := Of(c, true); err != nil {
			t.Logf("%s: %v", c.Name, err)
		}
	}
}

func TestMoreRanksCommunicateMoreButShardingKeepsItBounded(t *testing.T) {
	t.Parallel()
	c, err := gpu.Find("a100-80g")
	if err != nil {
		t.Fatal(err)
	}
	trained := Trained{Tensors: 300, Elements: 8e9, Width: 2}
	two, eight := Collectives(c, "ddp", Ranks{2, 2}, 4, trained), Collectives(c, "ddp", Ranks{8, 8}, 4, trained)
	if two >= eight || eight >= 2*two {
		t.Errorf("all-reduce over 2: %g s, over 8: %g s", two, eight)
	}
	if Collectives(c, "fsdp2", Ranks{8, 8}, 4, trained) <= eight {
		t.Error("gathering parameters for every micro-batch costs nothing")
	}
}

func TestACopyToTheHostIsWaitedForAndOneBackIsNot(t *testing.T) {
	t.Parallel()
	r := h200(t)
	size := units.Bytes(r.Link) // a second
	step := func(kinds ...eager.Kind) Step {
		c := NewClock(r)
		for _, k := range kinds {
			c.See(eager.Work{Kind: k, Kernels: 1, Read: size, Written: size})
		}
		return c.Step()
	}
	if down := step(eager.ToHost); down.Seconds < 1 || down.Ahead != 0 {
		t.Errorf("a second's copy down takes %.3f s, the card is %.3f s behind", down.Seconds, down.Ahead)
	}
	if up := step(eager.FromHost); up.Seconds < 1 || up.Ahead < 0.99 {
		t.Errorf("a second's copy up takes %.3f s, the card is %.3f s behind", up.Seconds, up.Ahead)
	}
}
