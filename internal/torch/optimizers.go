package torch

import (
	"slices"
	"strings"
)

// Likeness is the shape of a state tensor.
type Likeness uint8

// The shapes.
const (
	Whole          Likeness = iota // as the parameter, in its type
	Scalar                         // one fp32 number on the card
	Factored                       // a row and a column for matrices, whole for vectors
	Hidden                         // as the parameter, for matrices that are neither embedding nor head
	Others                         // as the parameter, for those that Hidden leaves out
	Quantized                      // one byte an element and maxima by blocks of 256; fp32 below 4096 elements (bitsandbytes)
	Paged                          // fp32 in managed memory, which PyTorch's allocator does not count; on the card below PagedFrom elements
	PagedQuantized                 // as Quantized, the bytes in managed memory from PagedFrom elements on, the maxima on the card
	LowRank                        // GaLoreRank rows or columns of a hidden matrix; whole for other parameters
	Projector                      // the matrix that projects a hidden matrix on those, in memory that holds all of a decomposition's side where it is fp32
)

// PagedFrom is the number of elements from which bitsandbytes pages a state.
// https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/optim/optimizer.py#L383
const PagedFrom = 100_000

// GaLoreRank is the rank that the Trainer gives GaLore by default.
// https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/trainer_optimizer.py#L374
const GaLoreRank = 128

// shares are a state's bytes for each byte of fp32 parameters, roughly.
var shares = map[Likeness]float64{Whole: 1, Hidden: 1, Quantized: 0.25}

// Rule is how temporaries come and go.
type Rule uint8

// The rules; package eager plays them.
const (
	InPlace       Rule = iota
	AllAtOnce          // lists of temporaries for all parameters
	OneByOne           // temporaries of one parameter after the other
	SignsAndMasks      // Rprop: signs of all, a mask and a choice of one after the other
	FactoredWalk       // Adafactor: parameter by parameter, the last update still named
	NewtonSchulz       // Muon: hidden matrices are orthogonalized in bfloat16, one after the other; AdamW's step for the others
	Projected          // GaLore: parameter by parameter, state included; hidden matrices are decomposed in the first step
)

const optimSource = "https://github.com/pytorch/pytorch/blob/v2.11.0/torch/optim/"

// moments are Adam's.
var moments = []State{{"exp_avg", Whole}, {"exp_avg_sq", Whole}}

// FusedAccesses are those of Adam's step as one kernel: parameter, gradient and two moments read, three written.
// https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/fused_adam_utils.cuh
const FusedAccesses = 7

// fusedStep holds nothing; the step count is a scalar on the card.
var fusedStep = Step{Passes: 1, Accesses: FusedAccesses}

// foreach steps hold lists of temporaries for all parameters at once; their kernels are those of _multi_tensor_*, without weight decay where that is not the
// optimizer's name.
func foreach(lists int, passes, accesses float64) Step {
	s := Step{Holds: Temporaries{Rule: AllAtOnce, Lists: lists}, Passes: passes, Accesses: accesses}
	if lists == 0 {
		s.Holds.Rule = InPlace
	}
	return s
}

// loop steps are foreach=False: temporaries of the current parameter at once and, where named ones outlive the loop's turn, the previous parameter's as well
// (_single_tensor_adam: denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)).
func loop(lists int, named bool, passes, accesses float64) Step {
	return Step{Holds: Temporaries{Rule: OneByOne, Lists: lists, Named: named}, Passes: passes, Accesses: accesses, PerTensor: true}
}

const pagedNote = "paged optimizer state lies in managed memory that CUDA moves between host and card as it is used: PyTorch does not count it, and it is not counted here"

