package eager

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Module is an nn.Module: parameters, buffers and children in the order they are registered. A family's structs
// embed it, so that Enter knows the path its memory belongs to.
type Module struct {
	p        *Process
	path     string
	site     *site // of the path; nil: nobody has called it yet
	dtype    tensor.DType
	own      []*Tensor
	buffers  []*Tensor
	children []*Module
	root     *Module
	start    start           // of the root: how it gets onto the card
	linears  []*LinearModule // of the root: every nn.Linear, in order
	named    []named         // of the root: convolutions and tables that can get adapters
	stacked  []*Stacked      // of the root: parameters that get adapters as a whole
	created  []*Tensor       // of the root: everything registered, in order; what is replaced by a tied weight again at that moment
	base     int             // of the root: how much of created was there before the adapters; 0: there are none

	raised map[*Tensor]tensor.DType // of the root: the types of parameters that were turned into fp32
}

// NewModel starts a model whose parameters have a type.
func NewModel(p *Process, d tensor.DType) *Module {
	m := &Module{p: p, dtype: d}
	m.root = m
	return m
}

// CreateOnDevice says that the model is built under torch.device("cuda"): parameters get their memory in the order of
// construction, and a weight that is tied later exists until then. Otherwise it is built on the host and moved (Load).
func (m *Module) CreateOnDevice() { m.root.start = onDevice }

// CreateOnHost says that the model is built on the host and moved.
func (m *Module) CreateOnHost() { m.root.start = onHost }

// CreateMapped says that the model is read by from_pretrained(device_map="cuda").
func (m *Module) CreateMapped() { m.root.start = mapped }

// Process is the process the module lives in.
func (m *Module) Process() *Process { return m.p }

// Child registers a submodule.
func (m *Module) Child(name string) *Module {
	path := name
	if m.path != "" {
		path = m.path + "." + name
	}
	c := m.p.modules.one()
	*c = Module{p: m.p, path: path, dtype: m.dtype, root: m.root}
	m.children = append(m.children, c)
	return c
}

// Item registers the i-th member of an nn.ModuleList.
func (m *Module) Item(i int) *Module { return m.Child(strconv.Itoa(i)) }

// Param registers a parameter. It has no memory before Load.
func (m *Module) Param(name string, sizes ...int) *Tensor {
	return m.ParamOf(name, m.dtype, sizes...)
}

// ParamOf registers a parameter of a type of its own.
func (m *Module) ParamOf(name string, d tensor.DType, sizes ...int) *Tensor {
	t := m.leaf(name, d, sizes)
	t.requires = true
	m.own = append(m.own, t)
	return t
}

// Buffer registers a buffer of a type.
func (m *Module) Buffer(name string, d tensor.DType, sizes ...int) *Tensor {
	t := m.leaf(name, d, sizes)
	m.buffers = append(m.buffers, t)
	return t
}

func (m *Module) leaf(name string, d tensor.DType, sizes []int) *Tensor {
	if m.path != "" {
		name = m.path + "." + name
	}
	t := m.p.tensors.one()
	*t = Tensor{Layout: tensor.Of(sizes...), DType: d, p: m.p, refs: 1, leaf: true, Name: name}
	m.root.created = append(m.root.created, t)
	return t
}

// Passing makes a tensor that a constructor makes for a while: once all else is made, another has taken its place.
func (m *Module) Passing(bytes int) (drop func()) {
	t := m.leaf("replaced", tensor.Uint8, []int{bytes})
	return func() { m.root.created = append(m.root.created, t) }
}

// Fix switches a parameter's gradient off (requires_grad_(False) in a constructor).
func (m *Module) Fix(t *Tensor) { t.requires, t.frozen = false, true }

// Share registers another module's parameter under this one too (tied weights): it exists once.
func (m *Module) Share(t *Tensor) { m.own = append(m.own, t) }

// Enter starts the module's call.
func (m *Module) Enter(args ...*Tensor) *Call {
	c := m.p.Function(args...)
	c.args, c.module = len(c.held), true
	if m.site == nil {
		m.site = m.p.siteOf(m.path)
	}
	m.p.enter(m.site)
	return c
}

