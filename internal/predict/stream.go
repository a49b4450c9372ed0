package predict

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/eager"
	"github.com/plimsoll/plimsoll/internal/job"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Streamed is what one step of a job works on, beside its stream.
type Streamed struct {
	Params    int64
	Trainable int64
	Tensors   int         // trained ones
	Bytes     units.Bytes // of those
	Layers    int         // calls that the model can checkpoint; 0: it cannot
}

// Stream runs the forward and backward of one micro-batch of a job and hands every entry of its stream of work to see. The optimizer's work is
// not in it: it follows from what is trained.
func Stream(j job.Job, src Source, m Machine, see func(eager.Work)) (Streamed, error) {
	p := eager.NewProcess(m.device())
	p.CheckpointFirst = j.Layers
	model, err := build(p, j, src)
	if err != nil {
		return Streamed{}, err
	}
	o, err := options(j)
	if err != nil {
		return Streamed{}, err
	}
	o.Steps, o.Accumulate = 1, 1
	p.Observe = see
	if err := p.Train(model, o); err != nil {
		return Streamed{}, fmt.Errorf("run the model: %w", err)
	}
	s := Streamed{Layers: p.Regions()}
	for _, t := range model.Root().Parameters() {
		s.Params += int64(t.Numel())
		if t.RequiresGrad() {
			s.Trainable += int64(t.Numel())
			s.Bytes += t.Bytes()
			s.Tensors++
		}
	}
	return s, nil
}
