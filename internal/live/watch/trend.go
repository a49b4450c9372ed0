package watch

import (
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Trend says whether a series of readings grows for good.
//
// A level counts as held for good when the series never falls below it again: the floor under the curve, not the curve. So a
// sawtooth, however tall, has no trend, and a leak below a sawtooth has one. PyTorch takes memory from CUDA in segments of
// 2 and 20 MiB (c10/cuda/CUDACachingAllocator.cpp, kSmallBuffer and kLargeBuffer), so a smooth leak arrives as stairs: the line
// is fitted through the moments at which the floor rose, which is exact for stairs and for a ramp alike.
type Trend struct {
	// Slope is bytes a second, Margin two standard errors of it.
	Slope, Margin float64
	// Confidence is one minus the chance that readings without any trend look like this (Mann-Kendall, one-sided).
	Confidence float64
	// Span is how long the readings behind the slope reach.
	Span time.Duration
	// Steady: long, even and sure enough to be acted upon. Slope is zero otherwise.
	Steady bool
}

const (
	// Shorter growth is a warm-up or one tooth of a saw. Not longer, or a leak of 50 MiB a minute in segments of 20 MiB, which shows
	// five rises within 96 seconds of every two minutes, would take more than those to be found.
	minSpan       = 85 * time.Second
	minRises      = 4 // fewer steps of the floor are no line
	minTroughs    = 6 // nor are fewer rises from the foot of one tooth to the next
	minConfidence = 0.95
	maxMargin     = 0.15 // a slope is told once it is known this well; a leak's soon is, that of ever rarer records is not
	evenness      = 0.3  // how far the slopes of the two halves may lie from the whole's
	trendBlocks   = 12   // block minima that Mann-Kendall looks at
	// A fall ends a tooth when it gives back a quarter of the rise before it, and more than the allocator's largest rounding.
	toothShare = 0.25
	toothLeast = 20 * units.MiB
	// unseenRise stands for the length of a rise whose beginning was not seen.
	unseenRise = 150.0
)

// spans are the windows tried, longest first: the longest one in which growth is even gives the best slope.
var spans = []time.Duration{15 * time.Minute, 10 * time.Minute, 5 * time.Minute, 3 * time.Minute, 2 * time.Minute, 90 * time.Second}

type point struct {
	at    float64 // seconds since the history began
	bytes units.Bytes
}

// trendOf judges a series in order of time.
func trendOf(series []point) Trend {
	if len(series) < minRises || flat(series) {
		return Trend{}
	}
	longest, lastFall := teeth(series)
	run := series[lastFall:]
	if longest == 0 || length(run) >= 2*longest {
		return longestEven(run, minRises)
	}
	// Inside a tooth like those before it: only the floors between teeth say anything.
	return longestEven(troughs(series), minTroughs)
}

func longestEven(series []point, leastRises int) Trend {
	for i, span := range spans {
		window := tail(series, span.Seconds())
		if i+1 < len(spans) && length(window) < spans[i+1].Seconds() {
			continue // the next span sees the same points
		}
		if t := fit(window, leastRises); t.Steady {
			return t
		}
	}
	return Trend{}
}

// fit draws a line through the moments at which the floor of the window rose.
func fit(window []point, leastRises int) Trend {
	rises := floorRises(window)
	if edge(window[0].bytes, rises) {
		rises = rises[1:]
	}
	if len(rises) < leastRises {
		return Trend{}
	}
	span := length(rises)
	gap := span / float64(len(rises)-1)
	if span < minSpan.Seconds() || window[len(window)-1].at-rises[len(rises)-1].at > 3*gap {
		return Trend{} // too short, or it has stopped
	}
	slope, margin := line(rises)
	half := len(rises) / 2
	early, _ := line(rises[:half+1])
	late, _ := line(rises[half:])
	t := Trend{
		Slope: slope, Margin: margin, Span: seconds(span),
		Confidence: mannKendall(blockMinima(since(window, rises[0].at-gap))),
	}
	net := rises[len(rises)-1].bytes - rises[0].bytes
	t.Steady = slope > 0 && t.Confidence >= minConfidence && margin <= maxMargin*slope && net >= 2*deepestFall(window) &&
		math.Abs(early-slope) <= evenness*slope && math.Abs(late-slope) <= evenness*slope
	return t
}

// floorRises gives the points at which the level held until the end of the window went up.
func floorRises(window []point) []point {
	var rises []point
	low := units.Bytes(math.MaxInt64)
	for i := len(window) - 1; i >= 0; i-- {
		if window[i].bytes >= low {
			continue
		}
		if i+1 < len(window) {
			rises = append(rises, point{window[i+1].at, low})
		}
		low = window[i].bytes
	}
	slices.Reverse(rises)
	return rises
}

// edge tells whether the first rise is the end of something larger before the window, a warm-up say: more than twice as
// high as any other.
func edge(ground units.Bytes, rises []point) bool {
	if len(rises) < 2 {
		return false
	}
	var highest units.Bytes
	for i, r := range rises[1:] {
		highest = max(highest, r.bytes-rises[i].bytes)
	}
	return rises[0].bytes-ground > 2*highest
}

// line is the least-squares slope through the points and two standard errors of it.
func line(points []point) (slope, margin float64) {
	n := float64(len(points))
	var meanT, meanB float64
	for _, p := range points {
		meanT += p.at / n
		meanB += float64(p.bytes) / n
	}
	var tt, tb float64
	for _, p := range points {
		tt += (p.at - meanT) * (p.at - meanT)
		tb += (p.at - meanT) * (float64(p.bytes) - meanB)
	}
	if tt == 0 {
		return 0, 0
	}
	slope = tb / tt
	if len(points) < 3 {
		return slope, 0
	}
	var residual float64
	for _, p := range points {
		r := float64(p.bytes) - meanB - slope*(p.at-meanT)
		residual += r * r
	}
	return slope, 2 * math.Sqrt(residual/(n-2)/tt)
}

// blockMinima cuts the window into equal stretches of time and takes the lowest reading of each.
func blockMinima(window []point) []units.Bytes {
	first, width := window[0].at, length(window)/trendBlocks
	var minima []units.Bytes
	block := -1
	for _, p := range window {
		b := min(int((p.at-first)/width), trendBlocks-1)
		if b != block {
			block = b
			minima = append(minima, p.bytes)
			continue
		}
		last := len(minima) - 1
		minima[last] = min(minima[last], p.bytes)
	}
	return minima
}

// mannKendall is one minus the chance of so many rising pairs if the order meant nothing; H. B. Mann, Econometrica 13 (1945),
// normal approximation with continuity correction.
func mannKendall(values []units.Bytes) float64 {
	s := 0
	for i, early := range values {
		for _, late := range values[i+1:] {
			switch {
			case late > early:
				s++
			case late < early:
				s--
			}
		}
	}
	if s <= 0 {
		return 0
	}
	n := float64(len(values))
	z := float64(s-1) / math.Sqrt(n*(n-1)*(2*n+5)/18)
	return 0.5 * math.Erfc(-z/math.Sqrt2)
}

// teeth finds the falls that give memory back: how long the longest rise before such a fall took, and the index of the
// lowest point after the last one. Of a rise that was under way at the first point the length is a guess.
func teeth(series []point) (longest float64, lastTrough int) {
	for {
		rise, next := firstFall(series[lastTrough:])
		if next == 0 {
			return longest, lastTrough
		}
		longest = max(longest, rise)
		if lastTrough == 0 && rise > 0 {
			longest = max(longest, unseenRise)
		}
		lastTrough += next
	}
}

// firstFall finds the foot of the first fall in a series: its index, 0 when there is none, and how long the rise before it took.
func firstFall(series []point) (rise float64, foot int) {
	low, peak := 0, 0
	for i, p := range series {
		switch {
		case p.bytes > series[peak].bytes:
			peak = i
			continue
		case p.bytes == series[peak].bytes:
			continue
		case peak == low && p.bytes < series[low].bytes: // it begins by falling
			low, peak = i, i
			continue
		}
		height, fall := series[peak].bytes-series[low].bytes, series[peak].bytes-p.bytes
		if fall < toothLeast || float64(fall) < toothShare*float64(height) {
			continue
		}
		for i+1 < len(series) && series[i+1].bytes < series[i].bytes {
			i++
		}
		return series[peak].at - series[low].at, i
	}
	if low > 0 && peak == low {
		return 0, low
	}
	return 0, 0
}

// troughs gives the lowest point between every two teeth.
func troughs(series []point) []point {
	var out []point
	for begin := 0; begin < len(series); {
		_, next := firstFall(series[begin:])
		if next == 0 {
			break
		}
		begin += next
		out = append(out, series[begin])
	}
	return out
}

// deepestFall is the most the window ever fell below what it had reached before.
func deepestFall(window []point) units.Bytes {
	var high, deepest units.Bytes
	for _, p := range window {
		high = max(high, p.bytes)
		deepest = max(deepest, high-p.bytes)
	}
	return deepest
}

func flat(series []point) bool {
	for _, p := range series {
		if p.bytes != series[0].bytes {
			return false
		}
	}
	return true
}

// tail gives the points of the last so many seconds.
func tail(series []point, seconds float64) []point {
	if len(series) == 0 {
		return nil
	}
	return since(series, series[len(series)-1].at-seconds)
}

func since(series []point, at float64) []point {
	for i, p := range series {
		if p.at >= at {
			return series[i:]
		}
	}
	return nil
}

func length(series []point) float64 {
	if len(series) == 0 {
		return 0
	}
	return series[len(series)-1].at - series[0].at
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
