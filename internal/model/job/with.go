package job

import (
	"strings"

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
	j.Code, j.Context = s.Code, s.Context
	j.Checkpointing, j.Layers = s.Checkpointing != setup.None, s.Layers
	j.OffloadActivations = s.Offload.Has(setup.OffloadActivations)
	j.LoRARank, j.LoRADropout, j.BaseBits, j.LoRATargets = s.LoRARank, s.LoRADropout, s.BaseBits, nil
	if s.LoRATargets != "" {
		j.LoRATargets = strings.Split(s.LoRATargets, ",")
	}
	return j
}

// DefaultTargets are the layers that get adapters unless others are named: PEFT's default for decoders.
const DefaultTargets = "q_proj,v_proj"

// Adapters are the job's low-rank adapters.
func (j Job) Adapters() setup.Adapters {
	return setup.Adapters{LoRARank: j.LoRARank, LoRATargets: strings.Join(j.LoRATargets, ","), LoRADropout: j.LoRADropout, BaseBits: j.BaseBits}
}

// Loaded is how the model gets onto the card. Adapters stand beside weights that were trained before, which from_pretrained reads: onto the host, and onto the card
// at once where they are quantized (https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/quantizers/quantizer_bnb_4bit.py, update_device_map).
func (j Job) Loaded() setup.Load {
	switch {
	case j.Load != "":
		return j.Load
	case j.BaseBits > 0:
		return setup.LoadMapped
	case j.LoRARank > 0:
		return setup.LoadHost
	}
	return setup.LoadCard
}

// Setup is the way the job runs on one card.
func (j Job) Setup() setup.Setup {
	s := setup.Setup{
		MicroBatch: j.Batch, Accumulate: max(j.Accumulate, 1), Precision: j.Precision(), Checkpointing: setup.None, Optimizer: j.Optimizer, Attn: j.Attn,
		Loop: j.Loop, GPUs: 1, Code: j.Code, Context: j.Context, Adapters: j.Adapters(),
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
