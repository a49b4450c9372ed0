package planfile

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// Sizes are what torchtune's builders need to know of a Llama.
type Sizes struct {
	Vocab, Layers, Heads, KeyHeads, HeadDim, Width, Inner, Positions int
	Epsilon                                                          float64
	RopeBase, RopeFactor                                             float64 // 0: scaled in a way that its builder does not know
	Tied, Biased                                                     bool
}

// SizesOf reads them off a configuration and its text, which has what memory does not depend on; nothing of families torchtune's code is not written for.
func SizesOf(c *hfconfig.Config, text []byte) Sizes {
	if c.Family.Elsewhere == "" {
		return Sizes{}
	}
	s := Sizes{
		Vocab: c.Int("vocab_size"), Layers: c.Int("num_hidden_layers"), Heads: c.Int("num_attention_heads"), KeyHeads: c.Int("num_key_value_heads"),
		HeadDim: cmp.Or(c.Int("head_dim"), c.Int("hidden_size")/max(1, c.Int("num_attention_heads"))),
		Width:   c.Int("hidden_size"), Inner: c.Int("intermediate_size"), Positions: c.Int("max_position_embeddings"),
		Tied: c.Bool("tie_word_embeddings"), Biased: c.Bool("attention_bias") || c.Bool("mlp_bias"), RopeFactor: 1,
	}
	type rope struct {
		Base   float64 `json:"rope_theta"`
		Kind   string  `json:"rope_type"`
		Factor float64 `json:"factor"`
	}
	var said struct {
		rope
		Epsilon float64 `json:"rms_norm_eps"`
		Scaling rope    `json:"rope_scaling"`    // before transformers 5
		All     rope    `json:"rope_parameters"` // since
	}
	_ = json.Unmarshal(text, &said)        // hfconfig has read it
	s.Epsilon = cmp.Or(said.Epsilon, 1e-6) // LlamaConfig's own
	s.RopeBase = cmp.Or(said.All.Base, said.Base, 10000)
	switch scaling := (rope{Kind: cmp.Or(said.All.Kind, said.Scaling.Kind), Factor: cmp.Or(said.All.Factor, said.Scaling.Factor)}); scaling.Kind {
	case "", "default":
	case "llama3":
		s.RopeFactor = scaling.Factor
	default:
		s.RopeFactor = 0
	}
	return s
}

// tuneNames are torchtune's names of the attention's linear layers, by their last names in transformers; tuneMLP those of the MLP, which it adapts together.
var (
	tuneNames = [][2]string{{"q_proj", "q_proj"}, {"k_proj", "k_proj"}, {"v_proj", "v_proj"}, {"o_proj", "output_proj"}}
	tuneMLP   = []string{"gate_proj", "up_proj", "down_proj"}
)

// tuneTargets are the layers with adapters as torchtune says them; false where it has no words.
func (v view) tuneTargets() (attention []string, mlp, ok bool) {
	if v.LoRATargets == allLinear {
		for _, n := range tuneNames {
			attention = append(attention, n[1])
		}
		return attention, true, true
	}
	left := strings.Split(v.LoRATargets, ",")
	take := func(name string) bool {
		i := slices.Index(left, name)
		if i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
		return i >= 0
	}
	for _, n := range tuneNames {
		if take(n[0]) {
			attention = append(attention, n[1])
		}
	}
	adapted := 0
	for _, n := range tuneMLP {
		if take(n) {
			adapted++
		}
	}
	return attention, adapted > 0, len(left) == 0 && (adapted == 0 || adapted == len(tuneMLP)) && len(attention) > 0
}

// RopeBase is rope_base as a whole number: YAML reads 1e+06 as a word.
func (v view) RopeBase() string { return strconv.FormatFloat(v.Model.Sizes.RopeBase, 'f', -1, 64) }

// TuneModules and TuneMLP are lora_attn_modules and apply_lora_to_mlp.
func (v view) TuneModules() string {
	names, _, _ := v.tuneTargets()
	return "[" + strings.Join(names, ", ") + "]"
}

// TuneMLP tells whether the MLP has adapters.
func (v view) TuneMLP() bool {
	_, mlp, _ := v.tuneTargets()
	return mlp
}

// TuneArguments are the optimizer's arguments as lines of YAML.
func (v view) TuneArguments() []string {
	var out []string
	for a := range strings.SplitSeq(v.Kind.Spelled.Arguments, ", ") {
		if name, value, ok := strings.Cut(a, "="); ok {
			out = append(out, name+": "+strings.ToLower(value))
		}
	}
	if a := strings.TrimPrefix(v.Form(), ", "); a != "" {
		name, value, _ := strings.Cut(a, "=")
		out = append(out, name+": "+strings.ToLower(value))
	}
	return out
}

