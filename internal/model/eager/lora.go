package eager

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// LoRA says which layers get low-rank adapters, as PEFT attaches them. It was checked with the rows that PEFT publishes (scripts/peft.sh).
type LoRA struct {
	Rank    int
	Targets []string // ends of module names: q_proj, self_attn.v_proj; "all-linear": every one but the head
	Dropout float64
	NF4     bool // the base is quantized to four bits (bitsandbytes, double quantization)
	Int8    bool // the base is quantized to eight bits (bitsandbytes, LLM.int8())
	// Half: adapters are in the model's 16-bit type, or in bf16 where its base is quantized, instead of fp32.
	Half bool
	// Torchao: torchtune's adapters. Nothing is raised to fp32, and a base in four bits is torchao's NF4Tensor.
	Torchao bool
	// Saves are ends of module names that are trained whole, as copies beside the frozen ones: the head of a classifier, which PEFT adds to modules_to_save by its task type.
	Saves []string
	DoRA  bool // the weights are split into direction, which the adapters change, and magnitude, which is trained beside them
}

// adapter is one pair of matrices beside a linear layer.
type adapter struct {
	a, b      *Tensor
	magnitude *Tensor // of DoRA; nil: plain LoRA
	dropout   float64
}

// AttachLoRA freezes the model and gives its target layers adapters in fp32 (peft: autocast_adapter_dtype). With a quantized base every linear layer but
// the head keeps packed weights, and all other parameters are raised to fp32 (prepare_model_for_kbit_training).
// It must come before Load.
func (m *Module) AttachLoRA(o LoRA) error {
	m.root.base = len(m.root.created)
	for _, t := range m.Parameters() {
		t.requires, t.frozen = false, true
		if (o.NF4 || o.Int8) && !o.Torchao && t.DType.Floating() {
			m.raise(t)
		}
	}
	targets, attached, err := m.attachStacked(o)
	if err != nil {
		return err
	}
	o.Targets = targets
	var names []string
	for _, l := range m.root.linears {
		name := l.path[strings.LastIndexByte(l.path, '.')+1:]
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		head := l.head || !l.known && (name == "lm_head" || strings.HasSuffix(name, "classifier") || strings.HasSuffix(name, "score"))
		if tied := l.known && l.Weight.Name != l.path+".weight"; (o.NF4 || o.Int8) && !head && !tied {
			l.packed, l.int8, l.torchao = true, o.Int8, o.Torchao
			l.Weight.DType = m.dtype
			delete(m.root.raised, l.Weight)
			l.Weight.packed = o.quantized(l.Weight.Dim(0), l.Weight.Dim(1))
		}
		if !o.meets(l.path) && (!slices.Contains(o.Targets, "all-linear") || head || m.taken(name) || o.saves(l.path+".")) {
			continue
		}
		l.lora = l.adapt(o)
		attached++
	}
	more, err := m.attachNamed(o)
	if err != nil {
		return err
	}
	if attached+more == 0 {
		return o.none(names)
	}
	m.saveModules(o)
	return nil
}

// raise is what prepare_model_for_kbit_training does to a parameter that is not quantized
// (https://github.com/huggingface/peft/blob/v0.18.0/src/peft/utils/other.py).
// A model that was read from its code is described as it computes, in fp32 already: its file has the model's type.
func (m *Module) raise(t *Tensor) {
	stored := t.DType
	if stored == tensor.Float32 {
		stored = m.dtype
	}
	if stored == tensor.Float32 {
		return
	}
	if m.root.raised == nil {
		m.root.raised = map[*Tensor]tensor.DType{}
	}
	m.root.raised[t] = stored
	t.DType = tensor.Float32
}

// saves tells whether a path, which ends with a dot, is that of a module that is trained whole, or inside one.
func (o LoRA) saves(path string) bool {
	return slices.ContainsFunc(o.Saves, func(n string) bool { return strings.HasPrefix(path, n+".") || strings.Contains(path, "."+n+".") })
}