// Parameters lists every parameter once: a module's own, then its children's (named_parameters).
func (m *Module) Parameters() []*Tensor {
	m.p.walks++
	return m.collect(nil)
}

func (m *Module) collect(out []*Tensor) []*Tensor {
	for _, t := range m.own {
		if t.walk != m.p.walks {
			t.walk = m.p.walks
			out = append(out, t)
		}
	}
	for _, c := range m.children {
		out = c.collect(out)
	}
	return out
}

// start is how a model gets onto the card.
type start uint8

const (
	onHost start = iota
	onDevice
	mapped
)

// Load puts the model on the card: children first, then a module's own parameters and buffers (nn.Module._apply).
func (m *Module) Load() {
	switch {
	case m.root == m && m.start == onDevice:
		m.build()
		return
	case m.root == m && m.start == mapped:
		m.read()
		return
	}
	for _, c := range m.children {
		c.Load()
	}
	for _, t := range m.own {
		m.place(t, "parameter")
	}
	for _, t := range m.buffers {
		m.place(t, "buffer")
	}
}

// build makes everything in the order of construction.
func (m *Module) build() {
	// The device context also catches a constant that transformers' imports make: torchaudio/compliance/kaldi.py, EPSILON
	// (recorded trace).
	m.p.category, m.p.op = tape.Other, "import"
	m.p.alloc(4)
	for _, t := range m.created {
		if t.store != nil { // its second appearance: another has taken its place
			t.Release()
			continue
		}
		m.place(t, "parameter")
	}
}

// living are the parameters and buffers that the model has in the end.
func (m *Module) living() map[*Tensor]bool {
	out := map[*Tensor]bool{}
	for _, t := range slices.Concat(m.own, m.buffers) {
		out[t] = true
	}
	for _, c := range m.children {
		maps.Copy(out, c.living())
	}
	return out
}

// stored is how many bytes of a parameter are read from its file: codes where it is quantized, and its own type where it is turned into another.
func (m *Module) stored(t *Tensor) units.Bytes {
	if was, ok := m.raised[t]; ok && len(t.packed) == 0 {
		return units.Bytes(t.Numel()) * was.Width()
	}
	return t.bytes()
}

// bytes is the size of a parameter without what stands beside its codes.
func (t *Tensor) bytes() units.Bytes {
	if len(t.packed) > 0 {
		return t.packed[0]
	}
	return units.Bytes(t.Numel()) * t.DType.Width()
}

// ToChannelsLast is model.to(memory_format=torch.channels_last) on a loaded model: every parameter of four dimensions is copied and
// the original let go, children first (nn.Module._apply).
func (m *Module) ToChannelsLast() {
	for _, c := range m.children {
		c.ToChannelsLast()
	}
	for _, t := range m.own {
		if t.Rank() != 4 || t.store == nil {
			continue
		}
		t.Layout = tensor.ChannelsLast(t.Sizes...)
		m.renew(t)
	}
}

func (m *Module) place(t *Tensor, op string) { m.placeAs(t, op, t.bytes()) }

func (m *Module) placeAs(t *Tensor, op string, size units.Bytes) {
	if t.store != nil {
		return
	}
	for _, part := range t.packed[min(1, len(t.packed)):] {
		m.keep(t, "parameter", part) // scales and codebooks
	}
	t.store = m.keep(t, op, size)
}

// keep takes memory of a parameter, which lives as long as the model.
func (m *Module) keep(t *Tensor, op string, size units.Bytes) *storage {
	p := m.p
	p.category, p.op = tape.Parameters, op
	p.enter(p.siteOf(ownerPath(t.Name)))
	made := p.alloc(size)
	p.pop()
	p.category = tape.Activations
	return made
}

// ownerPath is the module a parameter belongs to, by its name.
func ownerPath(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return ""
}

// Freeze switches gradients off for parameters whose name begins with one of the prefixes.
func (m *Module) Freeze(prefixes []string) {
	for _, t := range m.Parameters() {
		for _, prefix := range prefixes {
			if strings.HasPrefix(t.Name, prefix) {
				t.requires, t.frozen = false, true
			}
		}
	}
}

