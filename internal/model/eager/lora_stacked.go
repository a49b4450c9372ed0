package eager

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Stacked is a parameter of a model that PEFT adapts as a whole: the matrices of all experts, or of a router. Since transformers 5 experts are no linear layers any more;
// targets that named those mean the parameter (https://github.com/huggingface/peft/blob/v0.19.0/src/peft/utils/transformers_weight_conversion.py, _convert_peft_config_moe).
type Stacked struct {
	*Module
	Weight *Tensor
	named  []string
	joined int
	a, b   *Tensor
}

// AsStacked registers a parameter of a module as one that can get adapters: under these names of targets, with as many times the rank.
func (m *Module) AsStacked(weight *Tensor, named []string, joined int) *Stacked {
	s := &Stacked{Module: m, Weight: weight, named: named, joined: max(joined, 1)}
	m.root.stacked = append(m.root.stacked, s)
	return s
}

// On tells whether the parameter has adapters.
func (s *Stacked) On() bool { return s.a != nil }

// shape is the number of experts, and the outputs and inputs of each.
func (s *Stacked) shape() (experts, out, in int) {
	if s.Weight.Rank() == 2 {
		return 1, s.Weight.Dim(0), s.Weight.Dim(1)
	}
	return s.Weight.Dim(0), s.Weight.Dim(1), s.Weight.Dim(2)
}

// attachStacked gives the parameters that targets mean adapters, and returns the targets that are left for linear layers.
func (m *Module) attachStacked(o LoRA) (targets []string, attached int, err error) {
	all := slices.Contains(o.Targets, "all-linear")
	meant := map[string]bool{}
	for _, s := range m.root.stacked {
		hit := 0
		for _, name := range s.named {
			if all || slices.ContainsFunc(o.Targets, func(t string) bool { return t == name || strings.HasSuffix(t, "."+name) }) {
				hit++
				meant[name] = true
			}
		}
		switch {
		case hit == 0:
			continue
		case hit < len(s.named):
			return nil, 0, fmt.Errorf("lora_targets %s: %s are one weight in this model, and PEFT adapts all of them or none", strings.Join(o.Targets, ","), strings.Join(s.named, " and "))
		case o.DoRA || o.Dropout > 0:
			return nil, 0, fmt.Errorf("%s: PEFT adapts the weights of all experts as one parameter, which it refuses with dora and lora_dropout; leave those out, or name other lora_targets", strings.Join(s.named, ", "))
		}
		s.adapt(o)
		attached++
	}
	for _, t := range o.Targets {
		if !meant[t[strings.LastIndexByte(t, '.')+1:]] {
			targets = append(targets, t)
		}
	}
	return targets, attached, nil
}

// taken tells whether a linear layer's name means a stacked parameter of the model instead.
func (m *Module) taken(name string) bool {
	return slices.ContainsFunc(m.root.stacked, func(s *Stacked) bool { return slices.Contains(s.named, name) })
}

func (s *Stacked) adapt(o LoRA) {
	experts, out, in := s.shape()
	down, up := s.Child("lora_A").Child("default"), s.Child("lora_B").Child("default")
	rank := o.Rank * s.joined * experts
	s.a, s.b = down.ParamOf("weight", tensor.Float32, rank, in), up.ParamOf("weight", tensor.Float32, out, rank)
}

// Adapted is the parameter plus the product of its adapters, as a new tensor: what the module's call reads
// (https://github.com/huggingface/peft/blob/v0.19.0/src/peft/tuners/lora/layer.py, ParamWrapper).
func (s *Stacked) Adapted() (sum *Tensor) {
	experts, out, in := s.shape()
	w := s.Weight
	s.p.WithoutAutocast(func() {
		if w.Rank() == 2 {
			sum = w.Add(Matmul(s.b, s.a).MulScalar().To(w.DType))
			return
		}
		left := s.b.View(out, -1, experts).Permute(2, 0, 1).To(w.DType)
		right := s.a.View(experts, -1, in).To(w.DType)
		sum = Baddbmm(w, left, right)
	})
	return sum
}
