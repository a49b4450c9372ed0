package predict

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/graphrun"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// depth is the number of layers of a model whose layers are alike, 0 for others.
func (s Source) depth(j job.Job) int {
	if s.Config != nil {
		return s.Config.Repeats()
	}
	g, err := s.graph(j)
	if err != nil || g == nil || g.Trace == nil {
		return 0
	}
	if j.Checkpointing && len(j.CheckpointModules) > 0 && !slices.Equal(j.CheckpointModules, g.Trace.Checkpoints) {
		return 0 // modules of the script's own choice
	}
	return g.Depth()
}

// period is after how many layers the kinds of a model's layers recur.
func (s Source) period() int {
	if s.Config != nil {
		return s.Config.Period()
	}
	return 1
}

// withDepth is the same model with fewer layers.
func (s Source) withDepth(j job.Job, layers int) (Source, error) {
	if s.Config != nil {
		return Source{Config: s.Config.WithDepth(layers)}, nil
	}
	g, err := s.graph(j)
	if err != nil {
		return s, err
	}
	return Source{Graph: g.WithDepth(layers)}, nil
}

// unknown are the operators of a model that nobody has written down.
func unknown(model eager.Model) []string {
	if g, ok := model.(*graphrun.Graph); ok {
		return g.Unknown()
	}
	return nil
}

// steps are three training steps of a job, and what was learned beside their tape.
type steps struct {
	tape    *tape.Tape
	model   eager.Model // the whole one, loaded
	conv    convolutions
	unknown []string
}

// steps simulates at least so many steps of a job: few layers run where all are alike, and the tape of the whole model is written from them, else the whole model runs.
func (s *Variants) steps(j job.Job, least int) (steps, error) {
	var trying []func(*eager.Process)
	if j.Benchmark { // what it tries depends on what was tried before: the whole model runs
		trying = append(trying, benchmark(eager.Benchmark{}))
	}
	if way := alikeLayers(s.src, j); total(way.short)+saved <= total(way.zones) && !j.InBackward && !j.Benchmark {
		if out, err := s.written(j, way); err == nil {
			return out, nil
		} // layers that are not alike, or a job that is refused: running it says which
	}
	p, model, conv, err := train(j, s.src, s.m, least, trying...)
	if err != nil {
		return steps{}, err
	}
	return steps{p.Tape(), model, conv, unknown(model)}, nil
}

// saved is how many layers have to be left out before writing a tape costs less than recording it.
const saved = 3

func total(layers []int) int {
	sum := 0
	for _, n := range layers {
		sum += n
	}
	return sum
}

// written makes the steps from those of a shorter model.
func (s *Variants) written(j job.Job, way stretch) (steps, error) {
	r := s.record(j, s.src, way)
	if r.err != nil {
		return steps{}, r.err
	}
	t := s.turnsOf(j, setup.Cut{}, r.facts)
	if t.err != nil {
		return steps{}, t.err
	}
	tape, err := r.template.Write(way.zones, t.turns)
	return steps{tape, s.benchOf(j, setup.Cut{}, r.facts).model, r.facts.conv, r.facts.unknown}, err
}
