// Package predict answers whether a training job fits on a card.
//
// It takes a job, its model (a Hugging Face configuration or an exported graph) and a card and returns a report.Prediction: peak bytes
// allocated, reserved and seen by the driver, by phase, step and category, a bound that is safe, what is assumed, and the tape
// of the whole run. The model runs three training steps on package eager, whose tape runs through package alloc: the peak is
// a maximum over instants. Refused: jobs whose model, task or settings have no code path, each with its reason.
package predict

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/cudnn"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/families"
	"github.com/plimsoll/plimsoll/internal/model/graphrun"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Source is the model of a job: a configuration whose family is built in, or a graph.
type Source struct {
	Config *hfconfig.Config
	Graph  *exported.Graph
	// Read gives the graph for other settings of the job, where the graph was read from modelling code: its operators depend on precision and, in
	// some models, on the sequence.
	Read func(job.Job) (*exported.Graph, error)
}

// graph is the graph for a job; nil where the model is a configuration.
func (s Source) graph(j job.Job) (*exported.Graph, error) {
	if s.Read == nil || s.Graph == nil {
		return s.Graph, nil
	}
	return s.Read(j)
}

// Adaptable tells whether adapters can be put beside the model's layers.
func (s Source) Adaptable() bool { return s.Config != nil || s.Graph != nil && adaptable(s.Graph) }

// Task is what the model is trained for: as the job says, or as the code it was read from has it.
func (s Source) Task(j job.Job) string {
	if s.Config == nil && s.Graph != nil && s.Graph.Trace != nil {
		return s.Graph.Trace.Task
	}
	return j.Task
}

// adaptable tells whether a graph says which of its operators are layers that adapters can be put beside.
func adaptable(g *exported.Graph) bool {
	t := g.Trace
	return t != nil && len(t.Linears)+len(t.Convs)+len(t.Tables) > 0
}

// Machine is where the job is to run.
type Machine struct {
	Card     gpu.Card
	Assumed  bool          // nobody named the card
	Capacity units.Bytes   // memory there is; 0: the card's
	Cap      units.Bytes   // what PyTorch may reserve of it (torch.cuda.set_per_process_memory_fraction); 0: all
	Torch    torch.Version // 0: the version of the measurements
	Conf     alloc.Conf    // allocator settings

	Workspaces *cudnn.Table // what convolutions take on the card; nil: what is built in

	placed bool // segments lie where the driver puts those of a process that has just begun; else each lies below those before

	Observe func(eager.Work) // told of every operator of a run, where set: for models of time
}

// capacity is what the process may take from the device in all, its context included.
func (m Machine) capacity() units.Bytes {
	if m.Capacity > 0 {
		return m.Capacity
	}
	return m.Card.Capacity()
}

// name is what to call the card on a screen.
func (m Machine) name() string {
	if m.Assumed {
		return "a card"
	}
	return m.Card.Title
}

func (m Machine) context() units.Bytes {
	size, _ := m.Card.ContextUnder(m.Torch)
	return size
}

func (m Machine) device() eager.Device {
	c := m.Card
	return eager.Device{
		SMs: c.SMs, ThreadsPerSM: c.ThreadsPerSM, Major: c.Major, Minor: c.Minor,
		BlasWorkspace: c.BlasWorkspace(m.Torch), BlasLtWorkspace: c.BlasLtWorkspace(), CuDNNFirst: c.CuDNNAttention(m.Torch), Workspaces: m.Workspaces,
	}
}

// Result is a prediction with the tape it was computed from.
type Result struct {
	Report report.Prediction
	Tape   *tape.Tape

	job      job.Job
	conv     convolutions
	free     alloc.Peak
	variants *Variants // what other batches have in common with it
}

