package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// newLlama builds LlamaForCausalLM and, by the traits of their entries, the families that differ from it in biases, norms of queries
// and keys, windows or experts (transformers 5.17, modeling_llama.py and its modular children).
func newLlama(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	m, err := newStack(p, c, s, parts{
		embed: plainEmbedding(c),
		layer: func(m *eager.Module, _ int) (stackLayer, error) { return newLlamaLayer(m, c, s) },
		norm:  plainNorm(c),
		rope:  headDim(c),
	})
	if err == nil && c.Has("embedding_multiplier") {
		m.scale(p)
	}
	return m, err
}

// scale multiplies embeddings and divides the logits of a causal model by factors of the configuration (GraniteModel, GraniteForCausalLM:
// https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/models/granite/modeling_granite.py).
func (m *stack) scale(p *eager.Process) {
	embed, logits := m.embed, m.logits
	m.embed = func(ids *eager.Tensor) *eager.Tensor {
		c := p.Function(ids)
		x := c.Let(embed(ids))
		c.Set(&x, x.MulScalar())
		return c.Return(x)
	}
	if m.spec.Task != "causal-lm" {
		return
	}
	m.logits = func(hidden *eager.Tensor) *eager.Tensor {
		c := p.Function(hidden)
		x := c.Let(logits(hidden))
		c.Set(&x, x.DivScalar())
		return c.Return(x)
	}
}

func headDim(c *hfconfig.Config) int {
	if c.Has("head_dim") && c.Int("head_dim") > 0 {
		return c.Int("head_dim")
	}
	return c.Int("hidden_size") / c.Int("num_attention_heads")
}

// rmsNorm is LlamaRMSNorm.
type rmsNorm struct {
	*eager.Module
	weight *eager.Tensor
}

func newRMSNorm(m *eager.Module, name string, width int) *rmsNorm {
	c := m.Child(name)
	return &rmsNorm{c, c.Param("weight", width)}
}

func (n *rmsNorm) forward(x *eager.Tensor) *eager.Tensor {
	c := n.Enter(x)
	dtype := x.DType
	c.Set(&x, x.Float())
	variance := c.Let(x.Pow().Mean(true, -1))
	c.Set(&x, x.Mul(variance.AddScalar().Rsqrt()))
	return c.Return(n.weight.Mul(x.To(dtype)))
}

// rotary is LlamaRotaryEmbedding: cosines and sines of [1, seq, dim] in the type of x, computed without gradient.
type rotary struct {
	*eager.Module
	dim int
	inv *eager.Tensor
}

func newRotary(m *eager.Module, dim int) *rotary {
	c := m.Child("rotary_emb")
	r := &rotary{Module: c, dim: dim, inv: c.Buffer("inv_freq", tensor.Float32, dim/2)}
	c.Buffer("original_inv_freq", tensor.Float32, dim/2)
	return r
}

func (r *rotary) forward(x, positions *eager.Tensor) (cos, sin *eager.Tensor) {
	p := r.Process()
	c := r.Enter(x, positions)
	p.NoGrad(func() {
		p.WithoutAutocast(func() {
			inv := c.Let(r.inv.Unsqueeze(0).Unsqueeze(2).Expand(positions.Dim(0), -1, 1).Float())
			at := c.Let(positions.Unsqueeze(1).Float())
			freqs := c.Let(eager.Matmul(inv, at).Transpose(1, 2))
			emb := c.Let(eager.Cat(-1, freqs, freqs))
			cos = c.Let(emb.Cos().MulScalar())
			sin = c.Let(emb.Sin().MulScalar())
		})
		cos, sin = c.Let(cos.To(x.DType)), c.Let(sin.To(x.DType))
	})
	out := c.ReturnAll(cos, sin)
	return out[0], out[1]
}

// rotateHalf is rotate_half.
func rotateHalf(x *eager.Tensor) *eager.Tensor {
	c := x.Process().Function(x)
	half := x.Dim(-1) / 2
	x1 := c.Let(x.Slice(-1, 0, half))
	x2 := c.Let(x.Slice(-1, half, x.Dim(-1)))
	return c.Return(eager.Cat(-1, x2.Neg(), x1))
}

// applyRotary is apply_rotary_pos_emb.
func applyRotary(q, k, cos, sin *eager.Tensor) (*eager.Tensor, *eager.Tensor) {
	c := q.Process().Function(q, k, cos, sin)
	c.Set(&cos, cos.Unsqueeze(1))
	c.Set(&sin, sin.Unsqueeze(1))
	qe := c.Let(q.Mul(cos).Add(rotateHalf(q).Mul(sin)))
	ke := c.Let(k.Mul(cos).Add(rotateHalf(k).Mul(sin)))
	out := c.ReturnAll(qe, ke)
	return out[0], out[1]
}

// llamaLayer is LlamaDecoderLayer.
type llamaLayer struct {
	*eager.Module
	attn               *llamaAttention
	mlp                unary
	inputNorm, midNorm *rmsNorm
	scaled             bool // what is added to the residual is multiplied by a factor first
}

func newLlamaLayer(m *eager.Module, c *hfconfig.Config, s Spec) (*llamaLayer, error) {
	l := &llamaLayer{Module: m, attn: newLlamaAttention(m.Child("self_attn"), c, s), scaled: c.Has("residual_multiplier")}
	var err error
	if c.Family.Experts {
		l.mlp, err = newMixtralMoE(m.Child("mlp"), c)
	} else {
		l.mlp, err = newGatedMLP(m.Child("mlp"), c)
	}
	if err != nil {
		return nil, err
	}
	l.inputNorm = newRMSNorm(m, "input_layernorm", c.Int("hidden_size"))
	l.midNorm = newRMSNorm(m, "post_attention_layernorm", c.Int("hidden_size"))
	return l, nil
}

