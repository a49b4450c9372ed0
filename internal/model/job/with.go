package job

import (
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// SetPrecision sets parameters and autocast by one word.
func (j *Job) SetPrecision(p torch.Precision) {
	j.ParamDType, j.Autocast, j.TF32 = p.Params(), p.Autocast(), p.TF32()
}

// Precision is the word for the job's parameters and autocast.
func (j *Job) Precision() torch.Precision { return torch.PrecisionOf(j.ParamDType, j.Autocast, j.TF32) }

// With is the job run in a way. What a way does not say stays as the job has it.
func (j Job) With(s setup.Setup) Job {
	j.Batch, j.Accumulate, j.Optimizer, j.Attn, j.Loop = s.MicroBatch, max(s.Accumulate, 1), s.Optimizer, s.Attn, s.Loop
	j.SetPrecision(s.Precision)
	j.Checkpointing, j.Layers = s.Checkpointing != setup.None, s.Layers
	j.OffloadActivations = s.Offload.Has(setup.OffloadActivations)
	if s.LoRARank > 0 {
		j.LoRARank = s.LoRARank
	}
	return j
}

// Setup is the way the job runs on one card.
func (j Job) Setup() setup.Setup {
	s := setup.Setup{
		MicroBatch: j.Batch, Accumulate: max(j.Accumulate, 1), Precision: j.Precision(), Checkpointing: setup.None, Optimizer: j.Optimizer, Attn: j.Attn,
		Loop: j.Loop, GPUs: 1, LoRARank: j.LoRARank,
	}
	switch {
	case j.Checkpointing && j.Layers > 0:
		s = s.Checkpointed(j.Layers)
	case j.Checkpointing:
		s = s.Checkpointed(-1)
	}
	if j.OffloadActivations {
		s.Offload = setup.OffloadActivations
	}
	return s
}
