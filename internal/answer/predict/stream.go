package predict

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Streamed is what one step of a job works on, beside its stream.
type Streamed struct {
	Params    int64
	Trainable int64
	Tensors   int           // trained ones
	Bytes     units.Bytes   // of those
	Layers    int           // calls that the model can checkpoint; 0: it cannot
	Kept      []units.Bytes // what each of these calls keeps that is not checkpointed
	Pinned    units.Bytes   // host memory with saved tensors, where they are kept there
}

// Stream runs the forward and backward of one micro-batch of a job and hands every entry of its stream of work to see. The optimizer's work is
// not in it: it follows from what is trained.
func Stream(j job.Job, src Source, m Machine, see func(eager.Work)) (Streamed, error) {
	j.Accumulate, j.Optimizer = 1, torch.Stateless
	m.Observe = see
	p, model, _, err := train(j, src, m, 1)
	if err != nil {
		return Streamed{}, err
	}
	s := Streamed{Layers: p.Regions(), Pinned: p.Pinned(), Kept: p.Kept()}
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
