package families

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// newGemma builds GemmaForCausalLM, Gemma2ForCausalLM or Gemma3ForCausalLM (transformers 5.17, modeling_gemma.py,
// modeling_gemma2.py and the text half of modeling_gemma3.py).
func newGemma(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if c.Has("use_bidirectional_attention") && c.Bool("use_bidirectional_attention") {
		return nil, errors.New("gemma with use_bidirectional_attention is not supported")
	}
	m, err := newStack(p, c, s, parts{
		embed: func(model *eager.Module) (func(*eager.Tensor) *eager.Tensor, *eager.Tensor) {
			e := newScaledEmbedding(model, "embed_tokens", c.Int("vocab_size"), c.Int("hidden_size"), s.DType)
			return e.forward, e.Weight
		},
		layer: func(m *eager.Module, _ int) (stackLayer, error) { return newGemmaLayer(m, c, s) },
		norm:  func(model *eager.Module) unary { return newGemmaNorm(model, "norm", c.Int("hidden_size")) },
		rope:  headDim(c),
	})
	if err != nil {
		return nil, err
	}
	if s.Task == "causal-lm" && c.Has("final_logit_softcapping") && !c.Null("final_logit_softcapping") {
		m.logits = softcapped(p, m.logits)
	}
	return m, nil
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

// scaledEmbedding is GemmaTextScaledWordEmbedding: the rows times a scalar on the card.
type scaledEmbedding struct {
	*eager.EmbeddingModule
	scale *eager.Tensor
}

func newScaledEmbedding(m *eager.Module, name string, rows, width int, d tensor.DType) *scaledEmbedding {
	e := m.Embedding(name, rows, width)
	return &scaledEmbedding{e, e.Buffer("embed_scale", d)}
}

func (e *scaledEmbedding) forward(ids *eager.Tensor) *eager.Tensor {
	c := e.Enter(ids)
	return c.Return(eager.Embedding(ids, e.Weight).Mul(e.scale))
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
}

func newGemmaLayer(m *eager.Module, c *hfconfig.Config, s Spec) (*gemmaLayer, error) {
	hidden := c.Int("hidden_size")
	l := &gemmaLayer{Module: m, attn: newLlamaAttention(m.Child("self_attn"), c, s)}
	l.attn.impl.softcap = c.Family.Softcap && !c.Null("attn_logit_softcapping")
	mlp, err := newGatedMLP(m.Child("mlp"), c)
	if err != nil {
		return nil, err
	}
	l.mlp = mlp
	l.input = newGemmaNorm(m, "input_layernorm", hidden)
	l.after = newGemmaNorm(m, "post_attention_layernorm", hidden)
	if c.Family.Norms == 4 {
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