// Run predicts one job. The job must have passed Check.
func Run(j job.Job, src Source, m Machine) (*Result, error) {
	v := NewVariants(src, m)
	done, err := v.steps(j, 3)
	if err != nil {
		return nil, err
	}
	model, conv := done.model, done.conv
	played, err := play(done.tape, m)
	if err != nil {
		return nil, err
	}
	r := report.Prediction{
		Schema: report.PredictSchema, ID: j.ID, Title: title(j, src), Card: m.name(),
		AfterLoad: played.afterLoad,
		Peak:      report.PredictedPeak{Allocated: played.peak, Reserved: played.reserved, Device: played.reserved + m.context()},
		Phase:     played.phase, Step: played.step, Where: played.where,
		Phases: played.phases(), Steps: played.steps,
		ByCategory: played.categories, Top: played.top,
		Capacity: m.capacity(),
	}
	r.ByCategory["context"] = m.context()
	r.Params, r.Trainable = count(model.Root())
	conv.tries = j.Benchmark
	r.Safe = boundOf(j, m.Conf, max(played.reserved, played.upward), conv)
	if r.Range, err = otherPlans(j, src, m, played.peak, conv); err != nil {
		return nil, err
	}
	byRouting(&r, j, v, model)
	if err := judged(&r, done.tape, m); err != nil {
		return nil, err
	}
	if j.Benchmark && conv.any {
		most, _, _, err := train(j, src, m, 0, benchmark(eager.Benchmark{Most: true}))
		if err != nil {
			return nil, err
		}
		if r.Safe, err = withTrials(r.Safe, most.Tape(), m, conv); err != nil {
			return nil, err
		}
		settled, _, _, err := train(j, src, m, 0, benchmark(eager.Benchmark{Settled: true}))
		if err != nil {
			return nil, err
		}
		if err := tried(&r, settled.Tape(), m); err != nil {
			return nil, err
		}
	}
	if j.Compiled {
		compiled(&r)
	}
	if g, ok := model.(*graphrun.Graph); ok {
		r.Unknown = done.unknown
		if t := g.Trace; t != nil {
			r.ReadFrom = fmt.Sprintf("%s.%s, %s, PyTorch %s", t.Module, t.Class, t.Library(), t.Torch)
			r.Assumptions = append(r.Assumptions, "the model was read from its code: "+r.ReadFrom)
			r.Assumptions = append(r.Assumptions, t.Notes...)
		}
	}
	r.Assumptions = slices.Concat(r.Assumptions, ofModel(j, src, model), assumptions(j, m, r.Unknown))
	return &Result{Report: r, Tape: done.tape, job: j, conv: conv, free: played.free, variants: v}, nil
}

// byRouting gives the range between experts that share the tokens evenly and experts that get them all, for a model whose sizes depend on that.
func byRouting(r *report.Prediction, j job.Job, v *Variants, model eager.Model) {
	g, ok := model.(*graphrun.Graph)
	if !ok || g.Trace == nil || !g.Trace.Routed || j.Routing != "" || v.src.Read == nil || r.Range != nil {
		return
	}
	j.Routing = job.RoutingWorst
	other, err := v.steps(j, 3)
	if err != nil {
		r.Assumptions = append(r.Assumptions, "experts share the tokens evenly; what it takes when a few get all of them could not be computed: "+err.Error())
		return
	}
	played, err := play(other.tape, v.m)
	if err != nil {
		return
	}
	low, high := min(r.Peak.Allocated, played.peak), max(r.Peak.Allocated, played.peak)
	r.Range = &report.Range{Low: low, High: high, Why: "experts share the tokens evenly in the prediction; the other end is every token going to the same experts"}
	r.Safe += high - r.Peak.Allocated
}

// benchmark lets the convolutions of a process try out plans, or run those that were chosen.
func benchmark(b eager.Benchmark) func(*eager.Process) {
	return func(p *eager.Process) { p.Benchmark = &b }
}

