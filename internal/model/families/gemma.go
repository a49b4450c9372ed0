package families

import (
	"errors"
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// gemma is GemmaForCausalLM, Gemma2ForCausalLM or Gemma3ForCausalLM (transformers 5.17, modeling_gemma.py,
// modeling_gemma2.py and the text half of modeling_gemma3.py).
type gemma struct {
	*decoder
	window  windowing
	embed   *scaledEmbedding
	layers  []*gemmaLayer
	norm    *gemmaNorm
	ropes   []*rotary
	full    *rotary // of layers that see everything
	sliding *rotary // of layers with a window; the same but in Gemma 3
}

func newGemma(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if c.Has("use_bidirectional_attention") && c.Bool("use_bidirectional_attention") {
		return nil, errors.New("gemma with use_bidirectional_attention is not written here")
	}
	m := &gemma{decoder: newDecoder(p, c, s), window: windowingOf(c)}
	model := m.root.Child("model")
	hidden := c.Int("hidden_size")
	m.embed = newScaledEmbedding(model, "embed_tokens", c.Int("vocab_size"), hidden, !c.Null("pad_token_id"), s.DType)
	list := model.Child("layers")
	for i := range c.Int("num_hidden_layers") {
		l, err := newGemmaLayer(list.Item(i), c, s, m.window.of(i))
		if err != nil {
			return nil, err
		}
		m.layers = append(m.layers, l)
	}
	m.norm = newGemmaNorm(model, "norm", hidden)
	m.addRopes(model, c)
	if err := m.addHead(c, hidden, m.embed.Weight, m.model); err != nil {
		return nil, err
	}
	if s.Task == "causal-lm" && c.Has("final_logit_softcapping") && !c.Null("final_logit_softcapping") {
		m.logits = softcapped(p, m.logits)
	}
	return m, nil
}

// addRopes registers one pair of buffers, or in Gemma 3 a pair for each kind of layer that occurs.
func (m *gemma) addRopes(model *eager.Module, c *hfconfig.Config) {
	m.full = newRotary(model, headDim(c))
	m.sliding, m.ropes = m.full, []*rotary{m.full}
	kinds := m.window.kinds
	if c.Type != "gemma3_text" || !slices.Contains(kinds, "sliding_attention") || !slices.Contains(kinds, "full_attention") {
		return
	}
	inv := m.full.Buffer("sliding_attention_inv_freq", tensor.Float32, m.full.dim/2)
	m.full.Buffer("sliding_attention_original_inv_freq", tensor.Float32, m.full.dim/2)
	m.sliding = &rotary{Module: m.full.Module, dim: m.full.dim, inv: inv}
	m.ropes = append(m.ropes, m.sliding)
}

// softcapped is final_logit_softcapping: cap * tanh(logits / cap).
func softcapped(p *eager.Process, head func(*eager.Tensor) *eager.Tensor) func(*eager.Tensor) *eager.Tensor {
	return func(hidden *eager.Tensor) *eager.Tensor {
		c := p.Function(hidden)
		logits := c.Let(head(hidden))
		c.Set(&logits, logits.DivScalar())
		c.Set(&logits, logits.Tanh())
		c.Set(&logits, logits.MulScalar())
		return c.Return(logits)
	}
}

// model is Gemma3TextModel.forward.
func (m *gemma) model(ids *eager.Tensor) *eager.Tensor {
	p := m.root.Process()
	c := m.root.Enter(ids)
	embeds := c.Let(m.embed.forward(ids))
	positions := c.Let(positionIDs(p, m.spec.Seq))
	masks := newMaskPair(c, m.spec, embeds.DType, m.window)
	hidden := c.Let(embeds)
	waves := map[*rotary][2]*eager.Tensor{}
	for _, r := range m.ropes {
		cos, sin := r.forward(hidden, positions)
		waves[r] = [2]*eager.Tensor{c.Let(cos), c.Let(sin)}
	}
	for _, l := range m.layers {
		h, mask, wave := hidden, masks.of(l.sliding), waves[m.full]
		if l.sliding {
			wave = waves[m.sliding]
		}
		run := func() *eager.Tensor { return l.forward(h, wave[0], wave[1], mask) }
		c.Set(&hidden, layer(p, m.spec.Checkpointing, run, h, wave[0], wave[1], mask, positions))
	}
	c.Set(&hidden, m.norm.forward(hidden))
	return c.Return(hidden)
}

// scaledEmbedding is GemmaTextScaledWordEmbedding: the rows times a scalar on the card.
type scaledEmbedding struct {
	*eager.EmbeddingModule
	scale *eager.Tensor
}

func newScaledEmbedding(m *eager.Module, name string, rows, width int, padding bool, d tensor.DType) *scaledEmbedding {
	e := m.Embedding(name, rows, width, padding)
	return &scaledEmbedding{e, e.Buffer("embed_scale", d)}
}

func (e *scaledEmbedding) forward(ids *eager.Tensor) *eager.Tensor {
	c := e.Enter(ids)
	return c.Return(eager.Embedding(ids, e.Weight, e.Padding).Mul(e.scale))
}

// gemmaNorm is GemmaRMSNorm: the weight is applied in fp32, as 1 + weight.
type gemmaNorm struct {
	*eager.Module
	weight *eager.Tensor
}

func newGemmaNorm(m *eager.Module, name string, width int) *gemmaNorm {
	c := m.Child(name)
	return &gemmaNorm{c, c.Param("weight", width)}
}

func (n *gemmaNorm) forward(x *eager.Tensor) *eager.Tensor {
	c := n.Enter(x)
	out := c.Let(n.norm(x.Float()))
	c.Set(&out, out.Mul(n.weight.Float().AddScalar()))
	return c.Return(out.To(x.DType))
}

func (n *gemmaNorm) norm(x *eager.Tensor) *eager.Tensor {
	c := n.Process().Function(x)
	return c.Return(x.Mul(x.Pow().Mean(true, -1).AddScalar().Rsqrt()))
}

// gemmaQKNorm are the norms of Gemma3Attention.
type gemmaQKNorm struct{ q, k *gemmaNorm }

// gemmaLayer is GemmaDecoderLayer (two norms) or Gemma2DecoderLayer (four, the outer two after attention and MLP).
type gemmaLayer struct {
	*eager.Module
	attn                 *llamaAttention
	mlp                  *gatedMLP
	input, after         *gemmaNorm
	before, afterForward *gemmaNorm // nil for Gemma
	sliding              bool
}

func newGemmaLayer(m *eager.Module, c *hfconfig.Config, s Spec, sliding bool) (*gemmaLayer, error) {
	hidden := c.Int("hidden_size")
	l := &gemmaLayer{Module: m, attn: newLlamaAttention(m.Child("self_attn"), c, s), sliding: sliding}
	l.attn.impl.softcap = c.Type == "gemma2" && !c.Null("attn_logit_softcapping")
	mlp, err := newGatedMLP(m.Child("mlp"), c)
	if err != nil {
		return nil, err
	}
	l.mlp = mlp
	l.input = newGemmaNorm(m, "input_layernorm", hidden)
	l.after = newGemmaNorm(m, "post_attention_layernorm", hidden)
	if c.Type != "gemma" {
		l.before = newGemmaNorm(m, "pre_feedforward_layernorm", hidden)
		l.afterForward = newGemmaNorm(m, "post_feedforward_layernorm", hidden)
	}
	return l, nil
}

func (l *gemmaLayer) forward(hidden, cos, sin, mask *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden, cos, sin, mask)
	residual := c.Let(hidden)
	hidden = c.Let(l.input.forward(hidden))
	attended, weights := l.attn.forward(hidden, cos, sin, mask)
	c.Set(&hidden, attended)
	c.Let(weights)
	if l.before == nil {
		c.Set(&hidden, residual.Add(hidden))
		c.Set(&residual, hidden)
		c.Set(&hidden, l.after.forward(hidden))
		c.Set(&hidden, l.mlp.forward(hidden))
		c.Set(&hidden, residual.Add(hidden))
		return c.Return(hidden)
	}
	c.Set(&hidden, l.after.forward(hidden))
	c.Set(&hidden, residual.Add(hidden))
	c.Set(&residual, hidden)
	c.Set(&hidden, l.before.forward(hidden))
	c.Set(&hidden, l.mlp.forward(hidden))
	c.Set(&hidden, l.afterForward.forward(hidden))
	c.Set(&hidden, residual.Add(hidden))
	return c.Return(hidden)
}
