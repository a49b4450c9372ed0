package planfile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// Readers find the settings of a written file where its framework does: in assignments, arguments and keys, not in the comment at its head.

// source is the text of a file without comments.
type source string

var comment = regexp.MustCompile(`(?m)(^|\s)#.*$`)

func uncommented(text string) source { return source(comment.ReplaceAllString(text, "")) }

// value is what stands behind a name.
func (s source) value(pattern string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(string(s)); m != nil {
		return m[1]
	}
	return ""
}

func (s source) number(pattern string) int {
	n, _ := strconv.Atoi(s.value(pattern))
	return n
}

func (s source) has(text string) bool { return strings.Contains(string(s), text) }

// flagged is the name of the 16-bit type whose flag is set, "" for neither.
func (s source) flagged(bf16, fp16 string) string {
	switch {
	case s.has(bf16):
		return torch.BF16.Name()
	case s.has(fp16):
		return torch.FP16.Name()
	}
	return ""
}

// precision puts a precision together from the parameters' type and autocast's, by PyTorch's names.
func (s source) precision(params, cast string) torch.Precision {
	p, _ := torch.DTypeNamed(params)
	c, _ := torch.DTypeNamed(cast)
	return torch.PrecisionOf(p, c, s.has("allow_tf32 = True") || s.has("tf32=True") || s.has("tf32: true"))
}

// adapters reads PEFT's and bitsandbytes' configuration.
func (s source) adapters() setup.Adapters {
	a := setup.Adapters{LoRARank: s.number(`LoraConfig\(r=(\d+)`)}
	if a.LoRARank == 0 {
		return a
	}
	a.LoRATargets = list(s.value(`target_modules=(\[[^\]]*\]|"[^"]*")`))
	a.LoRADropout, _ = strconv.ParseFloat(s.value(`lora_dropout=([\d.e-]+)`), 64)
	if s.has("load_in_4bit=True") {
		a.BaseBits = 4
	}
	return a
}

func list(text string) string {
	return strings.NewReplacer(`"`, "", "[", "", "]", "", " ", "").Replace(text)
}

// checkpointing reads what is computed again.
func (s source) checkpointing() (setup.Checkpointing, int) {
	switch {
	case s.has("layer.gradient_checkpointing = False"):
		if again := s.value(`again = \{([^}]*)\}`); again != "" {
			return setup.Selective, strings.Count(again, ",") + 1
		}
		return setup.Selective, s.number(`layers\[(\d+):\]`)
	case s.has("gradient_checkpointing_enable"), s.has("partial(checkpoint"), s.has("gradient_checkpointing=True"), s.has(`"activation_checkpointing": True`):
		return setup.Full, 0
	}
	return setup.None, 0
}

// optimizer reads the call that makes one.
func (s source) optimizer() torch.Optimizer {
	call := regexp.MustCompile(`(?:return |CPUOffloadOptimizer\(parameters, )([\w.]+)(?:\(parameters|\(\[\{"params"[^\]]*\])?((?:, [\w]+=[\w.]+)*),? ?\*\*settings`).FindStringSubmatch(string(s))
	if call == nil {
		return ""
	}
	for _, a := range torch.Algorithms() {
		for form := range a.Steps {
			o := a.In(form)
			arguments := when(a.Spelled.Arguments != "", ", %s", a.Spelled.Arguments) + formArgument(o)
			if a.Spelled.Class == call[1] && arguments == strings.TrimSuffix(call[2], ",") {
				return o
			}
		}
	}
	return ""
}