// train runs steps of a job (0: three) and remembers its convolutions. prepare is told of the process before anything runs.
func train(j job.Job, src Source, m Machine, steps int, prepare ...func(*eager.Process)) (*eager.Process, eager.Model, convolutions, error) {
	var conv convolutions
	p := eager.NewProcess(m.device())
	for _, f := range prepare {
		f(p)
	}
	p.CheckpointFirst, p.CheckpointOrder = j.Layers, j.Order
	var model eager.Model
	var err error
	if crash := p.Guard(func() { model, err = build(p, j, src) }); crash != nil {
		err = fmt.Errorf("build the model: %w", crash)
	}
	if err != nil {
		return nil, nil, conv, err
	}
	if j.ResidentBytes > 0 {
		p.Input("other tensors of the script", tensor.Uint8, int(j.ResidentBytes)).Retain()
	}
	o := options(j)
	o.Steps, o.Repeat = steps, m.Observe == nil
	p.Observe, p.Unsure = m.Observe, conv.see
	if err := p.Train(model, o); err != nil {
		return nil, nil, conv, fmt.Errorf("run the model: %w", err)
	}
	return p, model, conv, nil
}

func count(root *eager.Module) (params, trainable int64) {
	for _, t := range root.Parameters() {
		params += int64(t.Numel())
		if t.RequiresGrad() {
			trainable += int64(t.Numel())
		}
	}
	return params, trainable
}

var elementTypes = map[torch.DType]tensor.DType{torch.FP32: tensor.Float32, torch.BF16: tensor.BFloat16, torch.FP16: tensor.Float16}

var maskKinds = map[string]families.Mask{job.MaskFull: families.Ones, job.MaskPadded: families.Padded, job.MaskPacked: families.Padded}

// build makes the model of a job in a process.
func build(p *eager.Process, j job.Job, src Source) (eager.Model, error) {
	if d := p.Device; j.Attn == setup.FlashAttention2 && d.Major > 0 && d.Major < 8 {
		return nil, fmt.Errorf("attn %s needs a card of compute capability 8.0 (Ampere) or newer, and this one has %d.%d; --attn sdpa runs on it", j.Attn, d.Major, d.Minor)
	}
	if src.Graph != nil {
		if j.LossKernel != "" {
			return nil, fmt.Errorf("loss_kernel %s: a model that is not built in has the loss of its own code; capture a script that uses the kernel (plimsoll predict -- python train.py)", j.LossKernel)
		}
		g, err := src.graph(j)
		if err != nil {
			return nil, err
		}
		return buildGraph(p, j, g)
	}
	if src.Config == nil {
		return nil, fmt.Errorf("job without a model")
	}
	if j.LossKernel != "" && j.Task != "causal-lm" {
		return nil, fmt.Errorf("loss_kernel %s: the model is trained for %s; only causal-lm has it", j.LossKernel, j.Task)
	}
	mask := maskKinds[j.AttentionMask]
	if j.Attn == setup.FlashAttention2 && j.AttentionMask == job.MaskPacked {
		mask = families.NoMask // flash_attn_varlen_func: rows are told where each sample begins
	}
	m, err := families.New(p, src.Config, families.Spec{
		Task: j.Task, Batch: j.Batch, Seq: j.Seq, TargetSeq: j.TargetSeq, Image: j.Image, Frames: j.Frames,
		DType: elementTypes[j.ParamDType], Checkpointing: j.Checkpointing, Attn: string(j.Attn), Loss: j.LossKernel, Mask: mask, UseCache: j.UseCache, Code: j.Code, Context: j.Context,
	})
	if err == nil {
		started[j.Loaded()](m.Root())
	}
	return m, err
}

// started are the ways of a model onto the card.
var started = map[setup.Load]func(*eager.Module){
	setup.LoadCard: (*eager.Module).CreateOnDevice, setup.LoadHost: (*eager.Module).CreateOnHost, setup.LoadMapped: (*eager.Module).CreateMapped,
}

// trainedWhole are the modules that PEFT trains whole beside adapters, by the task type of its configuration
// (https://github.com/huggingface/peft/blob/v0.18.0/src/peft/peft_model.py, classifier_module_names and qa_module_names).
var trainedWhole = map[string][]string{"seq-cls": {"classifier", "score"}, "token-cls": {"classifier", "score"}, "question-answering": {"qa_outputs"}}

