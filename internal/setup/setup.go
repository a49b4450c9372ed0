// Package setup is one way to run a training job: every choice that plimsoll fit makes, as one comparable value.
//
// It takes words of the command line and returns a Setup, which is the point of a search, the key of what was already computed (with the fields that do not matter
// set to zero), and what a plan reports and writes. Refused: words that are not known, with the nearest one.
package setup

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/spelling"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// Setup is one way to run a job. It is comparable.
type Setup struct {
	MicroBatch    int             `json:"micro_batch"`
	Accumulate    int             `json:"accumulate"`
	Precision     torch.Precision `json:"precision"`
	Checkpointing Checkpointing   `json:"checkpointing"`
	Layers        int             `json:"checkpoint_layers,omitempty"` // selective: so many layers
	Optimizer     torch.Optimizer `json:"optimizer"`
	Attn          Attention       `json:"attn,omitempty"`
	Loop          Loop            `json:"loop,omitempty"`
	Conf          string          `json:"alloc_conf,omitempty"` // allocator settings; "" are the machine's
	Offload       Offload         `json:"offload,omitempty"`
	GPUs          int             `json:"gpus"`
	Sharding      Sharding        `json:"sharding,omitempty"`
	Code          Code            `json:"code,omitempty"`
	Context       int             `json:"context,omitempty"` // cards that divide the tokens of every sample; 0: none do
	Cut
	Adapters
}

// Adapters are low-rank adapters instead of full training; none where the rank is 0.
type Adapters struct {
	LoRARank    int     `json:"lora_rank,omitempty"`
	LoRATargets string  `json:"lora_targets,omitempty"` // last names of linear layers, separated by commas
	LoRADropout float64 `json:"lora_dropout,omitempty"`
	BaseBits    int     `json:"base_bits,omitempty"` // 4: the frozen base is quantized (QLoRA)
}

// Method is what people call the way to fine-tune: full, LoRA, QLoRA.
func (a Adapters) Method() string {
	switch {
	case a.LoRARank == 0:
		return "full"
	case a.BaseBits == 4:
		return "QLoRA"
	}
	return "LoRA"
}

// Cut is how several cards divide a model: Tensor of them share every layer, Stages of them follow each other; 0 where there is nothing to share.
type Cut struct {
	Tensor int `json:"tensor,omitempty"`
	Stages int `json:"stages,omitempty"`
}

// NewCut gives a cut its one form: 1 means nothing to share.
func NewCut(tensor, stages int) Cut {
	var c Cut
	if tensor > 1 {
		c.Tensor = tensor
	}
	if stages > 1 {
		c.Stages = stages
	}
	return c
}

// Cards is how many cards hold one copy of the model.
func (c Cut) Cards() int { return max(c.Tensor, 1) * max(c.Stages, 1) }

// Whole tells that the model is not cut.
func (c Cut) Whole() bool { return c.Cards() == 1 }

// Ranks is how many copies of the model see different data: other samples or, under context parallelism, other tokens of the same ones.
func (s Setup) Ranks() int { return max(s.GPUs, 1) / s.Cards() }

// Groups is how many groups of cards see different samples.
func (s Setup) Groups() int { return s.Ranks() / max(1, s.Context) }

// PerMachine is how many cards share a machine: DGX and HGX systems have eight.
const PerMachine = 8

// Shards is how many of some ranks share one copy of what they divide.
func (k Sharding) Shards(ranks int) int {
	if k == HSDP {
		return min(ranks, PerMachine)
	}
	return ranks
}

// Possible refuses ranks that cannot divide what they hold so.
func (k Sharding) Possible(ranks int) error {
	if k == HSDP && (ranks <= PerMachine || ranks%PerMachine != 0) {
		return fmt.Errorf("hsdp keeps a copy of the model on each machine of %d cards, which needs a multiple of them, not %d; --sharding fsdp2 has one copy", PerMachine, ranks)
	}
	return nil
}