// canTorchtune: its recipes for one card, with the model that its builder llama3_2 makes.
func canTorchtune(v view) *Refusal {
	if r := first(common(v), onlyTorch(v, "torchtune's recipes")); r != nil {
		return r
	}
	family, _ := hfconfig.FamilyOf(v.Model.Family)
	sizes := v.Model.Sizes
	switch {
	case !v.Hub() || family.Elsewhere == "":
		return refuse("--write torch or trainer", "torchtune has model code of its own, and that of %s is not predicted", v.Model.Family)
	case sizes.Biased || sizes.HeadDim*sizes.Heads != sizes.Width:
		return refuse("--write torch or trainer", "torchtune's Llama has no biases, and heads of width/heads")
	case sizes.RopeFactor == 0:
		return refuse("--write torch or trainer", "torchtune's Llama does not scale positions the way this configuration does")
	case v.GPUs > 1:
		return refuse("--write fsdp2", "torchtune on several cards is not predicted")
	case v.Precision != torch.PureBF16 && v.Precision != torch.PlainFP32:
		return refuse("--precision bf16 or fp32", "torchtune's dtype is bf16 or fp32, without autocast")
	case v.Checkpointing == setup.Selective:
		return refuse("--checkpointing none,full", "torchtune checkpoints every layer or none")
	case v.Attn != setup.SDPA:
		return refuse("--attn sdpa", "torchtune's attention is scaled_dot_product_attention")
	}
	if _, _, ok := v.tuneTargets(); v.LoRARank > 0 && !ok {
		return refuse("--lora-targets q_proj,v_proj or all-linear", "torchtune adapts projections of the attention, with all of the MLP or none of it, not %s", v.LoRATargets)
	}
	return nil
}

func readTorchtune(text string) (setup.Setup, error) {
	t := uncommented(text)
	s := setup.Setup{
		MicroBatch: t.number(`\nbatch_size: (\d+)`), Accumulate: t.number(`gradient_accumulation_steps: (\d+)`), GPUs: 1, Checkpointing: setup.None, Code: setup.Torchtune,
		Attn: setup.SDPA, Conf: source(text).value(`PYTORCH_CUDA_ALLOC_CONF=(\S+)`), Precision: torch.PlainFP32,
	}
	if t.has("enable_activation_checkpointing: true") {
		s.Checkpointing = setup.Full
	}
	if t.value(`\ndtype: (\w+)`) == string(torch.BF16) {
		s.Precision = torch.PureBF16
	}
	s.Optimizer = tuneOptimizer(t.value(`optimizer:\n  _component_: (\S+)`), t.value(`optimizer:\n  _component_: \S+\n((?:  .*\n)*)`))
	if s.LoRARank = t.number(`lora_rank: (\d+)`); s.LoRARank == 0 {
		return s, nil
	}
	s.LoRADropout, _ = strconv.ParseFloat(t.value(`lora_dropout: ([\d.e-]+)`), 64)
	if t.has("quantize_base: true") {
		s.BaseBits = 4
	}
	var names []string
	adapted := strings.Split(list(t.value(`lora_attn_modules: (.*)`)), ",")
	for _, n := range tuneNames {
		if slices.Contains(adapted, n[1]) {
			names = append(names, n[0])
		}
	}
	if t.has("apply_lora_to_mlp: true") {
		names = append(names, tuneMLP...)
	}
	s.LoRATargets = strings.Join(names, ",")
	return s, nil
}

// tuneOptimizer finds an optimizer by its class and the lines of its arguments.
func tuneOptimizer(class, lines string) torch.Optimizer {
	for _, a := range torch.Algorithms() {
		for form := range a.Steps {
			v := view{Kind: a}
			v.Optimizer = a.In(form)
			want := ""
			for _, l := range v.TuneArguments() {
				want += "  " + l + "\n"
			}
			if a.Spelled.Class == class && want == lines {
				return v.Optimizer
			}
		}
	}
	return ""
}

// silentTorchtune: every linear layer named one by one is every linear layer.
func silentTorchtune(s *setup.Setup) {
	s.Loop = ""
	if s.LoRATargets == allLinear {
		var names []string
		for _, n := range tuneNames {
			names = append(names, n[0])
		}
		s.LoRATargets = strings.Join(append(names, tuneMLP...), ",")
	}
}
