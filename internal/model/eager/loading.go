package eager

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// read is from_pretrained with a device_map: the constructor runs on the meta device and ties weights there, one block of all that will be read is taken and let go
// again, and the parameters get their memory out of it, in the order of their names. What prepare_model_for_kbit_training turns into fp32, and adapters, come after
// (https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/modeling_utils.py, caching_allocator_warmup and get_total_byte_count;
// core_model_loading.py, dot_natural_key).
func (m *Module) read() {
	base := m.created
	if m.base > 0 {
		base = base[:m.base]
	}
	lives := m.living()
	files := slices.DeleteFunc(slices.Clone(base), func(t *Tensor) bool { return !lives[t] })
	slices.SortStableFunc(files, func(a, b *Tensor) int { return compareNames(a.Name, b.Name) })
	files = slices.Compact(files) // one that was created twice
	whole := units.Bytes(0)
	for _, t := range files {
		whole += m.stored(t)
	}
	m.p.category, m.p.op = tape.Other, tape.OpAhead
	m.p.alloc(whole).release()
	for _, t := range files {
		m.fetch(t)
	}
	for _, t := range base {
		if _, raised := m.raised[t]; lives[t] && raised {
			m.renew(t)
		}
	}
	m.addAdapters(m.created[len(base):], lives)
}

// renew gives a parameter memory of its present type.
func (m *Module) renew(t *Tensor) {
	old := t.store
	t.store = nil
	m.place(t, "parameter")
	old.release()
}

// addAdapters puts PEFT's adapters onto the card: all of them in the type of the layer beside them, then one after the other as fp32. The type of a layer in eight bits is no
// floating-point one: adapters are fp32 from the start
// (https://github.com/huggingface/peft/blob/v0.21.0/src/peft/tuners/tuners_utils.py, _move_adapter_to_device_of_base_layer and cast_adapter_dtype; recorded).
func (m *Module) addAdapters(made []*Tensor, lives map[*Tensor]bool) {
	var halves []*Tensor
	lower := m.dtype.Half() && !m.eightBits()
	for _, t := range made {
		switch {
		case !lives[t]:
		case lower && t.DType == tensor.Float32 && strings.Contains(t.Name, "lora_"):
			m.placeAs(t, "parameter", t.bytes()/2)
			halves = append(halves, t)
		default:
			m.place(t, "parameter")
		}
	}
	for _, t := range halves {
		m.renew(t)
	}
}

// eightBits tells whether the base is quantized to eight bits.
func (m *Module) eightBits() bool {
	return slices.ContainsFunc(m.root.linears, func(l *LinearModule) bool { return l.int8 })
}

// fetch reads one parameter onto the card, and quantizes it there.
func (m *Module) fetch(t *Tensor) {
	switch len(t.packed) {
	case eightBitParts:
		m.quantize8(t)
	case fourBitParts:
		m.quantize4(t)
	default:
		m.placeAs(t, tape.OpRead, m.stored(t))
	}
}

// scratch is memory that quantizing takes for a moment.
func (m *Module) scratch(size units.Bytes) *storage {
	m.p.category, m.p.op = tape.Other, "quantize"
	return m.p.alloc(size)
}

// quantize8 is Int8Params._quantize: a copy in fp16, the scales, and the codes.
// https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/nn/modules.py#L742
func (m *Module) quantize8(t *Tensor) {
	n := units.Bytes(t.Numel())
	given := m.scratch(n * t.DType.Width())
	half := m.scratch(2 * n)
	m.keep(t, "parameter", t.packed[1])
	t.store = m.keep(t, tape.OpRead, t.packed[0])
	half.release()
	given.release()
}

// quantize4 is Params4bit._quantize with double quantization, in the order of its allocations: the scales in fp32, the codes, their codebook, the mean of the scales, the scales less their
// mean, and those quantized (https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.50.2/bitsandbytes/functional.py, quantize_4bit and quantize_blockwise; recorded).
func (m *Module) quantize4(t *Tensor) {
	const codebook = 16 * 4
	given := m.scratch(units.Bytes(t.Numel()) * t.DType.Width())
	scales := m.scratch(4 * t.packed[1])
	t.store = m.keep(t, tape.OpRead, t.packed[0])
	m.keep(t, "parameter", t.packed[3])
	sizes := m.scratch(codebook)
	largest := m.scratch(4)
	sizes.release()
	largest.release()
	m.keep(t, "parameter", t.packed[4])
	centred := m.scratch(4 * t.packed[1])
	m.keep(t, "parameter", t.packed[2])
	m.keep(t, "parameter", t.packed[1])
	m.keep(t, "parameter", t.packed[5])
	centred.release()
	scales.release()
	given.release()
}

// compareNames orders the names of parameters as dot_natural_key does: part by part, numbers before words and by their value, words by their letters and then by the number they end with.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if c := comparePart(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func comparePart(a, b string) int {
	textA, numberA := endNumber(a)
	textB, numberB := endNumber(b)
	return cmp.Or(cmp.Compare(textA, textB), cmp.Compare(numberA, numberB)) // a number alone has no text, which comes first
}

// endNumber divides a name into letters and the number it ends with; -1: it has none.
func endNumber(part string) (text string, number int) {
	text = strings.TrimRight(part, "0123456789")
	number, err := strconv.Atoi(part[len(text):])
	if err != nil {
		return text, -1
	}
	return text, number
}