// readPython reads a module of plain PyTorch or fully_shard.
func readPython(text string) (setup.Setup, error) {
	t := uncommented(text)
	s := setup.Setup{
		MicroBatch: t.number(`MICRO_BATCH = (\d+)`), Accumulate: t.number(`ACCUMULATE = (\d+)`), Optimizer: t.optimizer(), GPUs: 1,
		Attn: setup.Attention(t.value(`set_attn_implementation\("(\w+)"\)`)), Conf: t.value(`"PYTORCH_CUDA_ALLOC_CONF", "([^"]*)"`), Adapters: t.adapters(),
	}
	s.Checkpointing, s.Layers = t.checkpointing()
	params := t.value(`model\.to\((?:DEVICE, )?torch\.(\w+)\)`)
	if s.LoRARank > 0 {
		params = t.value(`dtype=torch\.(\w+),\n`)
	}
	s.Precision = t.precision(params, t.value(`torch\.autocast\(DEVICE, dtype=torch\.(\w+)\)`))
	if t.has("fully_shard(") {
		s.Sharding, s.GPUs = setup.FSDP2, source(text).number(`nproc-per-node=(\d+)`)
		if copies := source(text).number(`nnodes=(\d+)`); copies > 0 {
			s.Sharding, s.GPUs = setup.HSDP, s.GPUs*copies
		}
		s.Precision = t.precision(params, t.value(`MixedPrecisionPolicy\(param_dtype=torch\.(\w+)`))
	}
	if layout := regexp.MustCompile(`RANKS, STAGES, TENSOR = (\d+), (\d+), (\d+)`).FindStringSubmatch(text); layout != nil {
		var n [3]int
		for i := range n {
			n[i], _ = strconv.Atoi(layout[i+1])
		}
		s.GPUs, s.Cut = n[0]*n[1]*n[2], setup.NewCut(n[2], n[1])
		if t.has("DistributedDataParallel(") {
			s.Sharding = setup.DDP
		}
	}
	switch host, saved := t.has("CPUOffloadOptimizer("), t.has("save_on_cpu("); {
	case host && saved:
		s.Offload = setup.OffloadBoth
	case host:
		s.Offload = setup.OffloadOptimizer
	case saved:
		s.Offload = setup.OffloadActivations
	}
	return s, nil
}

// readTrainer reads TrainingArguments and what stands beside them.
func readTrainer(text string) (setup.Setup, error) {
	t := uncommented(text)
	s := setup.Setup{
		MicroBatch: t.number(`per_device_train_batch_size=(\d+)`), Accumulate: t.number(`gradient_accumulation_steps=(\d+)`), GPUs: 1,
		Attn: setup.Attention(t.value(`attn_implementation="(\w+)"`)), Conf: t.value(`"PYTORCH_CUDA_ALLOC_CONF", "([^"]*)"`), Adapters: t.adapters(),
		Optimizer: trainerOptimizer(t.value(`optim="(\w+)"`), t.value(`optim_args="([^"]*)"`)),
	}
	s.Checkpointing, s.Layers = t.checkpointing()
	if n := source(text).number(`nproc-per-node=(\d+)`); n > 0 {
		s.GPUs, s.Sharding = n, setup.DDP
	}
	cast := t.flagged(" bf16=True", " fp16=True")
	stage := t.value(`"stage":(\d)`)
	switch {
	case t.has("fsdp=True"):
		s.Sharding = setup.FSDP2
	case stage != "":
		cast = "" // the engine's own type
		s.Sharding = setup.Unsharded
		if s.GPUs > 1 {
			s.Sharding = setup.Sharding("zero" + stage)
		}
		if t.has(`"offload_optimizer"`) {
			s.Offload = setup.OffloadOptimizer
		}
	}
	s.Precision = t.precision(t.value(`dtype=torch\.(\w+),`), cast)
	return s, nil
}

// readTRL reads SFTConfig, whose words are those of TrainingArguments.
func readTRL(text string) (setup.Setup, error) {
	s, err := readTrainer(text)
	s.Code = setup.TRL
	return s, err
}

// trainerOptimizer finds an optimizer by TrainingArguments' words.
func trainerOptimizer(word, arguments string) torch.Optimizer {
	for _, a := range torch.Algorithms() {
		for form, name := range a.Spelled.Trainer {
			if name == word && a.Spelled.Arguments == arguments {
				return a.In(form)
			}
		}
	}
	return ""
}

