package families

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// stack is the decoder that Llama, Gemma, Phi-3 and their kin share (transformers 5.17, modeling_llama.py and what is generated from it):
// embeddings, rotary positions, layers, a last norm, a head. Families bring the parts.
type stack struct {
	*decoder
	window  windowing
	embed   func(ids *eager.Tensor) *eager.Tensor
	layers  []stackLayer
	slides  []bool // which of them attend within the window
	norm    unary
	ropes   []*rotary
	full    *rotary // of layers that see everything
	sliding *rotary // of layers with a window; mostly the same
}

// unary is a module of one input.
type unary interface {
	forward(*eager.Tensor) *eager.Tensor
}

// stackLayer is one decoder layer.
type stackLayer interface {
	forward(hidden, cos, sin, mask *eager.Tensor) *eager.Tensor
}

// parts are what a family puts into the stack, registered in this order.
type parts struct {
	embed func(model *eager.Module) (forward func(*eager.Tensor) *eager.Tensor, words *eager.Tensor)
	layer func(m *eager.Module, i int) (stackLayer, error)
	norm  func(model *eager.Module) unary
	rope  int // how much of a head is rotated
}

func newStack(p *eager.Process, c *hfconfig.Config, s Spec, with parts) (*stack, error) {
	m := &stack{decoder: newDecoder(p, c, s), window: windowingOf(c)}
	model := m.root.Child("model")
	embed, words := with.embed(model)
	m.embed = embed
	list := model.Child("layers")
	for i := range c.Int("num_hidden_layers") {
		l, err := with.layer(list.Item(i), i)
		if err != nil {
			return nil, err
		}
		m.layers = append(m.layers, l)
		m.slides = append(m.slides, m.window.of(i))
	}
	m.norm = with.norm(model)
	m.addRopes(model, c, with.rope)
	return m, m.addHead(c, c.Int("hidden_size"), words, m.model)
}

// addRopes registers one pair of buffers, or a pair for each kind of layer that occurs.
func (m *stack) addRopes(model *eager.Module, c *hfconfig.Config, dim int) {
	m.full = newRotary(model, dim)
	m.sliding, m.ropes = m.full, []*rotary{m.full}
	kinds := m.window.kinds
	if c.Family.Ropes < 2 || !slices.Contains(kinds, "sliding_attention") || !slices.Contains(kinds, "full_attention") {
		return
	}
	inv := m.full.Buffer("sliding_attention_inv_freq", tensor.Float32, dim/2)
	m.full.Buffer("sliding_attention_original_inv_freq", tensor.Float32, dim/2)
	m.sliding = &rotary{Module: m.full.Module, dim: dim, inv: inv}
	m.ropes = append(m.ropes, m.sliding)
}

// model is LlamaModel.forward.
func (m *stack) model(ids *eager.Tensor) *eager.Tensor {
	p := m.root.Process()
	c := m.root.Enter(ids)
	embeds := c.Let(m.embed(ids))
	positions := c.Let(positionIDs(p, m.spec.Seq))
	masks := newMaskPair(c, m.spec, embeds.DType, m.window)
	hidden := c.Let(embeds)
	waves := map[*rotary][2]*eager.Tensor{}
	for _, r := range m.ropes {
		cos, sin := r.forward(hidden, positions)
		waves[r] = [2]*eager.Tensor{c.Let(cos), c.Let(sin)}
	}
	for i, l := range m.layers {
		h, mask, wave := hidden, masks.of(m.slides[i]), waves[m.full]
		if m.slides[i] {
			wave = waves[m.sliding]
		}
		run := func() *eager.Tensor { return l.forward(h, wave[0], wave[1], mask) }
		c.Set(&hidden, layer(p, m.spec.Checkpointing, run, h, wave[0], wave[1], mask, positions))
	}
	c.Set(&hidden, m.norm.forward(hidden))
	return c.Return(hidden)
}

// plainEmbedding is embed_tokens of most families.
func plainEmbedding(c *hfconfig.Config) func(*eager.Module) (func(*eager.Tensor) *eager.Tensor, *eager.Tensor) {
	return func(model *eager.Module) (func(*eager.Tensor) *eager.Tensor, *eager.Tensor) {
		e := model.Embedding("embed_tokens", c.Int("vocab_size"), c.Int("hidden_size"))
		return e.Forward, e.Weight
	}
}

// plainNorm is the last norm of most families.
func plainNorm(c *hfconfig.Config) func(*eager.Module) unary {
	return func(model *eager.Module) unary { return newRMSNorm(model, "norm", c.Int("hidden_size")) }
}
