package predict

import (
	"github.com/plimsoll/plimsoll/internal/eager"
	"github.com/plimsoll/plimsoll/internal/job"
	"github.com/plimsoll/plimsoll/internal/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Streamed is what one step of a job works on, beside its stream.
type Streamed struct {
	Params    int64
	Trainable int64
	Tensors   int           // trained ones
	Bytes     units.Bytes   // of those
	Layers    int           // calls that the model can checkpoint; 0: it cannot
	Live      units.Bytes   // the most that was asked for at once, without an optimizer's state
	Kept      []units.Bytes // what each of these calls keeps that is not checkpointed
	Pinned    units.Bytes   // host memory with saved tensors, where they are kept there
	Held      units.Bytes   // the same with every gradient there all the time, as in the later micro-batches of a step
}

// live walks a tape for the most bytes asked for at once.
func (s *Streamed) live(t *tape.Tape) {
	var rest, grads, most units.Bytes
	for i := range t.Events {
		e := &t.Events[i]
		size := e.Size
		switch e.Kind {
		case tape.Free:
			size = -size
		case tape.Alloc:
		default:
			continue
		}
		if t.Owners[e.Owner].Category == tape.Gradients {
			grads += size
			most = max(most, grads)
		} else {
			rest += size
		}
		s.Live, s.Held = max(s.Live, rest+grads), max(s.Held, rest)
	}
	s.Held += most
}

// Stream runs the forward and backward of one micro-batch of a job and hands every entry of its stream of work to see. The optimizer's work is
// not in it: it follows from what is trained.
func Stream(j job.Job, src Source, m Machine, see func(eager.Work)) (Streamed, error) {
	j.Accumulate, j.Optimizer = 1, "sgd"
	m.Observe = see
	p, model, _, err := train(j, src, m, 1)
	if err != nil {
		return Streamed{}, err
	}
	s := Streamed{Layers: p.Regions(), Pinned: p.Pinned(), Kept: p.Kept()}
	s.live(p.Tape())
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