func readAccelerate(text string) (setup.Setup, error) {
	t := uncommented(text)
	c := source(text) // batch and accumulation are the script's; the comment tells it
	s := setup.Setup{
		MicroBatch: c.number(`batch_size=(\d+)`), Accumulate: c.number(`gradient_accumulation_steps=(\d+)`), GPUs: t.number(`num_processes: (\d+)`),
		Checkpointing: setup.None,
	}
	cast, _ := torch.DTypeNamed(torch.DType(t.value(`mixed_precision: (\w+)`)).Name())
	switch kind := t.value(`distributed_type: '?(\w+)`); kind {
	case "FSDP":
		s.Sharding, s.Precision = setup.FSDP2, torch.PrecisionOf(torch.FP32, cast, false)
		if t.has("fsdp_activation_checkpointing: true") {
			s.Checkpointing = setup.Full
		}
	case "DEEPSPEED":
		s.Precision = torch.PrecisionOf(cast, "", false)
		if s.GPUs > 1 {
			s.Sharding = setup.Sharding("zero" + t.value(`zero_stage: (\d)`))
		}
		if t.has("offload_optimizer_device: cpu") {
			s.Offload = setup.OffloadOptimizer
		}
	default:
		s.Precision = torch.PrecisionOf(torch.FP32, cast, false)
		if kind == "MULTI_GPU" {
			s.Sharding = setup.DDP
		}
	}
	return s, nil
}

func readDeepSpeed(text string) (setup.Setup, error) {
	var d deepSpeed
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return setup.Setup{}, fmt.Errorf("DeepSpeed's JSON: %w", err)
	}
	s := setup.Setup{MicroBatch: d.Micro, Accumulate: d.Accumulate, Checkpointing: setup.None, Precision: torch.PlainFP32}
	s.GPUs = d.TrainBatch / max(1, d.Micro*d.Accumulate)
	if s.GPUs > 1 {
		s.Sharding = setup.Sharding(fmt.Sprintf("zero%d", d.Zero.Stage))
	}
	switch {
	case d.Autocast != nil:
		cast, _ := torch.DTypeNamed(d.Autocast.DType)
		s.Precision = torch.PrecisionOf(torch.FP32, cast, false)
	case d.BF16 != nil:
		s.Precision = torch.PureBF16
	case d.FP16 != nil:
		s.Precision = torch.PureFP16
	}
	if d.Zero.Offload != nil {
		s.Offload = setup.OffloadOptimizer
	}
	for _, a := range torch.Algorithms() {
		if d.Optimizer != nil && a.Spelled.DeepSpeed == d.Optimizer.Type {
			s.Optimizer = a.In(torch.Default)
			if fused, ok := s.Optimizer.With(torch.Fused); ok {
				s.Optimizer = fused // DeepSpeed's own
			}
		}
	}
	return s, nil
}

func readLightning(text string) (setup.Setup, error) {
	s, err := readPython(text)
	t := uncommented(text)
	s.Accumulate, s.GPUs = t.number(`accumulate_grad_batches=(\d+)`), t.number(`devices=(\d+)`)
	for p, word := range lightningWords {
		if word == t.value(`precision="([\w-]+)"`) && p.TF32() == t.has("allow_tf32 = True") {
			s.Precision = p
		}
	}
	if t.value(`strategy="(\w+)"`) == string(setup.DDP) {
		s.Sharding = setup.DDP
	}
	return s, err
}