// Copies is how many copies of the model the ranks hold together, 1 unless each machine has its own.
func (s Setup) Copies() int { return s.Ranks() / max(1, s.Sharding.Shards(s.Ranks())) }

// Checkpointed is the setup with so many layers computed again: 0 for none, -1 for all.
func (s Setup) Checkpointed(layers int) Setup {
	s.Layers = max(layers, 0)
	switch {
	case layers == 0:
		s.Checkpointing = None
	case layers < 0:
		s.Checkpointing = Full
	default:
		s.Checkpointing = Selective
	}
	return s
}

// Code is whose modelling code runs: a framework may have its own of a model that transformers has too, which saves other tensors.
type Code string

// The codes; "" is transformers', or the model's own.
const (
	Torchtitan     Code = "torchtitan"         // 0.2
	Torchtitan2025 Code = "torchtitan-2025-01" // as of January 2025, on PyTorch 2.6
	TRL            Code = "trl"                // 1.16: transformers' models with a loss of its own
	Torchtune      Code = "torchtune"          // 0.6, with CEWithChunkedOutputLoss
	TorchtuneWhole Code = "torchtune-whole"    // the same with nn.CrossEntropyLoss on all logits at once
)

var codes = []Code{Torchtitan, Torchtitan2025, TRL, Torchtune, TorchtuneWhole}

// Codes lists the words for modelling code other than transformers'.
func Codes() []Code { return codes }

// Checkpointing is which layers are computed again in backward.
type Checkpointing string

// The ways to checkpoint.
const (
	None      Checkpointing = "none"
	Selective Checkpointing = "selective" // the layers that are cheapest to run again, as few as have to be
	Full      Checkpointing = "full"
)

// Attention is the implementation of attention in models of transformers.
type Attention string

// The implementations.
const (
	SDPA            Attention = "sdpa"
	EagerAttention  Attention = "eager"
	FlashAttention2 Attention = "flash_attention_2" // the package flash-attn
)

// Runs refuses a precision that an implementation of attention does not compute in.
func (a Attention) Runs(p torch.Precision) error {
	if a == FlashAttention2 && p.Autocast() == "" && p.Params() == torch.FP32 {
		return fmt.Errorf("attn %s computes in bf16 and fp16 only, and this job is in fp32: set --precision bf16 or amp-bf16, or --attn sdpa", a)
	}
	return nil
}

// Loop is what a training loop still refers to while the next forward runs.
type Loop string

// The loops.
const (
	Function Loop = "function" // the step is a function: its locals are gone
	LossOnly Loop = "loss"     // as a function, which keeps only the loss: the model's outputs are gone before backward
	Plain    Loop = "plain"    // inputs, outputs and loss of the last iteration
	Script   Loop = "script"   // all of those but the batch
	Kept     Loop = "kept"     // the step is a function that returns them: those of the last step live until the next has returned
)

// Load is how a model gets onto the card.
type Load string

// The ways.
const (
	LoadCard   Load = "card"       // built there, under torch.device("cuda"): a weight that is tied later exists until then
	LoadHost   Load = "host"       // built on the host, or read there by from_pretrained, and moved
	LoadMapped Load = "device_map" // from_pretrained(device_map="cuda"): weights are read into one block of their size
)

// Offload is what is kept on the host.
type Offload string

// What may be there; "" is nothing.
const (
	OffloadNone        Offload = ""
	OffloadOptimizer   Offload = "optimizer"   // its state and its step
	OffloadActivations Offload = "activations" // what autograd saves: torch.autograd.graph.save_on_cpu
	OffloadBoth        Offload = "both"
)

// Has tells whether something is on the host.
func (o Offload) Has(what Offload) bool { return o == what || o == OffloadBoth }

// Without takes one thing off the host again.
func (o Offload) Without(what Offload) Offload {
	switch {
	case o == what:
		return OffloadNone
	case o == OffloadBoth && what == OffloadOptimizer:
		return OffloadActivations
	case o == OffloadBoth:
		return OffloadOptimizer
	}
	return o
}

// Sharding is how ranks that see different data divide what they hold.
type Sharding string

