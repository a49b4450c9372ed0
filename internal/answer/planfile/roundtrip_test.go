package planfile

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// anySetup draws a way to run a model of transformers on one card or several.
func anySetup(t *rapid.T) setup.Setup {
	s := setup.Setup{
		MicroBatch: rapid.IntRange(1, 64).Draw(t, "micro-batch"), Accumulate: rapid.IntRange(1, 16).Draw(t, "accumulate"),
		Precision: torch.Precision(rapid.SampledFrom(torch.Precisions()).Draw(t, "precision")),
		Optimizer: torch.Optimizer(rapid.SampledFrom(torch.Optimizers()).Draw(t, "optimizer")),
		Attn:      rapid.SampledFrom(setup.Attentions()).Draw(t, "attention"), Loop: setup.Function,
		Conf:    rapid.SampledFrom([]string{"", torch.ExpandableSegments}).Draw(t, "settings"),
		Offload: rapid.SampledFrom(append(setup.Offloads(), "", "", "")).Draw(t, "offload"), GPUs: 1,
	}.Checkpointed(rapid.IntRange(-1, 3).Draw(t, "layers"))
	if rapid.Bool().Draw(t, "several cards") {
		s.GPUs, s.Sharding = rapid.SampledFrom([]int{2, 3, 4, 8, 12, 16, 24, 64}).Draw(t, "cards"), rapid.SampledFrom(setup.Shardings()).Draw(t, "sharding")
	}
	if s.Sharding == setup.FSDP2 && s.GPUs%2 == 0 {
		s.Context = rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "context")
	}
	if rapid.IntRange(0, 3).Draw(t, "adapters") == 0 {
		s.Adapters = setup.Adapters{
			LoRARank: rapid.IntRange(1, 256).Draw(t, "rank"), LoRATargets: rapid.SampledFrom([]string{"q_proj,v_proj", "all-linear", "c_attn"}).Draw(t, "targets"),
			LoRADropout: rapid.SampledFrom([]float64{0, 0.05, 0.1}).Draw(t, "dropout"), BaseBits: rapid.SampledFrom([]int{0, 4}).Draw(t, "bits"),
		}
	}
	return s
}

// What is written is what was predicted: reading a file gives the description that memory was computed from.
func TestWhatIsWrittenReadsBackAsTheSameDescription(t *testing.T) {
	t.Parallel()
	for _, f := range formats() {
		if f.read == nil {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			wrote := 0
			rapid.Check(t, func(t *rapid.T) {
				m := Model{Hub: true, Family: "llama", Task: "causal-lm", Seq: 128, Sizes: small}
				s := anySetup(t)
				s.Code = f.code
				for range 50 { // most ways have no words in most forms
					if Can(f.name, s, m) == nil {
						break
					}
					s = anySetup(t)
					s.Code = f.code
				}
				text, err := Write(f.name, report.Plan{Setup: s, OfLayers: 4}, m)
				var refused *Refusal
				if errors.As(err, &refused) {
					if refused.Why == "" {
						t.Fatalf("%+v is refused without a reason", s)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				wrote++
				got, err := Read(f.name, text)
				if err != nil {
					t.Fatal(err)
				}
				f.silent(&s)
				f.silent(&got)
				want, err := s.Lower()
				if err != nil {
					t.Fatal(err)
				}
				if back, err := got.Lower(); err != nil || back != want {
					t.Fatalf("%s\nreads as %+v (%v)\nwant     %+v", text, back, err, want)
				}
			})
			if wrote == 0 {
				t.Error("nothing was written")
			}
		})
	}
}

func TestFormsWithALoopOfTheirOwnFreeOutputsBeforeBackward(t *testing.T) {
	t.Parallel()
	for _, f := range formats() {
		loop, zero := Loop(f.name)
		users := f.name == "accelerate" || f.name == "deepspeed" || f.name == "torchrun"
		if (loop == "") != users || loop != "" && loop != setup.LossOnly {
			t.Errorf("%s: loop %q", f.name, loop)
		}
		if (zero != "") != (f.name == "lightning") {
			t.Errorf("%s: gradients let go %q", f.name, zero)
		}
	}
}
