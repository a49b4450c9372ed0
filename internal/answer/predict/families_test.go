package predict

import (
	"fmt"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// shallow is a model of a family with the sizes of its class, but few layers.
func shallow(t *testing.T, family string, layers int) *hfconfig.Config {
	t.Helper()
	text := fmt.Sprintf(`{"model_type":%q,"num_hidden_layers":%[2]d,"n_layer":%[2]d,"encoder_layers":%[2]d,"decoder_layers":%[2]d,"num_layers":%[2]d,"n_layers":%[2]d}`, family, layers)
	c, err := hfconfig.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// small is a small job for a model of any task.
func small(c *hfconfig.Config) job.Job {
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: c.Task(), Batch: 2, Optimizer: "adamw"}
	switch j.Task {
	case "image-cls":
		j.Image = 224
		if c.Has("image_size") {
			j.Image = c.Int("image_size")
		}
	case "speech-seq2seq":
		j.TargetSeq = 32
	case "seq2seq-lm":
		j.Seq, j.TargetSeq = 64, 32
	default:
		j.Seq = 64
	}
	return j
}

// activations is the most that activations take at any instant.
func activations(t *tape.Tape) (peak units.Bytes) {
	var now units.Bytes
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind != tape.Alloc && e.Kind != tape.Free || t.Owners[e.Owner].Category != tape.Activations {
			continue
		}
		if e.Kind == tape.Alloc {
			now += e.Size
		} else {
			now -= e.Size
		}
		peak = max(peak, now)
	}
	return peak
}

// left is what is alive at the end of a tape, without libraries' workspaces.
func left(t *tape.Tape) units.Bytes {
	var sum units.Bytes
	for i := range t.Events {
		if e := &t.Events[i]; t.Owners[e.Owner].Category != tape.Workspace && e.Kind != tape.Mark {
			sum += e.Change()
		}
	}
	return sum
}

func TestRelationsHoldForEveryFamily(t *testing.T) {
	t.Parallel()
	m := h200(t)
	for _, family := range hfconfig.Supported() {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			c := shallow(t, family, 3)
			run := func(c *hfconfig.Config, change func(*job.Job)) (*tape.Tape, error) {
				j := small(c)
				change(&j)
				if err := j.Check(); err != nil {
					t.Fatal(err)
				}
				r, err := Run(j, Source{Config: c}, m)
				if err != nil {
					return nil, err
				}
				return r.Tape, nil
			}
			base, err := run(c, func(*job.Job) {})
			if err != nil {
				t.Fatal(err)
			}
			for what, change := range map[string]func(*job.Job){
				"batch":        func(j *job.Job) { j.Batch = 3 },
				"sequence":     func(j *job.Job) { j.Seq = min(j.Seq*2, 128) },
				"targets":      func(j *job.Job) { j.TargetSeq *= 2 },
				"accumulation": func(j *job.Job) { j.Accumulate = 2 },
			} {
				more, err := run(c, change)
				if err != nil {
					t.Errorf("more %s: %v", what, err)
				} else if requested(more) < requested(base) {
					t.Errorf("more %s: %d instead of %d bytes", what, requested(more), requested(base))
				}
			}
			if deeper, err := run(shallow(t, family, 4), func(*job.Job) {}); err != nil || requested(deeper) < requested(base) {
				t.Errorf("more layers: %v", err)
			}
			if half, err := run(c, func(j *job.Job) { j.ParamDType = "bf16" }); err != nil || requested(half) > requested(base) {
				t.Errorf("less precision needs more (%v)", err)
			}
			for _, checkpointing := range []bool{false, true} {
				away, err := run(c, func(j *job.Job) { j.OffloadActivations, j.Checkpointing = true, checkpointing })
				if err != nil && !checkpointing || err == nil && left(away) != left(base) {
					t.Errorf("activations on the host, checkpointing %v: something else is left (%v)", checkpointing, err)
				}
			}
			if again, err := run(c, func(j *job.Job) { j.Checkpointing = true }); err == nil && activations(again) > activations(base) {
				t.Errorf("checkpointing: %d bytes of activations instead of %d", activations(again), activations(base))
			}
		})
	}
}

func TestMoreShardingOfARealStepNeverNeedsMore(t *testing.T) {
	t.Parallel()
	m := h200(t)
	for _, family := range []string{"llama", "gpt2", "bert", "t5", "vit"} {
		c := shallow(t, family, 4)
		j := small(c)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		last := units.Bytes(1 << 62)
		for _, kind := range []setup.Sharding{"zero1", "zero2"} { // stage 3 leaves models as small as these gathered, beside its shares
			s := Spread{Tensor: 1}
			s.Plan.Kind, s.Plan.Ranks, s.Plan.Stages = kind, 8, 1
			r, err := RunSpread(j, Source{Config: c}, m, s)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Report.Sharded.Allocated; got > last {
				t.Errorf("%s with %s: %d bytes a rank, the plan before it %d", family, kind, got, last)
			} else {
				last = got
			}
		}
	}
}