// saveModules is ModulesToSaveWrapper: a module is copied, the copy is trained, and the original stays where it is
// (https://github.com/huggingface/peft/blob/v0.18.0/src/peft/utils/other.py, class ModulesToSaveWrapper; which ones: PeftModelForSequenceClassification and its kin in peft_model.py).
func (m *Module) saveModules(o LoRA) {
	for _, t := range m.Parameters() {
		path := t.Name[:strings.LastIndexByte(t.Name, '.')+1]
		if !o.saves(path) || t.requires { // adapters inside are trained already
			continue
		}
		t.requires, t.frozen = true, false
		original := m.Child("original_module").ParamOf(t.Name, t.DType, t.Sizes...)
		original.requires, original.frozen = false, true
	}
}

// none says that a model has none of the targets; names are those of its linear layers.
func (o LoRA) none(names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("lora_targets %s: the model has no linear layer, and no convolution or embedding of that name", strings.Join(o.Targets, ","))
	}
	slices.Sort(names)
	return fmt.Errorf("lora_targets %s: the model has no linear layer, convolution or embedding of that name; its linear layers are %s (--lora-targets all-linear takes every one)",
		strings.Join(o.Targets, ","), strings.Join(names, ", "))
}

// meets tells whether a module is named as a target: by its whole name or the end of it, from a dot on
// (https://github.com/huggingface/peft/blob/v0.18.0/src/peft/tuners/tuners_utils.py, check_target_module_exists).
func (o LoRA) meets(path string) bool {
	return slices.ContainsFunc(o.Targets, func(t string) bool { return path == t || strings.HasSuffix(path, "."+t) })
}

func (l *LinearModule) adapt(o LoRA) *adapter {
	down, up := l.Child("lora_A").Child("default"), l.Child("lora_B").Child("default")
	down.dtype, up.dtype = o.adapterType(l.dtype), o.adapterType(l.dtype)
	in, out := l.sizes()
	made := &adapter{a: down.Param("weight", o.Rank, in), b: up.Param("weight", out, o.Rank), dropout: o.Dropout}
	if o.DoRA {
		scale := l.Child("lora_magnitude_vector").Child("default")
		scale.dtype = tensor.Float32
		made.magnitude = scale.Param("weight", out)
	}
	return made
}

// adapterType is what adapters are made in, beside a layer of a type.
func (o LoRA) adapterType(layer tensor.DType) tensor.DType {
	switch {
	case !o.Half:
		return tensor.Float32
	case o.NF4 || o.Int8:
		return tensor.BFloat16
	}
	return layer
}

// How many tensors a weight of bitsandbytes is.
const (
	eightBitParts = 2
	fourBitParts  = 6
)

// quantized are the tensors of a weight in eight or four bits. int8: CB, and SCB, a scale for each row (bitsandbytes, Int8Params). NF4 with double quantization: half a byte a weight, one
// 8-bit scale for 64 of them, one fp32 scale for 256 of those, and of bitsandbytes both codebooks and the mean of the scales, which every layer has for itself: QuantState of
// https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/functional.py, quantize_4bit; a test counts them (quantized_test.go).
func (o LoRA) quantized(rows, columns int) []units.Bytes {
	n := rows * columns
	if o.Int8 {
		return []units.Bytes{units.Bytes(n), units.Bytes(4 * rows)}
	}
	blocks := ceilDiv(n, 64)
	out := []units.Bytes{units.Bytes(ceilDiv(n, 2)), units.Bytes(blocks), units.Bytes(4 * ceilDiv(blocks, 256))}
	if !o.Torchao {
		const code, mean, codeOfScales = 16 * 4, 4, 256 * 4
		out = append(out, code, mean, codeOfScales)
	}
	return out
}

// forwardLoRA is peft's lora.Linear.forward: the base layer, and the adapter on the input in the adapter's type.
func (l *LinearModule) forwardLoRA(x *Tensor) *Tensor {
	c := l.Enter(x)
	result := c.Let(l.base(x))
	if l.lora == nil {
		return c.Return(result)
	}
	if l.packed && !l.int8 && !l.torchao { // "defensively clone": https://github.com/huggingface/peft/blob/v0.21.0/src/peft/tuners/lora/bnb.py, Linear4bit.forward
		c.Set(&result, result.Clone())
	}
	d := result.DType
	cast := c.Let(x.To(l.lora.a.DType))
	if l.lora.magnitude != nil {
		c.Set(&result, result.Add(l.dora(cast, result)))
	} else {
		delta := Linear(Linear(cast.Dropout(l.lora.dropout), l.lora.a, nil), l.lora.b, nil).MulScalar()
		c.Set(&result, result.Add(delta))
	}
	c.Set(&result, result.To(d))
	return c.Return(result)
}

