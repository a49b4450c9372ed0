package probenotes

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Trend is how memory held after each step developed.
type Trend struct {
	Known   bool        // enough steps to tell
	Growing bool        // it rises steadily
	PerStep units.Bytes // by so much, when growing
	Floor   units.Bytes // least bytes held after a step: what every step starts from
}

// enoughSteps is how many steps a trend needs: the first two differ from the rest (optimizer state appears).
const enoughSteps = 8

// Trend reads the history: the second half of the steps decides, so that warming up is not taken for a leak.
func (p Process) Trend() Trend {
	var steps []float64
	var held []units.Bytes
	for _, row := range p.History {
		if len(row) < 3 {
			continue
		}
		step, err1 := row[0].Float64()
		bytes, err2 := row[2].Int64()
		if err1 == nil && err2 == nil {
			steps, held = append(steps, step), append(held, units.Bytes(bytes))
		}
	}
	if len(held) < enoughSteps {
		return Trend{}
	}
	half := len(held) / 2
	steps, held = steps[half:], held[half:]
	t := Trend{Known: true, Floor: slices.Min(held)}
	rise, span := held[len(held)-1]-held[0], steps[len(steps)-1]-steps[0]
	rises := 0
	for i := 1; i < len(held); i++ {
		if held[i] > held[i-1] {
			rises++
		}
	}
	// A leak adds something nearly every step; batches of changing length rise and fall.
	if span > 0 && rises*10 >= (len(held)-1)*9 && rise > p.Peak.Allocated/200 {
		t.Growing, t.PerStep = true, units.Bytes(float64(rise)/span)
	}
	return t
}
