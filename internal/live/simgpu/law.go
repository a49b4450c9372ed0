package simgpu

import (
	"math"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Constant holds the same all the time.
func Constant(size units.Bytes) Law { return func(float64) units.Bytes { return size } }

// Warmup reaches a size within so many seconds and stays there.
func Warmup(size units.Bytes, over float64) Law {
	return func(age float64) units.Bytes { return units.Bytes(float64(size) * min(1, age/over)) }
}

// Leak starts at base and grows by perMinute in whole chunks, as a caching allocator takes memory from CUDA.
func Leak(base, perMinute, chunk units.Bytes) Law {
	return func(age float64) units.Bytes {
		grown := float64(perMinute) * age / 60
		return base + units.Bytes(math.Floor(grown/float64(chunk)))*chunk
	}
}

// Sawtooth climbs from floor to top within a period and falls back, like a loop that empties its cache after every epoch.
func Sawtooth(floor, top units.Bytes, period float64) Law {
	return func(age float64) units.Bytes {
		return floor + units.Bytes(float64(top-floor)*math.Mod(age, period)/period)
	}
}

// Plus holds what both laws hold together.
func Plus(a, b Law) Law { return func(age float64) units.Bytes { return a(age) + b(age) } }

// After follows first until the given age, then next counted from there.
func After(age float64, first, next Law) Law {
	return func(a float64) units.Bytes {
		if a < age {
			return first(a)
		}
		return next(a - age)
	}
}
