package predict

import (
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
)

// With cudnn.benchmark the convolutions of a job try out plans: the bound is not below the one without, and the answer says what is needed after the trials. A
// model without convolutions is left as it is.
func TestTrialsOfConvolutionsRaiseTheBound(t *testing.T) {
	t.Parallel()
	card, err := gpu.Find("h200")
	if err != nil {
		t.Fatal(err)
	}
	const vit = `{"model_type":"vit","hidden_size":192,"intermediate_size":768,"num_hidden_layers":2,"num_attention_heads":3,"image_size":224,"patch_size":16,"num_channels":3}`
	const llama = `{"model_type":"llama","hidden_size":256,"intermediate_size":704,"num_hidden_layers":2,"num_attention_heads":8,"num_key_value_heads":2,"vocab_size":1000}`
	for name, c := range map[string]struct {
		config string
		job    job.Job
		tries  bool
	}{
		"convolutions": {vit, job.Job{Task: "image-cls", Batch: 16, Image: 224, ParamDType: "fp32"}, true},
		"none":         {llama, job.Job{Task: "causal-lm", Batch: 2, Seq: 64, ParamDType: "fp32"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := hfconfig.Parse([]byte(c.config))
			if err != nil {
				t.Fatal(err)
			}
			j := c.job
			j.Source, j.Config = "hf", []byte(c.config)
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			plain, err := Run(j, Source{Config: config}, Machine{Card: card})
			if err != nil {
				t.Fatal(err)
			}
			j.Benchmark = true
			on, err := Run(j, Source{Config: config}, Machine{Card: card})
			if err != nil {
				t.Fatal(err)
			}
			r, trials := on.Report, on.Report.Trials
			said := slices.ContainsFunc(r.Assumptions, func(a string) bool { return strings.HasPrefix(a, "cudnn.benchmark is on") })
			if said != c.tries || (trials != nil) != c.tries || r.Safe < plain.Report.Safe {
				t.Errorf("trials %+v, said %v, bound %s; without: %s", trials, said, r.Safe, plain.Report.Safe)
			}
			if c.tries && (trials.Needed > trials.First || r.Safe <= plain.Report.Safe) {
				t.Errorf("trials %+v, bound %s; without: %s", trials, r.Safe, plain.Report.Safe)
			}
		})
	}
}