// algorithms is all that is known of optimizers. Temporaries of torch.optim's were measured on an H200 with PyTorch 2.11 (internal/model/eager/testdata);
// AdamW's passes are mul, lerp, mul, addcmul, sqrt, div, add, addcdiv.
var algorithms = []Algorithm{
	{
		Name: "sgd", Source: optimSource + "sgd.py#L383",
		Steps:   map[Form]Step{Default: foreach(0, 1, 3)},
		Spelled: Spelling{Class: "torch.optim.SGD", Trainer: map[Form]string{Default: "sgd"}},
	},
	{
		Name: "sgdm", Aliases: []string{"momentum", "sgd-momentum"}, Source: optimSource + "sgd.py#L383",
		State:   []State{{"momentum_buffer", Whole}}, // a clone of the first gradient
		Steps:   map[Form]Step{Default: foreach(0, 3, 8)},
		Spelled: Spelling{Class: "torch.optim.SGD", Arguments: "momentum=0.9", Trainer: map[Form]string{Default: "sgd"}},
	},
	{
		Name: "adam", Source: optimSource + "adam.py#L554", State: moments,
		Steps:   map[Form]Step{Default: foreach(1, 7, 18), Fused: fusedStep, Loop: loop(2, true, 7, 18)},
		Spelled: Spelling{Class: "torch.optim.Adam", DeepSpeed: "Adam"},
		Lighter: []Optimizer{"adafactor"},
	},
	{
		Name: "adamw", Source: optimSource + "adam.py#L554", State: moments,
		Steps: map[Form]Step{Default: foreach(1, 8, 20), Fused: fusedStep, Loop: loop(2, true, 8, 20)},
		Spelled: Spelling{Class: "torch.optim.AdamW", DeepSpeed: "AdamW",
			Trainer: map[Form]string{Default: "adamw_torch", Fused: "adamw_torch_fused"}},
		Lighter: []Optimizer{"adamw-8bit", "adafactor"},
	},
	{
		Name: "amsgrad", Source: optimSource + "adam.py#L554", State: []State{{"exp_avg", Whole}, {"exp_avg_sq", Whole}, {"max_exp_avg_sq", Whole}},
		Steps:   map[Form]Step{Default: foreach(1, 8, 21), Fused: fusedStep, Loop: loop(2, true, 8, 21)},
		Spelled: Spelling{Class: "torch.optim.AdamW", Arguments: "amsgrad=True"},
	},
	{
		Name: "nadam", Source: optimSource + "nadam.py#L381", State: moments,
		Steps:   map[Form]Step{Default: foreach(1, 10, 25), Loop: loop(2, true, 10, 25)},
		Spelled: Spelling{Class: "torch.optim.NAdam"},
	},
	{
		Name: "radam", Source: optimSource + "radam.py#L363", State: moments,
		Steps:   map[Form]Step{Default: foreach(1, 12, 30), Loop: loop(2, false, 12, 30)},
		Spelled: Spelling{Class: "torch.optim.RAdam"},
	},
	{
		Name: "adamax", Source: optimSource + "adamax.py#L306", State: []State{{"exp_avg", Whole}, {"exp_inf", Whole}},
		Steps:   map[Form]Step{Default: foreach(1, 7, 18), Loop: loop(1, false, 7, 18)},
		Spelled: Spelling{Class: "torch.optim.Adamax"},
	},
	{
		Name: "adagrad", Source: optimSource + "adagrad.py#L391", State: []State{{"sum", Whole}}, Early: true,
		Steps:   map[Form]Step{Default: foreach(2, 6, 15), Loop: loop(1, true, 6, 15)},
		Spelled: Spelling{Class: "torch.optim.Adagrad", DeepSpeed: "Adagrad", Trainer: map[Form]string{Default: "adagrad"}},
	},
	{
		Name: "adadelta", Source: optimSource + "adadelta.py#L305", State: []State{{"square_avg", Whole}, {"acc_delta", Whole}},
		Steps:   map[Form]Step{Default: foreach(2, 10, 25), Loop: loop(2, true, 10, 25)},
		Spelled: Spelling{Class: "torch.optim.Adadelta"},
	},
	{
		Name: "rmsprop", Source: optimSource + "rmsprop.py#L342", State: []State{{"square_avg", Whole}},
		Steps:   map[Form]Step{Default: foreach(1, 5, 14), Loop: loop(1, true, 5, 14)},
		Spelled: Spelling{Class: "torch.optim.RMSprop", Trainer: map[Form]string{Default: "rmsprop"}},
	},
	{
		Name: "asgd", Source: optimSource + "asgd.py#L278", State: []State{{"step", Scalar}, {"eta", Scalar}, {"mu", Scalar}, {"ax", Whole}},
		Steps:   map[Form]Step{Default: foreach(1, 6, 14)},
		Spelled: Spelling{Class: "torch.optim.ASGD"},
	},
	{
		Name: "rprop", Source: optimSource + "rprop.py#L294", State: []State{{"prev", Whole}, {"step_size", Whole}},
		Steps:   map[Form]Step{Default: {Holds: Temporaries{Rule: SignsAndMasks}, Passes: 10, Accesses: 22}},
		Spelled: Spelling{Class: "torch.optim.Rprop"},
	},
	{
		Name: "adafactor", Source: optimSource + "_adafactor.py#L330", State: []State{{"var", Factored}},
		Steps:   map[Form]Step{Default: {Holds: Temporaries{Rule: FactoredWalk}, Passes: 10, Accesses: 20, PerTensor: true}},
		Spelled: Spelling{Class: "torch.optim.Adafactor", Trainer: map[Form]string{Default: "adafactor"}},
	},
	{ // two tables of 256 values are shared by all parameters
		Name: "adamw-8bit", Aliases: []string{"adam8bit", "adamw8bit", "Adam8bit", "adamw_bnb_8bit"},
		Source:  "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/optim/optimizer.py#L492",
		State:   []State{{"state1", Quantized}, {"state2", Quantized}},
		Steps:   map[Form]Step{Default: {Passes: 1, Accesses: 4, PerTensor: true}},
		Spelled: Spelling{Class: "bitsandbytes.optim.AdamW8bit", Trainer: map[Form]string{Default: "adamw_bnb_8bit"}},
	},
	{ // update = exp_avg.clone().mul_(beta1).add(grad, …).sign_(): the clone lives until add has its result
		Name: "lion", Source: "https://github.com/lucidrains/lion-pytorch/blob/05258c934a4e69af6e897a2d614e23e9b8c0ca4c/lion_pytorch/lion_pytorch.py#L21",
		State:   []State{{"exp_avg", Whole}},
		Steps:   map[Form]Step{Default: loop(2, false, 7, 18)},
		Spelled: Spelling{Class: "lion_pytorch.Lion"},
		Lighter: []Optimizer{"lion-8bit"},
	},
	{
		Name: "lion-8bit", Source: "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/optim/optimizer.py#L664",
		State:   []State{{"state1", Quantized}},
		Steps:   map[Form]Step{Default: {Passes: 1, Accesses: 4, PerTensor: true}},
		Spelled: Spelling{Class: "bitsandbytes.optim.Lion8bit", Trainer: map[Form]string{Default: "lion_8bit"}},
	},
	{
		Name: "adamw-paged", Aliases: []string{"paged_adamw", "paged_adamw_32bit", "pagedadamw", "pagedadamw32bit"},
		Source:  "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/optim/optimizer.py#L383",
		Note:    pagedNote,
		State:   []State{{"state1", Paged}, {"state2", Paged}},
		Steps:   map[Form]Step{Default: {Passes: 1, Accesses: 7, PerTensor: true}},
		Spelled: Spelling{Class: "bitsandbytes.optim.PagedAdamW32bit", Trainer: map[Form]string{Default: "paged_adamw_32bit"}},
	},
	{
		Name: "adamw-paged-8bit", Aliases: []string{"paged_adamw_8bit", "pagedadamw8bit"},
		Source:  "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/optim/optimizer.py#L383",
		Note:    pagedNote,
		State:   []State{{"state1", PagedQuantized}, {"state2", PagedQuantized}},
		Steps:   map[Form]Step{Default: {Passes: 1, Accesses: 4, PerTensor: true}},
		Spelled: Spelling{Class: "bitsandbytes.optim.PagedAdamW8bit", Trainer: map[Form]string{Default: "paged_adamw_8bit"}},
	},
	{ // norm_grad = project_back(norm_grad): the product, then times scale
		Name: "galore", Aliases: []string{"galore_adamw", "galoreadamw"},
		Source:  "https://github.com/jiaweizzhao/GaLore/blob/1317b5f7e589ba778d8d122f6102fda6fa7ba49e/galore_torch/adamw.py#L68",
		Note:    "GaLore of rank 128 trains the matrices of hidden layers, AdamW's step everything else",
		State:   []State{{"projector", Projector}, {"exp_avg", LowRank}, {"exp_avg_sq", LowRank}},
		Steps:   map[Form]Step{Default: {Holds: Temporaries{Rule: Projected}, Passes: 14, Accesses: 30, PerTensor: true}},
		Spelled: Spelling{Class: "galore_torch.GaLoreAdamW", Trainer: map[Form]string{Default: "galore_adamw"}},
	},
	{
		Name: "muon", Source: optimSource + "_muon.py#L285", Partial: true,
		Note:    "Muon trains the matrices of hidden layers, AdamW everything else (embeddings, head, norms, biases), as torch.optim.Muon's documentation advises",
		State:   []State{{"momentum_buffer", Hidden}, {"exp_avg", Others}, {"exp_avg_sq", Others}},
		Steps:   map[Form]Step{Default: {Holds: Temporaries{Rule: NewtonSchulz}, Passes: 24, Accesses: 60, PerTensor: true}},
		Spelled: Spelling{Class: "torch.optim.Muon"},
	},
}

// IsHidden tells by its name and number of dimensions whether Muon trains a parameter: matrices, but for embeddings and the head.
func IsHidden(name string, dims int) bool {
	return dims == 2 && !slices.ContainsFunc([]string{"embed", "wte", "wpe", "lm_head", "classifier", "score"}, func(part string) bool { return strings.Contains(name, part) })
}