// HasHead tells whether the built-in family of a configuration has a head for the job's task, and its attention; where it has none, its code may.
func HasHead(j job.Job, c *hfconfig.Config) bool {
	p := eager.NewProcess(eager.Device{})
	var err error
	_ = p.Guard(func() { _, err = build(p, j, Source{Config: c}) }) // what else is wrong is told where the job is run
	return !errors.Is(err, families.ErrTask) && !errors.Is(err, families.ErrAttention)
}

func buildGraph(p *eager.Process, j job.Job, g *exported.Graph) (eager.Model, error) {
	if g.Trace != nil && j.Checkpointing && len(j.CheckpointModules) == 0 {
		j.CheckpointModules = g.Trace.Checkpoints
	}
	if g.Trace != nil && j.Checkpointing && len(j.CheckpointModules) == 0 {
		return nil, fmt.Errorf("%s has no layers that %s checkpoints: leave checkpointing out", g.Trace.Class, g.Trace.Library())
	}
	if j.LoRARank > 0 && !adaptable(g) {
		return nil, fmt.Errorf("lora_rank needs a config.json, or a script that adds the adapters (plimsoll predict -- python train.py): this graph does not say which of its operators are linear layers")
	}
	if j.Checkpointing && len(j.CheckpointModules) == 0 {
		return nil, fmt.Errorf("a graph does not say which calls the script checkpoints: name them in the job's checkpoint_modules, or capture the script (plimsoll predict -- python train.py)")
	}
	if !slices.ContainsFunc(g.Values, func(v exported.Value) bool { return v.Role == exported.Parameter }) {
		return nil, fmt.Errorf("%w of a model: no input in its graph_signature is a parameter, so there is nothing to train (export the model itself: torch.export.export(model, inputs))", exported.ErrNotGraph)
	}
	bound, err := g.Bind(func(s exported.Symbol) (int64, error) { return symbolSize(j, g, s) })
	if err != nil {
		return nil, err
	}
	if err := checkInput(j, bound); err != nil {
		return nil, err
	}
	m, err := graphrun.New(p, bound, graphrun.Spec{
		DType: elementTypes[j.ParamDType], Loss: j.Loss, LossOutput: j.LossOutput, ChannelsLast: j.ChannelsLast, Checkpoint: checkpointed(j),
	})
	if err != nil {
		return nil, err
	}
	if g.Trace != nil {
		started[j.Loaded()](m.Root())
	}
	return m, nil
}

// checkpointed are the modules whose calls are recomputed.
func checkpointed(j job.Job) []string {
	if !j.Checkpointing {
		return nil
	}
	return j.CheckpointModules
}

// symbolSize says what an open size of the graph is: the first dimension of an input is the batch, others are
// the job's shape of one sample, its sequence or its image.
func symbolSize(j job.Job, g *exported.Graph, s exported.Symbol) (int64, error) {
	if g.Trace != nil {
		return int64(map[string]int{"batch": j.Batch, "seq": j.Seq, "target_seq": j.TargetSeq}[s.Name]), nil
	}
	if s.Input < 0 {
		return 0, fmt.Errorf("the graph has an open size %s that is not the size of an input: export it without data-dependent shapes", s.Name)
	}
	sizes := g.Values[s.Input].Sizes
	rank := len(sizes)
	switch {
	case s.Axis == 0, len(g.Symbols) == 1 && sizes[0] != exported.Fixed(int64(j.Batch)): // the only open size is the batch, wherever it lies
		return int64(j.Batch), nil
	case s.Axis-1 < len(j.Input):
		return int64(j.Input[s.Axis-1]), nil
	case rank >= 4 && s.Axis >= rank-2 && j.Image > 0:
		return int64(j.Image), nil
	case rank <= 3 && s.Axis == 1 && j.Seq > 0:
		return int64(j.Seq), nil
	}
	return 0, fmt.Errorf("dimension %d of input %s is open in the graph: give input, the shape of one sample", s.Axis, g.Values[s.Input].Name)
}