// LinearModule is nn.Linear.
type LinearModule struct {
	*Module
	Weight, Bias *Tensor

	lora    *adapter // beside the frozen layer, where set
	packed  bool     // the weight is quantized
	int8    bool     // to eight bits instead of four
	torchao bool     // as torchao's NF4Tensor instead of bitsandbytes' packing
	turned  bool     // transformers' Conv1D: the weight is stored as (in, out)
	head    bool     // gives the model's output: it is neither adapted nor quantized unless it is named
	known   bool     // whether it does is known, and not told by its name
}

// Linear registers an nn.Linear.
func (m *Module) Linear(name string, in, out int, bias bool) *LinearModule {
	c := m.Child(name)
	l := &LinearModule{Module: c, Weight: c.Param("weight", out, in)}
	if bias {
		l.Bias = c.Param("bias", out)
	}
	m.root.linears = append(m.root.linears, l)
	return l
}

// Conv1D registers a pytorch_utils.Conv1D of transformers, which GPT-2 is made of: a linear layer whose weight is stored as (in, out)
// (https://github.com/huggingface/transformers/blob/v4.57.0/src/transformers/pytorch_utils.py#L93).
func (m *Module) Conv1D(name string, in, out int) *LinearModule {
	c := m.Child(name)
	l := &LinearModule{Module: c, Weight: c.Param("weight", in, out), Bias: c.Param("bias", out), turned: true}
	m.root.linears = append(m.root.linears, l)
	return l
}

// AsLinear makes an nn.Linear, or a Conv1D (turned), of a module whose parameters are registered, so that it can get adapters.
func (m *Module) AsLinear(weight, bias *Tensor, turned, head bool) *LinearModule {
	l := &LinearModule{Module: m, Weight: weight, Bias: bias, turned: turned, head: head, known: true}
	m.root.linears = append(m.root.linears, l)
	return l
}

// Adapted tells whether the layer has adapters beside it or a quantized weight.
func (l *LinearModule) Adapted() bool { return l.lora != nil || l.packed }

// sizes are the numbers of inputs and outputs.
func (l *LinearModule) sizes() (in, out int) {
	if l.turned {
		return l.Weight.Dim(0), l.Weight.Dim(1)
	}
	return l.Weight.Dim(1), l.Weight.Dim(0)
}

// conv1D is Conv1D.forward.
func (l *LinearModule) conv1D(x *Tensor) *Tensor {
	c := l.Enter(x)
	sizes := append(slices.Clone(x.Sizes[:x.Rank()-1]), -1)
	x = c.Let(Addmm(l.Bias, x.View(-1, x.Dim(-1)), l.Weight))
	c.Set(&x, x.View(sizes...))
	return c.Return(x)
}

// Forward calls the module.
func (l *LinearModule) Forward(x *Tensor) *Tensor {
	switch {
	case l.Adapted():
		return l.forwardLoRA(x)
	case l.turned:
		return l.conv1D(x)
	}
	c := l.Enter(x)
	return c.Return(Linear(x, l.Weight, l.Bias))
}

// LayerNormModule is nn.LayerNorm.
type LayerNormModule struct {
	*Module
	Weight, Bias *Tensor
}

// LayerNorm registers an nn.LayerNorm.
func (m *Module) LayerNorm(name string, width int) *LayerNormModule {
	c := m.Child(name)
	return &LayerNormModule{c, c.Param("weight", width), c.Param("bias", width)}
}

// Forward calls the module.
func (l *LayerNormModule) Forward(x *Tensor) *Tensor {
	c := l.Enter(x)
	return c.Return(LayerNorm(x, l.Weight, l.Bias, l.Weight.Numel()))
}

// EmbeddingModule is nn.Embedding.
type EmbeddingModule struct {
	*Module
	Weight *Tensor

	lora   *adapter // beside the frozen table, where set
	scaled bool     // its results are multiplied by a number
}

// Embedding registers an nn.Embedding.
func (m *Module) Embedding(name string, rows, width int) *EmbeddingModule {
	c := m.Child(name)
	e := &EmbeddingModule{Module: c, Weight: c.Param("weight", rows, width)}
	m.root.named = append(m.root.named, e)
	return e
}