func readAxolotl(text string) (setup.Setup, error) {
	t := uncommented(text)
	s := setup.Setup{
		MicroBatch: t.number(`micro_batch_size: (\d+)`), Accumulate: t.number(`gradient_accumulation_steps: (\d+)`), GPUs: 1, Checkpointing: setup.None,
		Optimizer: trainerOptimizer(t.value(`optimizer: (\w+)`), ""), Attn: setup.EagerAttention, Conf: source(text).value(`PYTORCH_CUDA_ALLOC_CONF=(\S+)`),
	}
	if t.has("gradient_checkpointing: true") {
		s.Checkpointing = setup.Full
	}
	switch {
	case t.has("sdp_attention: true"):
		s.Attn = setup.SDPA
	case t.has("flash_attention: true"):
		s.Attn = setup.FlashAttention2
	}
	s.Precision = t.precision(torch.FP32.Name(), t.flagged("bf16: true", "fp16: true"))
	if s.LoRARank = t.number(`lora_r: (\d+)`); s.LoRARank > 0 {
		s.LoRATargets = list(t.value(`lora_target_modules: (.*)`))
		s.LoRADropout, _ = strconv.ParseFloat(t.value(`lora_dropout: ([\d.e-]+)`), 64)
		if t.has("load_in_4bit: true") {
			s.BaseBits = 4
		}
	}
	return s, nil
}

func readLlamaFactory(text string) (setup.Setup, error) {
	t := uncommented(text)
	s := setup.Setup{
		MicroBatch: t.number(`per_device_train_batch_size: (\d+)`), Accumulate: t.number(`gradient_accumulation_steps: (\d+)`), GPUs: 1, Checkpointing: setup.Full,
		Optimizer: trainerOptimizer(t.value(`optim: (\w+)`), ""), Attn: setup.SDPA, Conf: source(text).value(`PYTORCH_CUDA_ALLOC_CONF=(\S+)`),
	}
	if t.has("disable_gradient_checkpointing: true") {
		s.Checkpointing = setup.None
	}
	switch {
	case t.has("flash_attn: disabled"):
		s.Attn = setup.EagerAttention
	case t.has("flash_attn: fa2"):
		s.Attn = setup.FlashAttention2
	}
	params := torch.FP32.Name()
	if t.has("pure_bf16: true") {
		params = torch.BF16.Name()
	}
	s.Precision = t.precision(params, t.flagged("\nbf16: true", "\nfp16: true"))
	return s, nil
}

func readTorchtitan(text string) (setup.Setup, error) {
	t := uncommented(text)
	s := setup.Setup{
		MicroBatch: t.number(`local_batch_size = (\d+)`), GPUs: t.number(`data_parallel_shard_degree = (\d+)`), Sharding: setup.FSDP2, Code: setup.Torchtitan, Conf: torch.ExpandableSegments,
		Checkpointing: setup.Checkpointing(t.value(`mode = "(\w+)"`)), Precision: torch.PlainFP32,
	}
	if copies := t.number(`data_parallel_replicate_degree = (\d+)`); copies > 0 {
		s.Sharding, s.GPUs = setup.HSDP, s.GPUs*copies
	}
	if s.Context = t.number(`context_parallel_degree = (\d+)`); s.Context > 0 {
		s.GPUs *= s.Context
	}
	s.Accumulate = t.number(`global_batch_size = (\d+)`) / max(1, s.MicroBatch*s.Groups())
	if cast := t.value(`mixed_precision_param = "(\w+)"`); cast != torch.FP32.Name() {
		s.Precision = t.precision(torch.FP32.Name(), cast)
	}
	if a, ok := torch.ByClass(t.value(`\nname = "(\w+)"`), false); ok {
		form := map[string]torch.Form{"fused": torch.Fused, "for-loop": torch.Loop}[t.value(`implementation = "([\w-]+)"`)]
		s.Optimizer = a.In(form)
	}
	return s, nil
}

// What files leave to the script: every form the loop (a step that is a function, or the framework's), some the optimizer or the attention.

func silentPython(s *setup.Setup) { s.Loop = "" }

func silentFSDP2(s *setup.Setup) { s.Loop, s.Attn = "", "" }

func silentAccelerate(s *setup.Setup) { s.Loop, s.Attn, s.Optimizer = "", "", "" }

func silentDeepSpeed(s *setup.Setup) {
	s.Loop, s.Attn = "", ""
	if fused, ok := s.Optimizer.With(torch.Fused); ok {
		s.Optimizer = fused // DeepSpeed's own
	}
}
