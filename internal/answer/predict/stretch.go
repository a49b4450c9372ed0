package predict

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/deepen"
	"github.com/plimsoll/plimsoll/internal/model/job"
)

// stretch is how the layers of a job repeat: in one or two zones, in each of which they are alike, or of several kinds in turn.
type stretch struct {
	zones  []int // layers of each
	short  []int // those to record; nil: the whole model
	period int
	first  int   // layers of the short model that are checkpointed, where not all are: the first of these
	order  []int // nil: as they run
}

// ways are the stretches to try, that with fewest layers to record first. Layers of two kinds in turn may need the same memory.
func ways(src Source, j job.Job) []stretch {
	var out []stretch
	if all := alikeLayers(src, j); all.zones != nil {
		out = append(out, all)
	}
	if turn := layersInTurn(src, j); turn.zones != nil {
		out = append(out, turn)
	}
	return out
}

// alikeLayers takes all layers to be alike but for checkpointing.
func alikeLayers(src Source, j job.Job) stretch {
	depth := src.depth(j)
	if len(j.Freeze) > 0 || depth < 2 || j.Order != nil && j.Checkpointing && j.Layers > 0 || src.period() > 2 { // an order of layers is one of those that are checkpointed
		return stretch{}
	}
	out := stretch{zones: []int{depth}, period: 1}
	if j.Checkpointing && j.Layers > 0 && j.Layers < depth {
		out.zones = []int{j.Layers, depth - j.Layers}
	}
	out.short = shortened(out.zones, 1)
	if len(out.zones) > 1 {
		out.first = out.short[0]
	}
	if src.Config == nil && total(out.short) > depth { // layers of a graph can be left out, not added
		return stretch{}
	}
	return out
}

// shortened are the layers to record of zones.
func shortened(zones []int, period int) []int {
	out := make([]int, len(zones))
	for i, n := range zones {
		out[i] = deepen.Enough(n, period)
	}
	return out
}

// layersInTurn takes layers to be alike after a period: none where the model has no such period, or too few layers.
func layersInTurn(src Source, j job.Job) stretch {
	depth, period := src.depth(j), src.period()
	if len(j.Freeze) > 0 || period < 2 || depth < period {
		return stretch{}
	}
	again := checkpointedLayers(j, depth)
	at := recurs(again, period)
	out := stretch{zones: []int{depth}, period: period}
	if at < depth {
		if recurs(again[at:], period) < depth-at {
			return stretch{}
		}
		out.zones = []int{at, depth - at}
	}
	if out.short = shortened(out.zones, period); total(out.short)+saved > depth {
		return stretch{}
	}
	if j.Checkpointing && j.Layers > 0 && j.Layers < depth {
		out.pick(again, period)
	}
	return out
}

// pick says which layers of the short model are checkpointed: those whose like is.
func (s *stretch) pick(again []bool, period int) {
	var others []int
	at, from := 0, 0
	for z, n := range s.short {
		for l := range n {
			if again[from+l%min(period, s.zones[z])] {
				s.order = append(s.order, at+l)
			} else {
				others = append(others, at+l)
			}
		}
		at, from = at+n, from+s.zones[z]
	}
	s.first = len(s.order)
	s.order = append(s.order, others...)
}

// checkpointedLayers tells which layers of a job are computed again.
func checkpointedLayers(j job.Job, depth int) []bool {
	out := make([]bool, depth)
	for l := range out {
		at := l
		if j.Order != nil {
			at = slices.Index(j.Order, l)
		}
		out[l] = j.Checkpointing && (j.Layers == 0 || at >= 0 && at < j.Layers)
	}
	return out
}

// recurs is how many layers from the first on are as those a period before.
func recurs(again []bool, period int) int {
	for l := period; l < len(again); l++ {
		if again[l] != again[l-period] {
			return l
		}
	}
	return len(again)
}