// The ways; "" is one rank.
const (
	Unsharded Sharding = ""
	DDP       Sharding = "ddp"
	ZeRO1     Sharding = "zero1"
	ZeRO2     Sharding = "zero2"
	ZeRO3     Sharding = "zero3"
	HSDP      Sharding = "hsdp" // fully_shard over the cards of a machine, copies among machines
	FSDP2     Sharding = "fsdp2"
)

// Words of each axis, as the command line spells them.
var (
	checkpointings = []Checkpointing{None, Full, Selective}
	attentions     = []Attention{SDPA, EagerAttention, FlashAttention2}
	loads          = []Load{LoadCard, LoadHost, LoadMapped}
	loops          = []Loop{Function, LossOnly, Plain, Script, Kept}
	offloads       = []Offload{OffloadOptimizer, OffloadActivations, OffloadBoth}
	shardings      = []Sharding{DDP, ZeRO1, ZeRO2, ZeRO3, FSDP2, HSDP}
)

// Attentions, Loops, Offloads and Shardings list the words.
func Attentions() []Attention { return attentions }

// Loads lists the words for loading.
func Loads() []Load { return loads }

// Loops lists the words for loops.
func Loops() []Loop { return loops }

// Offloads lists what may be on the host.
func Offloads() []Offload { return offloads }

// Shardings lists the ways to spread a job over ranks that see different data.
func Shardings() []Sharding { return shardings }

// ParseCheckpointing reads a word.
func ParseCheckpointing(word string) (Checkpointing, error) {
	switch plain(word) {
	case "true", "on", "yes", "all":
		return Full, nil
	case "false", "off", "no":
		return None, nil
	}
	return parse("checkpointing", word, checkpointings)
}

// ParseAttention reads a word. flash_attention_3 and a bare "flash" mean flash_attention_2: the kernels for Hopper save the same tensors, queries, keys, values, the output and a number
// for each row and head (https://github.com/Dao-AILab/flash-attention/blob/v2.8.3/hopper/flash_attn_interface.py, FlashAttnFunc).
func ParseAttention(word string) (Attention, error) {
	if strings.HasPrefix(plain(word), "flash") {
		return FlashAttention2, nil
	}
	return parse("attn", word, attentions)
}

// ParseLoop reads a word.
func ParseLoop(word string) (Loop, error) { return parse("loop", word, loops) }

// ParseOffload reads a word; "none" is nothing.
func ParseOffload(word string) (Offload, error) {
	if word == string(None) {
		return OffloadNone, nil
	}
	return parse("offload", word, offloads)
}

// ParseSharding reads a word.
func ParseSharding(word string) (Sharding, error) {
	if why := unpredicted[plain(word)]; why != "" {
		return "", fmt.Errorf("sharding %.30q is not searched: %s", word, why)
	}
	return parse("sharding", word, shardings)
}

// unpredicted are ways to use several cards that people ask for, and what to ask instead: a plan for them would be a guess.
var unpredicted = map[string]string{
	"cp":              context,
	"contextparallel": context,
	"ep":              experts,
	"expertparallel":  experts,
}

const (
	context = "context parallelism has a flag of its own: --context 2,4 --write torchtitan"
	experts = "of the frameworks that plans are written for, torchtitan alone has expert parallelism, and only for models of its own that are not predicted " +
		"(DeepSeek-V3, Llama 4, Qwen3 MoE); fsdp2 shards experts as other layers"
)

func parse[T ~string](axis, word string, known []T) (T, error) {
	for _, k := range known {
		if plain(string(k)) == plain(word) {
			return k, nil
		}
	}
	return "", fmt.Errorf("%s %.30q is not known%s", axis, word, spelling.Hint(word, Words(known)))
}

// plain is a word without what spellings differ in: ZeRO-3, zero_3 and zero3 are the same.
func plain(word string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(word))
}

// Words are words as plain strings.
func Words[T ~string](known []T) []string {
	out := make([]string, len(known))
	for i, k := range known {
		out[i] = string(k)
	}
	return out
}
