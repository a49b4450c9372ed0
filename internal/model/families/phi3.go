package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// newPhi3 builds Phi3ForCausalLM (transformers 5.17, modeling_phi3.py).
func newPhi3(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	return newStack(p, c, s, parts{
		embed: plainEmbedding(c),
		layer: func(m *eager.Module, _ int) (stackLayer, error) { return newPhi3Layer(m, c, s) },
		norm:  plainNorm(c),
		rope:  rotaryDim(c, headDim(c)),
	})
}

// phi3Layer is Phi3DecoderLayer.
type phi3Layer struct {
	*eager.Module
	attn               *phi3Attention
	mlp                *phi3MLP
	inputNorm, midNorm *rmsNorm
	attnDrop, mlpDrop  *eager.DropoutModule
}

func newPhi3Layer(m *eager.Module, c *hfconfig.Config, s Spec) (*phi3Layer, error) {
	hidden := c.Int("hidden_size")
	l := &phi3Layer{Module: m, attn: newPhi3Attention(m.Child("self_attn"), c, s)}
	mlp, err := newPhi3MLP(m.Child("mlp"), c)
	l.mlp = mlp
	l.inputNorm = newRMSNorm(m, "input_layernorm", hidden)
	l.midNorm = newRMSNorm(m, "post_attention_layernorm", hidden)
	l.attnDrop = m.Dropout("resid_attn_dropout", c.Float("resid_pdrop"))
	l.mlpDrop = m.Dropout("resid_mlp_dropout", c.Float("resid_pdrop"))
	return l, err
}

func (l *phi3Layer) forward(hidden, cos, sin, mask *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden, cos, sin, mask)
	residual := c.Let(hidden)
	hidden = c.Let(l.inputNorm.forward(hidden))
	attended, weights := l.attn.forward(hidden, cos, sin, mask)
	c.Set(&hidden, attended)
	c.Let(weights)
	c.Set(&hidden, residual.Add(l.attnDrop.Forward(hidden)))
	c.Set(&residual, hidden)
	c.Set(&hidden, l.midNorm.forward(hidden))
	c.Set(&hidden, l.mlp.forward(hidden))
	c.Set(&hidden, residual.Add(l.mlpDrop.Forward(hidden)))
	return c.Return(hidden)
}

// phi3Attention is Phi3Attention: one projection, cut by slices whose gradients are full size each.
type phi3Attention struct {
	*eager.Module
	o, qkv           *eager.LinearModule
	dim, queries, kv int
	impl             attention
}

func newPhi3Attention(m *eager.Module, c *hfconfig.Config, s Spec) *phi3Attention {
	heads, kv, dim := c.Int("num_attention_heads"), c.Int("num_key_value_heads"), headDim(c)
	a := &phi3Attention{Module: m, dim: dim, queries: heads * dim, kv: kv * dim}
	a.o = m.Linear("o_proj", a.queries, c.Int("hidden_size"), false)
	a.qkv = m.Linear("qkv_proj", c.Int("hidden_size"), a.queries+2*a.kv, false)
	a.impl = attention{impl: s.Attn, dropout: c.Float("attention_dropout"), causal: true, groups: heads / kv, cache: s.cache}
	return a
}

func (a *phi3Attention) forward(hidden, cos, sin, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := a.Enter(hidden, cos, sin, mask)
	batch, seq := hidden.Dim(0), hidden.Dim(1)
	qkv := c.Let(a.qkv.Forward(hidden))
	parts := []*eager.Tensor{
		c.Let(qkv.Slice(-1, 0, a.queries)),
		c.Let(qkv.Slice(-1, a.queries, a.queries+a.kv)),
		c.Let(qkv.Slice(-1, a.queries+a.kv, qkv.Dim(-1))),
	}
	for i := range parts {
		c.Set(&parts[i], parts[i].View(batch, seq, -1, a.dim).Transpose(1, 2))
	}
	q, k := phi3Rotary(parts[0], parts[1], cos, sin)
	c.Set(&parts[0], q)
	c.Set(&parts[1], k)
	a.impl.cache.update(c, &parts[1], &parts[2])
	out, weights = a.impl.forward(q, parts[1], parts[2], mask)
	return projectHeads(c, a.o, out, weights)
}

// phi3Rotary is apply_rotary_pos_emb of modeling_phi3.py. Where the whole head is rotated, an empty rest is joined: a copy
// forward, zeros of full size backward.
func phi3Rotary(q, k, cos, sin *eager.Tensor) (*eager.Tensor, *eager.Tensor) {
	c := q.Process().Function(q, k, cos, sin)
	c.Set(&cos, cos.Unsqueeze(1))
	c.Set(&sin, sin.Unsqueeze(1))
	n := cos.Dim(-1)
	cut := func(x *eager.Tensor) (rotated, passed *eager.Tensor) {
		return c.Let(x.Slice(-1, 0, n)), c.Let(x.Slice(-1, n, x.Dim(-1)))
	}
	qr, qp := cut(q)
	kr, kp := cut(k)
	qe := c.Let(eager.Cat(-1, qr.Mul(cos).Add(rotateHalf(qr).Mul(sin)), qp))
	ke := c.Let(eager.Cat(-1, kr.Mul(cos).Add(rotateHalf(kr).Mul(sin)), kp))
	c.ReturnAll(qe, ke)
	return qe, ke
}

// phi3MLP is Phi3MLP.
type phi3MLP struct {
	*eager.Module
	gateUp, down *eager.LinearModule
	act          func(*eager.Tensor) *eager.Tensor
}

func newPhi3MLP(m *eager.Module, c *hfconfig.Config) (*phi3MLP, error) {
	hidden, inner := c.Int("hidden_size"), c.Int("intermediate_size")
	l := &phi3MLP{Module: m, gateUp: m.Linear("gate_up_proj", hidden, 2*inner, false)}
	l.down = m.Linear("down_proj", inner, hidden, false)
	act, err := activation(m, c.String("hidden_act"))
	l.act = act
	return l, err
}

func (l *phi3MLP) forward(x *eager.Tensor) *eager.Tensor {
	c := l.Enter(x)
	up := c.Let(l.gateUp.Forward(x))
	halves := up.Chunk(2, -1)
	gate := c.Let(halves[0])
	c.Set(&up, halves[1])
	c.Set(&up, up.Mul(l.act(gate)))
	return c.Return(l.down.Forward(up))
}
