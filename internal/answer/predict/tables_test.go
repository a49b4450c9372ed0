package predict

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// tableRow is a row of llm-tables.jsonl: what others published.
type tableRow struct {
	Set      string  `json:"set"`
	Model    string  `json:"model"`
	AC       string  `json:"ac"`
	Scaling  string  `json:"scaling"`
	Compile  bool    `json:"compile"`
	FP8      bool    `json:"fp8"`
	Seq      int     `json:"seq"`
	Batch    int     `json:"batch_per_gpu"`
	GPUs     int     `json:"gpus"`
	PeakGB   any     `json:"peak_gb"`
	MemGiB   float64 `json:"mem_gib"`
	Parallel string  `json:"parallel"`

	Technique string  `json:"technique"` // torchtune's ladder: what is added to the row before
	Step      int     `json:"step"`
	Active    float64 `json:"active_gib"`
}

// uncovered says why a row is not predicted; "" where it is. Nothing is predicted that would need a guess about the row or its engine.
func (r tableRow) uncovered() string {
	low := r.FP8 || slices.ContainsFunc([]string{"fp8", "mxfp8", "nvfp4", "int8"}, func(s string) bool { return strings.HasPrefix(r.Scaling, s) })
	switch {
	case strings.HasPrefix(r.Set, "litgpt"):
		return "LitGPT has model code of its own and is no format of fit"
	case r.Set == "torchtune-ladder":
		return tuneSteps[r.Step]
	case strings.Contains(r.Model, "torchtune"):
		return "batch and sequence are not given"
	case strings.HasPrefix(r.Set, "peft"):
		return "batch and sequence are not given"
	case strings.Contains(r.Model, "timm"):
		return "timm's model code is not built in"
	case r.Compile || strings.Contains(r.Scaling, "compile") && r.Scaling != "fp8nocompile":
		return "torch.compile is not predicted"
	case low:
		return "float8 and narrower products are not predicted"
	case r.Set == "torchao-int8qt":
		return "torchao's own benchmark model is not written here"
	}
	return ""
}

// opsKept are the bytes that torchtitan's selective checkpointing by operators keeps of a token in a layer of Llama 3 8B beyond the layer's input: the output of attention with a number a head in
// fp32, and of the products in their order (queries, keys, values, output, gate, up, down) every other one.
// https://github.com/pytorch/torchtitan/blob/ba2469780da5a689e856e21ab9664ab1bed4fdd5/torchtitan/parallelisms/parallelize_llama.py#L254
const opsKept = 2*4096 + 4*32 + 2*(4096+1024+14336+4096)

// byOperators tells that a row keeps the outputs of some operators; torchtitan's llama3_8b.toml of that time has selective_ac_option = 'op'.
func (r tableRow) byOperators() bool { return r.AC == "selective" }

// tuneSteps say why steps of torchtune's table are not predicted. Each adds to the one before: all from the second on are compiled.
var tuneSteps = map[int]string{
	0: "samples of unknown lengths", 2: "torch.compile is not predicted", 3: "torch.compile is not predicted", 4: "torch.compile is not predicted",
	5: "torch.compile and an optimizer in backward are not predicted", 6: "torch.compile and an optimizer in backward are not predicted",
	7: "torch.compile and an optimizer in backward are not predicted", 8: "torch.compile is not predicted", 9: "torch.compile is not predicted",
}

const llama3B = `{"model_type":"llama","hidden_size":3072,"intermediate_size":8192,"num_hidden_layers":28,"num_attention_heads":24,"num_key_value_heads":8,"head_dim":128,"vocab_size":128256,"max_position_embeddings":131072,"tie_word_embeddings":true}`

// tuned is the packed row of torchtune's ladder, GiB in use: full fine-tuning in bf16 with AdamW, CrossEntropyLoss on all logits. Its attention over packed samples
// (flex_attention) keeps what scaled_dot_product_attention keeps.
func (r tableRow) tuned(tb testing.TB) float64 {
	tb.Helper()
	c, err := hfconfig.Parse([]byte(llama3B))
	if err != nil {
		tb.Fatal(err)
	}
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 2, Seq: r.Seq, ParamDType: "bf16", Optimizer: "adamw-fused", Code: setup.TorchtuneWhole, Loop: setup.LossOnly}
	if err := j.Check(); err != nil {
		tb.Fatal(err)
	}
	need, err := NewVariants(Source{Config: c}, Machine{Card: h100(tb)}).Need(j, alloc.Conf{}, Spread{})
	if err != nil {
		tb.Fatal(err)
	}
	return float64(need.Allocated) / float64(units.GiB)
}