// checkInput refuses a job whose stated sizes contradict the graph's fixed ones.
func checkInput(j job.Job, b *exported.Bound) error {
	for _, at := range b.Inputs {
		v := &b.Values[at]
		if v.Role != exported.UserInput {
			continue
		}
		sizes := b.Dims(v.Sizes)
		if len(sizes) == 0 {
			continue
		}
		if len(b.Symbols) == 0 && sizes[0] != j.Batch && b.Trace == nil { // a trace without symbols was read for this job's sizes
			return fmt.Errorf("batch %d: the graph was exported for batch %d; export it with a dynamic batch dimension", j.Batch, sizes[0])
		}
		if len(j.Input) > 0 && fmt.Sprint(sizes[1:]) != fmt.Sprint(j.Input) {
			return fmt.Errorf("input %v: the graph was exported for samples of %v", j.Input, sizes[1:])
		}
		if n := len(sizes); b.Trace == nil && j.Image > 0 && n >= 4 && (sizes[n-1] != j.Image || sizes[n-2] != j.Image) {
			return fmt.Errorf("image %d: the graph was exported for %d × %d", j.Image, sizes[n-2], sizes[n-1])
		}
		return nil
	}
	return nil
}

func options(j job.Job) eager.Options {
	o := eager.Options{Optimizer: j.Optimizer, Accumulate: j.Accumulate, Plain: j.Loop == setup.Plain || j.Loop == setup.Script || j.Loop == setup.Kept, LossOnly: j.Loop == setup.LossOnly, Rebound: j.Loop == setup.Script, Kept: j.Loop == setup.Kept, ZeroLate: j.ZeroGrad == "before-backward", Freeze: j.Freeze, ChannelsLast: j.ChannelsLast, InBackward: j.InBackward, FloatOutputs: j.FloatOutputs, Uncached: j.UncachedCasts, SavedOnHost: j.OffloadActivations}
	if j.Autocast != "" {
		o.Autocast = elementTypes[j.Autocast]
		o.Scaler = j.Autocast == torch.FP16
	}
	if j.LoRARank > 0 {
		o.LoRA = &eager.LoRA{Rank: j.LoRARank, Targets: j.LoRATargets, Dropout: j.LoRADropout, NF4: j.BaseBits == 4, Int8: j.BaseBits == 8, DoRA: j.DoRA, Saves: trainedWhole[j.Task]}
		o.LoRA.Torchao = j.Code == setup.Torchtune || j.Code == setup.TorchtuneWhole
		o.LoRA.Half = o.LoRA.Torchao || j.Code == setup.TRL && j.BaseBits > 0
		o.InputGrads = j.Checkpointing && !o.LoRA.Torchao // the Trainer, TRL and the files that fit writes call it with adapters and checkpointing
	}
	return o
}

// title is the job in a few words: model, sizes, precision, optimizer.
func title(j job.Job, src Source) string {
	name := j.Model
	if name == "" && src.Config != nil {
		name = src.Config.Type
	}
	if name == "" {
		name = "graph"
	}
	size := fmt.Sprintf("batch %d", j.Batch)
	switch {
	case j.Seq > 0:
		size += fmt.Sprintf(" × %d", j.Seq)
	case j.Image > 0:
		size += fmt.Sprintf(" × %d²", j.Image)
	}
	if j.Accumulate > 1 {
		size += fmt.Sprintf(" × %d accumulated", j.Accumulate)
	}
	parts := []string{name, size, string(j.Precision()), string(j.Optimizer)}
	if j.LoRARank > 0 {
		parts = append(parts, fmt.Sprintf("%s %d", map[bool]string{false: "LoRA", true: "DoRA"}[j.DoRA], j.LoRARank))
	}
	if j.BaseBits > 0 {
		parts = append(parts, fmt.Sprintf("%d-bit base", j.BaseBits))
	}
	if j.Attn == setup.FlashAttention2 {
		parts = append(parts, string(j.Attn))
	}
	if j.Checkpointing {
		parts = append(parts, "checkpointed")
	}
	return strings.Join(parts, " · ")
}

