package browsertests

import (
	"compress/gzip"
	"io"
	"os"
	"slices"
	"testing"
	"time"
)

const big = "../testdata/big.pickle.gz"

// TestAMillionEventsStayFluid prints how long the first picture and a frame take, and holds the server's memory to twice the file.
func TestAMillionEventsStayFluid(t *testing.T) {
	s := serve(t, big)
	tab := open(t, s.URL, s.URL, desk)
	// The page's clock starts with the navigation; both clocks are this machine's.
	picture := eval[float64](t, tab, `performance.timeOrigin + performance.getEntriesByName("picture")[0].startTime`)
	t.Logf("first picture after %.2f s", picture/1000-float64(s.Started.UnixMilli())/1000)

	times := eval[struct{ Gaps, Frames, Fresh []float64 }](t, tab, gestures)
	t.Logf("%d frames of zoom and pan: median %.1f ms apart, %.1f ms of drawing each; fresh detail after %.1f ms at the median", len(times.Gaps), median(times.Gaps), median(times.Frames), median(times.Fresh))

	time.Sleep(time.Second)
	now, most, err := s.Memory()
	if err != nil {
		t.Skip("no /proc here")
	}
	size := plainSize(t)
	t.Logf("the server holds %.0f MB, at most %.0f MB; the file has %.0f MB", float64(now)/1e6, float64(most)/1e6, float64(size)/1e6)
	if most > 2*size {
		t.Errorf("the server held %d bytes for a file of %d", most, size)
	}
}

// gestures zooms in and out and pans, one wheel event a frame, and gives the times between frames, of drawing, and of fresh detail.
const gestures = `(async () => {
	const chart = document.querySelector("canvas.chart"), box = chart.getBoundingClientRect();
	performance.clearMeasures();
	const frame = () => new Promise(r => requestAnimationFrame(r));
	const gaps = [];
	let last = await frame();
	for (let i = 0; i < 240; i++) {
		const pan = i % 60 >= 40, out = i % 120 >= 60;
		chart.dispatchEvent(new WheelEvent("wheel", { deltaY: pan ? 0 : out ? 60 : -60, deltaX: pan ? (out ? -40 : 40) : 0, clientX: box.left + box.width * 0.6, clientY: box.top + 100, bubbles: true, cancelable: true }));
		const now = await frame();
		gaps.push(now - last);
		last = now;
	}
	const all = name => performance.getEntriesByName(name).map(e => e.duration);
	return { Gaps: gaps, Frames: all("frame"), Fresh: all("fresh") };
})()`

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func plainSize(t *testing.T) int64 {
	t.Helper()
	f, err := os.Open(big)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, z)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