// Forward calls the module.
func (e *EmbeddingModule) Forward(indices *Tensor) *Tensor {
	if e.lora != nil {
		return e.Call(indices)
	}
	c := e.Enter(indices)
	return c.Return(Embedding(indices, e.Weight))
}

// NameInputs says that the model tells with AsInput which results are those of its input embeddings; otherwise they are those of the first table.
func (m *Module) NameInputs() { m.p.named = true }

// AsInput says that a tensor is what the model's input embeddings give: where they are frozen and layers are checkpointed, it requires a gradient all the same.
func (t *Tensor) AsInput() {
	if t.p.inputGrads {
		t.AsLeaf()
	}
}

// DropoutModule is nn.Dropout.
type DropoutModule struct {
	*Module
	Prob float64
}

// Dropout registers an nn.Dropout.
func (m *Module) Dropout(name string, prob float64) *DropoutModule {
	return &DropoutModule{m.Child(name), prob}
}

// Forward calls the module.
func (d *DropoutModule) Forward(x *Tensor) *Tensor {
	c := d.Enter(x)
	return c.Return(x.Dropout(d.Prob))
}

// replace puts a tied parameter in the place of the i-th, whose memory goes at this moment of the construction.
func (m *Module) replace(i int, t *Tensor) {
	m.root.created = append(m.root.created, m.own[i])
	m.own[i] = t
}

// Tie replaces the weight by another module's (tie_weights): it exists once.
func (l *LinearModule) Tie(t *Tensor) {
	l.replace(0, t)
	l.Weight = t
}

// Tie replaces the table by another module's.
func (e *EmbeddingModule) Tie(t *Tensor) {
	e.replace(0, t)
	e.Weight = t
}

// TieBias replaces the bias by another parameter.
func (l *LinearModule) TieBias(t *Tensor) {
	l.replace(1, t)
	l.Bias = t
}

// ConvModule is nn.Conv1d, nn.Conv2d, nn.Conv3d or their transposed forms.
type ConvModule struct {
	*Module
	Weight, Bias *Tensor
	Args         Conv

	lora *adapter // beside the frozen layer, where set
}

// Conv registers an nn.ConvNd with a kernel of the given sizes.
func (m *Module) Conv(name string, in, out int, bias bool, args Conv, kernel ...int) *ConvModule {
	c := m.Child(name)
	first, second := out, in/max(args.Groups, 1)
	if args.Transposed {
		first, second = in, out/max(args.Groups, 1)
	}
	l := &ConvModule{Module: c, Args: args, Weight: c.Param("weight", append([]int{first, second}, kernel...)...)}
	if bias {
		l.Bias = c.Param("bias", out)
	}
	if !args.Transposed { // PEFT has no adapters beside those
		m.root.named = append(m.root.named, l)
	}
	return l
}

// Forward calls the module.
func (l *ConvModule) Forward(x *Tensor) *Tensor {
	if l.lora != nil {
		return l.Call(x, l.Args)
	}
	c := l.Enter(x)
	return c.Return(Convolution(x, l.Weight, l.Bias, l.Args))
}

// BatchNormModule is nn.BatchNormNd in training.
type BatchNormModule struct {
	*Module
	Weight, Bias, Mean, Var *Tensor
}

// BatchNorm registers an nn.BatchNormNd.
func (m *Module) BatchNorm(name string, channels int) *BatchNormModule {
	c := m.Child(name)
	b := &BatchNormModule{Module: c, Weight: c.Param("weight", channels), Bias: c.Param("bias", channels)}
	b.Mean = c.Buffer("running_mean", c.dtype, channels)
	b.Var = c.Buffer("running_var", c.dtype, channels)
	c.Buffer("num_batches_tracked", tensor.Int64)
	return b
}

// Forward calls the module.
func (b *BatchNormModule) Forward(x *Tensor) *Tensor {
	c := b.Enter(x)
	return c.Return(BatchNorm(x, b.Weight, b.Bias, b.Mean, b.Var))
}
