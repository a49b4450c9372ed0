package predict

import (
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/units"
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

// A workspace that is not taken leaves no segment: what would have been placed there pins a large free block, and the next large request needs another.
func TestTheBoundHoldsWhereNoWorkspaceIsTaken(t *testing.T) {
	var tp tape.Tape
	tp.Streams, tp.Pools, tp.Owners = []uint64{0}, make([][2]uint64, 1), make([]tape.Owner, 1)
	alloc := func(size units.Bytes, elastic bool) uint32 {
		tp.Events = append(tp.Events, tape.Event{Kind: tape.Alloc, ID: uint32(tp.Allocs), Size: size, Elastic: elastic})
		tp.Allocs++
		return uint32(tp.Allocs - 1)
	}
	free := func(id uint32) { tp.Events = append(tp.Events, tape.Event{Kind: tape.Free, ID: id}) }
	free(alloc(220*units.MiB, true))
	free(alloc(4*units.GiB, false))
	alloc(16*units.MiB, false)
	alloc(4*units.GiB, false)
	m := h200(t)
	with, err := play(&tp, m)
	if err != nil {
		t.Fatal(err)
	}
	safe, err := withoutWorkspaces(with.reserved, &tp, m)
	if err != nil {
		t.Fatal(err)
	}
	if with.reserved > 5*units.GiB || safe < 8*units.GiB {
		t.Errorf("reserved %s with the workspace, bound %s: want one segment of 4 GiB, and room for two", with.reserved, safe)
	}
}