// dora is DoraLinearLayer.forward: the norm of the adapted weights is computed from products with an identity matrix, without a gradient, then both
// parts of the result are scaled by magnitude over norm
// (https://github.com/huggingface/peft/blob/0a6cd5a459262e590346d1c2856759cedd14c615/src/peft/tuners/lora/dora.py#L53, and base_result since 0.14).
func (l *LinearModule) dora(x, base *Tensor) *Tensor {
	p, lora := x.p, l.lora
	_, out := l.sizes()
	c := p.Function(x, base)
	if lora.dropout > 0 {
		x = c.Let(x.Dropout(lora.dropout))
	}
	low := c.Let(l.loraWeight())
	c.Set(&low, low.To(x.DType)) // autocast computed it in 16 bits
	whole := c.Let(l.Weight.To(tensor.Float32))
	if l.turned {
		whole = c.Let(whole.Transpose(0, 1))
	}
	var norm *Tensor
	p.NoGrad(func() {
		scaled := low.Transpose(0, 1).MulScalar()
		sum := whole.Add(scaled)
		norm = c.Let(p.reduceDims(sum, []int{1}, tensor.Float32).Squeeze(1))
		drop(sum)
	})
	scale := c.Let(lora.magnitude.Div(norm).View(1, out))
	delta := c.Let(Linear(Linear(x, lora.a, nil), lora.b, nil))
	switch {
	case lora.dropout > 0:
		base = c.Let(Linear(x, whole, nil))
	case l.Bias != nil: // the magnitude scales what comes before it
		base = c.Let(base.Add(l.Bias))
	}
	return c.Return(scale.AddScalar().Mul(base).Add(scale.Mul(delta).MulScalar()))
}

// loraWeight is get_lora_weight: the product of both matrices, by way of an identity matrix which only its graph keeps.
func (l *LinearModule) loraWeight() *Tensor {
	in, _ := l.sizes()
	c := l.p.Function()
	eye := c.Let(l.p.emptyOf(tensor.Float32, in, in))
	return c.Return(Linear(Linear(eye, l.lora.a, nil), l.lora.b, nil))
}

// base is the frozen layer; packed weights are unpacked whole for the product and again for its gradient (bitsandbytes MatMul4Bit).
func (l *LinearModule) base(x *Tensor) *Tensor {
	switch {
	case !l.packed && l.turned:
		return l.conv1D(x)
	case !l.packed:
		return Linear(x, l.Weight, l.Bias)
	}
	if l.int8 {
		return l.base8(x)
	}
	_, width := l.sizes()
	p, given := x.p, x.DType
	in := x.To(l.compute())
	p.op = "bitsandbytes::MatMul4Bit"
	n := p.record("MatMul4BitBackward", in)
	scales := l.scales(2)
	whole := l.unpacked(in.DType)
	sizes := append(slices.Clone(in.Sizes[:in.Rank()-1]), width)
	out := n.out(p.emptyOf(in.DType, sizes...))
	p.useBlas()
	deep := in.Dim(-1)
	rows := in.Numel() / max(deep, 1)
	p.multiply(p.op, in.DType, alignment(whole), 1, rows, width, deep)
	drop(scales...)
	drop(whole)
	n.backward(func(g []*Tensor) []*Tensor {
		scales := l.scales(1)
		again := l.unpacked(l.dtype)
		drop(scales...)
		if again.DType != in.DType {
			cast := p.emptyOf(in.DType, again.Sizes...)
			drop(again)
			again = cast
		}
		p.useBlas()
		p.multiply(n.name, in.DType, alignment(again), 1, rows, deep, width)
		grad := p.emptyOf(in.DType, in.Sizes...)
		drop(again)
		return []*Tensor{grad}
	})
	drop(in)
	return out.To(given)
}