func (l *llamaLayer) forward(hidden, cos, sin, mask *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden, cos, sin, mask)
	residual := c.Let(hidden)
	hidden = c.Let(l.inputNorm.forward(hidden))
	attended, weights := l.attn.forward(hidden, cos, sin, mask)
	c.Set(&hidden, attended)
	c.Let(weights)
	c.Set(&hidden, residual.Add(l.share(hidden)))
	c.Set(&residual, hidden)
	c.Set(&hidden, l.midNorm.forward(hidden))
	c.Set(&hidden, l.mlp.forward(hidden))
	c.Set(&hidden, residual.Add(l.share(hidden)))
	return c.Return(hidden)
}

// share is what of a block's result goes into the residual.
func (l *llamaLayer) share(hidden *eager.Tensor) *eager.Tensor {
	if l.scaled {
		return hidden.MulScalar()
	}
	return hidden
}

// llamaAttention is LlamaAttention; Qwen3 and Gemma 3 normalise queries and keys by head.
type llamaAttention struct {
	*eager.Module
	q, k, v, o   *eager.LinearModule
	qNorm, kNorm *rmsNorm     // Qwen3: before the transposition
	gemmaNorms   *gemmaQKNorm // Gemma 3: after it
	dim          int
	impl         attention
}

func newLlamaAttention(m *eager.Module, c *hfconfig.Config, s Spec) *llamaAttention {
	hidden, heads, kv := c.Int("hidden_size"), c.Int("num_attention_heads"), c.Int("num_key_value_heads")
	dim := headDim(c)
	inBias, outBias := attentionBias(c)
	a := &llamaAttention{Module: m, dim: dim}
	a.q = m.Linear("q_proj", hidden, heads*dim, inBias)
	a.k = m.Linear("k_proj", hidden, kv*dim, inBias)
	a.v = m.Linear("v_proj", hidden, kv*dim, inBias)
	a.o = m.Linear("o_proj", heads*dim, hidden, outBias)
	switch c.Family.QueryNorm {
	case hfconfig.QueryNormBefore:
		a.qNorm = newRMSNorm(m, "q_norm", dim)
		a.kNorm = newRMSNorm(m, "k_norm", dim)
	case hfconfig.QueryNormAfter:
		a.gemmaNorms = &gemmaQKNorm{newGemmaNorm(m, "q_norm", dim), newGemmaNorm(m, "k_norm", dim)}
	}
	a.impl = attention{impl: s.Attn, dropout: c.Float("attention_dropout"), causal: true, groups: heads / kv, cache: s.cache}
	return a
}

// attentionBias tells which projections have a bias: those of queries, keys and values, and the output's.
func attentionBias(c *hfconfig.Config) (in, out bool) {
	switch c.Family.Bias {
	case hfconfig.BiasQKV:
		return true, false
	case hfconfig.BiasNone:
		return false, false
	}
	return c.Bool("attention_bias"), c.Bool("attention_bias")
}

func (a *llamaAttention) forward(hidden, cos, sin, mask *eager.Tensor) (*eager.Tensor, *eager.Tensor) {
	c := a.Enter(hidden, cos, sin, mask)
	batch, seq := hidden.Dim(0), hidden.Dim(1)
	heads := func(l *eager.LinearModule, norm *rmsNorm) *eager.Tensor {
		x := l.Forward(hidden).View(batch, seq, -1, a.dim)
		if norm != nil {
			x = norm.forward(x)
		}
		return c.Let(x.Transpose(1, 2))
	}
	q := heads(a.q, a.qNorm)
	k := heads(a.k, a.kNorm)
	v := heads(a.v, nil)
	if a.gemmaNorms != nil {
		c.Set(&q, a.gemmaNorms.q.forward(q))
		c.Set(&k, a.gemmaNorms.k.forward(k))
	}
	qe, ke := applyRotary(q, k, cos, sin)
	c.Set(&q, qe)
	c.Set(&k, ke)
	a.impl.cache.update(c, &k, &v)
	out, weights := a.impl.forward(q, k, v, mask)
	return projectHeads(c, a.o, out, weights)
}

// gatedMLP is LlamaMLP.
type gatedMLP struct {
	*eager.Module
	gate, up, down *eager.LinearModule
	act            func(*eager.Tensor) *eager.Tensor
}

func newGatedMLP(m *eager.Module, c *hfconfig.Config) (*gatedMLP, error) {
	hidden, inner := c.Int("hidden_size"), c.Int("intermediate_size")
	bias := c.Has("mlp_bias") && c.Bool("mlp_bias")
	g := &gatedMLP{Module: m}
	g.gate = m.Linear("gate_proj", hidden, inner, bias)
	g.up = m.Linear("up_proj", hidden, inner, bias)
	g.down = m.Linear("down_proj", inner, hidden, bias)
	name := "hidden_act"
	if c.Has("hidden_activation") { // Gemma 2 and 3
		name = "hidden_activation"
	}
	act, err := activation(m, c.String(name))
	g.act = act
	return g, err
}

func (g *gatedMLP) forward(x *eager.Tensor) *eager.Tensor {
	c := g.Enter(x)
	return c.Return(g.down.Forward(g.act(g.gate.Forward(x)).Mul(g.up.Forward(x))))
}