// layers are those that a row checkpoints, -1 for all.
func (r tableRow) layers() int {
	return map[string]int{"none": 0, "every 2nd layer": 16, "full": -1, "selective": -1}[r.AC]
}

// predicted is a row through the lowering that fit --write torchtitan uses, GiB.
func (r tableRow) predicted(tb testing.TB) float64 {
	tb.Helper()
	c, err := hfconfig.Parse([]byte(llama8B))
	if err != nil {
		tb.Fatal(err)
	}
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: max(1, r.Batch), Seq: r.Seq, Code: setup.Torchtitan2025, Loop: setup.LossOnly}
	j.Autocast = "bf16"
	if err := j.Check(); err != nil {
		tb.Fatal(err)
	}
	s := j.Setup().Checkpointed(r.layers())
	s.GPUs, s.Sharding = max(8, r.GPUs), setup.FSDP2
	l, err := s.Lower()
	if err != nil {
		tb.Fatal(err)
	}
	m := Machine{Card: h100(tb), Torch: version(j)}
	plan := shard.Plan{Kind: s.Sharding, Ranks: s.GPUs, Masters: l.Masters, Code: s.Code}
	need, err := NewVariants(Source{Config: c}, m).Need(j.With(l.Compute), alloc.Conf{Expandable: true}, Spread{Plan: plan})
	if err != nil {
		tb.Fatal(err)
	}
	if r.byOperators() { // all of it is there when the loss is, which is the highest moment
		need.Reserved += units.Bytes(c.Int("num_hidden_layers") * j.Batch * j.Seq * opsKept)
	}
	return float64(need.Reserved) / float64(units.GiB)
}

// medianAndMost are the two columns of a source's errors, in percent.
func medianAndMost(errors []float64) string {
	if len(errors) == 0 {
		return "– | –"
	}
	slices.Sort(errors)
	n := len(errors)
	return fmt.Sprintf("%.2f %% | %.2f %%", (errors[(n-1)/2]+errors[n/2])/2, errors[n-1])
}

// TestPublicTables prints a table of public rows, predicted and measured, where PLIMSOLL_LLM_TABLES names the file (make llm-tables). The rows are others' and
// not part of this repository.
func TestPublicTables(t *testing.T) {
	t.Parallel()
	path := os.Getenv("PLIMSOLL_LLM_TABLES")
	if path == "" {
		t.Skip("PLIMSOLL_LLM_TABLES names no file (make llm-tables)")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	total, left, rows := map[string]int{}, map[string]map[string]int{}, []string{}
	errors := map[string][]float64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r tableRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		total[r.Set]++
		if why := r.uncovered(); why != "" {
			if left[r.Set] == nil {
				left[r.Set] = map[string]int{}
			}
			left[r.Set][why]++
			continue
		}
		measured, _ := r.PeakGB.(float64)
		if r.MemGiB > 0 {
			measured = r.MemGiB
		}
		var got float64
		if r.Set == "torchtune-ladder" {
			measured, got, r.AC = r.Active, r.tuned(t), "none"
		} else {
			got = r.predicted(t)
		}
		batch := max(1, r.Batch)
		if r.Set == "torchtune-ladder" {
			batch = 2
		}
		off := 100 * (got/measured - 1)
		errors[r.Set] = append(errors[r.Set], math.Abs(off))
		rows = append(rows, fmt.Sprintf("| %s | %s, %d × %d tokens, checkpointing %s | %.2f | %+.2f %% |", r.Set, r.Model, batch, r.Seq, r.AC, measured, off))
		if math.Abs(off) > 5 {
			t.Errorf("%s, %s: %.2f GiB predicted, %.2f measured", r.Set, r.AC, got, measured)
		}
	}
	fmt.Println("| source | row | measured, GiB | predicted |\n| --- | --- | ---: | ---: |")
	fmt.Println(strings.Join(rows, "\n"))
	fmt.Println("\n| source | rows | predicted | median error | largest error | the others are not predicted: |\n| --- | ---: | ---: | ---: | ---: | --- |")
	for _, set := range slices.Sorted(maps.Keys(total)) {
		var why []string
		for _, w := range slices.Sorted(maps.Keys(left[set])) {
			why = append(why, fmt.Sprintf("%d: %s", left[set][w], w))
		}
		fmt.Printf("| %s | %d | %d | %s | %s |\n", set, total[set], len(errors[set]), medianAndMost(errors[set]), strings.Join(why, "; "))
	}
}