// scales are those of a base in four bits in fp32, so many copies at once: the scales themselves, and with their mean added
// (https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/backends/cuda/ops.py, _dequant_linear_fallback: forward makes both; functional.py, dequantize_4bit: backward adds
// in place; recorded). Up to 1,536 tokens bitsandbytes multiplies some shapes without unpacking, which needs less.
func (l *LinearModule) scales(copies int) []*Tensor {
	var out []*Tensor
	if l.torchao {
		return nil
	}
	for range copies {
		out = append(out, l.p.emptyOf(tensor.Float32, int(l.Weight.packed[1])))
	}
	slices.Reverse(out) // the last goes first
	return out
}

// compute is the type that products with a base in four bits run in. bitsandbytes casts its input to bnb_4bit_compute_dtype and the result back
// (https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/nn/modules.py#L626); plans write autocast's type there, or the model's.
func (l *LinearModule) compute() tensor.DType {
	if d, on := l.p.Autocasting(); on {
		return d
	}
	return l.dtype
}

// unpacked are the weights of a layer with a base in four bits. bitsandbytes has a kernel for it; torchao's NF4Tensor looks every half byte up by an index of
// eight bytes and puts the halves together (get_original_weight,
// https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/quantize_/workflows/nf4/nf4_tensor.py#L855).
func (l *LinearModule) unpacked(d tensor.DType) *Tensor {
	p := l.p
	if !l.torchao {
		out := p.emptyOf(d, l.Weight.Sizes...)
		p.observe("bitsandbytes::dequantize_4bit", d, 0, l.Weight.packed[0], out.Bytes())
		return out
	}
	half := l.Weight.Numel() / 2
	var named []*Tensor
	for range 2 {
		bits := p.emptyOf(tensor.Uint8, half)
		named = append(named, p.emptyOf(tensor.Int64, half))
		drop(bits)
	}
	named = append(named, p.emptyOf(d, half), p.emptyOf(d, half), p.emptyOf(d, ceilDiv(half, 32)))
	for range 2 {
		scales := p.emptyOf(d, half)
		named = append(named, p.emptyOf(d, half))
		drop(scales)
	}
	out := p.emptyOf(d, l.Weight.Sizes...)
	p.observe("torchao::NF4Tensor", d, 0, 14*units.Bytes(2*half), 14*units.Bytes(2*half))
	drop(named...)
	return out
}

// base8 is bitsandbytes' MatMul8bitLt: the input is quantized by rows, in fp16, beside a mask of outliers; the product is one of int32, then fp16, then of the input's type, and the input
// itself is kept. Its gradient needs the weights whole. Outliers, which are multiplied apart, are not counted (recorded with bitsandbytes 0.50.2).
// https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/autograd/_functions.py#L101
func (l *LinearModule) base8(x *Tensor) *Tensor {
	_, width := l.sizes()
	p := x.p
	p.op = "bitsandbytes::MatMul8bitLt"
	n := p.record("MatMul8bitLtBackward", x)
	n.hold(x)
	sizes := append(slices.Clone(x.Sizes[:x.Rank()-1]), width)
	var half *Tensor
	if x.DType != tensor.Float16 {
		half = p.emptyOf(tensor.Float16, x.Sizes...)
	}
	scales := p.emptyOf(tensor.Float32, x.Numel()/max(x.Dim(-1), 1))
	codes := p.emptyOf(tensor.Uint8, x.Sizes...)
	absolute, outliers := p.emptyOf(tensor.Float16, x.Sizes...), p.emptyOf(tensor.Bool, x.Sizes...)
	drop(absolute, outliers, half)
	product, out := p.emptyOf(tensor.Int32, sizes...), p.emptyOf(tensor.Float16, sizes...)
	if x.DType != tensor.Float16 {
		cast := p.emptyOf(x.DType, sizes...)
		drop(out)
		out = cast
	}
	n.out(out)
	p.observe(p.op, x.DType, 2*float64(x.Numel())*float64(width), x.Bytes()+units.Bytes(l.Weight.Numel()), out.Bytes())
	drop(product, codes, scales)
	n.backward(func(g []*Tensor) []*Tensor {
		whole := p.emptyOf(x.DType, l.Weight.Sizes...)
		p.useBlas()
		grad := p.emptyOf(x.DType, x.Sizes...)
		drop(whole)
		return []*Tensor{grad}
	})
	drop(x)
	return out
}