// ofModel says where the model that ran is not quite the one that was described.
func ofModel(j job.Job, src Source, model eager.Model) []string {
	out := []string{}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if c := src.Config; c != nil {
		if head := c.OtherHead(); head != "" && j.Task == c.Task() {
			add("the configuration names %s, which no task here trains: the head and loss of %s are used (--task)", head, j.Task)
		}
	}
	for _, prefix := range j.Freeze {
		if !slices.ContainsFunc(model.Root().Parameters(), func(t *eager.Tensor) bool { return strings.HasPrefix(t.Name, prefix) }) {
			add("freeze %q: no parameter name begins with it, so it freezes nothing", prefix)
		}
	}
	return out
}

// assumptions say what the numbers rest on.
func assumptions(j job.Job, m Machine, unknown []string) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case m.Assumed:
		add("no card was named: library workspaces are those of an %s", m.Card.Title)
	case m.Card.Name != "h200":
		add("library workspaces and kernels' buffers were measured on an H200; for the %s they follow from its size and PyTorch's source", m.Card.Title)
	}
	if m.Card.BF16 == 0 && !m.Assumed && (j.Autocast == torch.BF16 || j.ParamDType == torch.BF16) {
		add("the %s has no bf16 units: bf16 is slow there; amp-fp16 is faster", m.Card.Title)
	}
	if m.Card.Context == 0 {
		add("the CUDA context of this card is not known: the largest measured one is used (%s)", m.context().Short())
	}
	if !torch.LazyKernels.Has(m.Torch) {
		add("wheels of PyTorch %s load all kernels at once: about 1 GiB of the CUDA context (%s)", m.Torch, m.context().Short())
	}
	if m.Capacity == 0 && m.Card.Total == 0 {
		add("capacity is the nominal one; PyTorch sees a little less (--memory sets it)")
	}
	if m.Torch.OrLatest() != torch.Latest {
		add("operators are those of PyTorch %s; allocator and cuBLAS workspaces are those of %s", torch.Latest, m.Torch)
	}
	if j.Autocast == torch.FP16 {
		add("steady state: steps that GradScaler skips while gradients overflow need less")
	}
	if j.LoRARank > 0 {
		add("adapters follow the code of PEFT: fp32 beside a frozen model")
	}
	if j.BaseBits == 8 {
		add("the 8-bit base is bitsandbytes' LLM.int8, read with device_map and prepared by prepare_model_for_kbit_training; columns of outliers, which depend on the data, are not counted")
	}
	if j.BaseBits == 4 {
		add("the 4-bit base is bitsandbytes' NF4 with double quantization, read with device_map and prepared by prepare_model_for_kbit_training")
	}
	if a, ok := j.Optimizer.Algorithm(); ok {
		if a.Note != "" {
			add("%s", a.Note)
		}
	}
	switch j.LossKernel {
	case "liger":
		add("the loss follows the code of Liger's fused linear cross-entropy (0.8): logits exist for a piece of the batch only, and outputs have none; other kernels of Liger are not counted")
	case "chunked":
		add("the loss follows the code of torchtune's chunked cross-entropy in eight pieces; the one measured job needed 2 %% more")
	}
	if j.InBackward {
		add("optimizer_in_backward follows PyTorch's tutorial: an optimizer for each parameter, whose gradient is freed when it has stepped")
	}
	if j.AttentionMask == job.MaskPacked {
		if j.Attn == setup.FlashAttention2 {
			add("packed rows need no mask with flash_attention_2, which is told where each sample begins")
		} else {
			add("packed rows need a mask of rows by rows for scaled_dot_product_attention, as padding does; --attn flash_attention_2 needs none")
		}
	}
	if j.OffloadActivations {
		add("activations on the host follow the code of torch.autograd.graph.save_on_cpu")
	}
	out = append(out, j.Notes...)
	if j.TF32 {
		add("TF32 changes speed, not memory")
	}
	for _, op := range unknown {
		add("operator %s is not known: its inputs and results are assumed to be kept", op)
	}
	for _, f := range j.Ignored {
		if f != "measured" && f != "scaler_skipped" {
			add("field %q of the job has no effect here and was ignored", f)
		}
	}
	return out
}
