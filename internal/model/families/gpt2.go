package families

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// gpt2 is GPT2LMHeadModel (transformers 5.17, modeling_gpt2.py).
type gpt2 struct {
	*decoder
	wte, wpe *eager.EmbeddingModule
	drop     *eager.DropoutModule
	blocks   []*gpt2Block
	norm     *eager.LayerNormModule
}

func newGPT2(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if c.Bool("add_cross_attention") || s.Attn == "eager" && c.Bool("reorder_and_upcast_attn") {
		return nil, errors.New("gpt2 with add_cross_attention or reorder_and_upcast_attn is not supported")
	}
	m := &gpt2{decoder: newDecoder(p, c, s)}
	model := m.root.Child("transformer")
	hidden := c.Int("n_embd")
	m.wte = model.Embedding("wte", c.Int("vocab_size"), hidden)
	m.wpe = model.Embedding("wpe", c.Int("n_positions"), hidden)
	m.drop = model.Dropout("drop", c.Float("embd_pdrop"))
	list := model.Child("h")
	for i := range c.Int("n_layer") {
		b, err := newGPT2Block(list.Item(i), c, s)
		if err != nil {
			return nil, err
		}
		m.blocks = append(m.blocks, b)
	}
	m.norm = model.LayerNorm("ln_f", hidden)
	if err := m.addHead(c, hidden, m.wte.Weight, m.model); err != nil {
		return nil, err
	}
	return m, nil
}

// model is GPT2Model.forward: the embeddings keep their names while the blocks run.
func (m *gpt2) model(ids *eager.Tensor) *eager.Tensor {
	p := m.root.Process()
	c := m.root.Enter(ids)
	embeds := c.Let(m.wte.Forward(ids))
	positions := c.Let(positionIDs(p, m.spec.Seq))
	places := c.Let(m.wpe.Forward(positions))
	hidden := c.Let(embeds.Add(places))
	mask := c.Let(causalMask(m.spec, p, embeds.DType))
	c.Set(&hidden, m.drop.Forward(hidden))
	for _, b := range m.blocks {
		h := hidden
		run := func() *eager.Tensor { return b.forward(h, mask) }
		c.Set(&hidden, layer(p, m.spec.Checkpointing, run, h, mask, positions))
	}
	c.Set(&hidden, m.norm.Forward(hidden))
	return c.Return(hidden)
}

// gpt2Block is GPT2Block.
type gpt2Block struct {
	*eager.Module
	ln1, ln2 *eager.LayerNormModule
	attn     *gpt2Attention
	mlp      *gpt2MLP
}

func newGPT2Block(m *eager.Module, c *hfconfig.Config, s Spec) (*gpt2Block, error) {
	hidden := c.Int("n_embd")
	inner := 4 * hidden
	if !c.Null("n_inner") {
		inner = c.Int("n_inner")
	}
	b := &gpt2Block{Module: m}
	b.ln1 = m.LayerNorm("ln_1", hidden)
	b.attn = newGPT2Attention(m.Child("attn"), c, s)
	b.ln2 = m.LayerNorm("ln_2", hidden)
	mlp, err := newGPT2MLP(m.Child("mlp"), c, inner)
	b.mlp = mlp
	return b, err
}

func (b *gpt2Block) forward(hidden, mask *eager.Tensor) *eager.Tensor {
	c := b.Enter(hidden, mask)
	residual := c.Let(hidden)
	hidden = c.Let(b.ln1.Forward(hidden))
	out, weights := b.attn.forward(hidden, mask)
	c.Let(out)
	c.Let(weights)
	c.Set(&hidden, out.Add(residual))
	c.Set(&residual, hidden)
	c.Set(&hidden, b.ln2.Forward(hidden))
	ff := c.Let(b.mlp.forward(hidden))
	c.Set(&hidden, residual.Add(ff))
	return c.Return(hidden)
}

// gpt2Attention is GPT2Attention without cross attention.
type gpt2Attention struct {
	*eager.Module
	qkv, proj   *eager.LinearModule
	drop        *eager.DropoutModule
	width, head int
	impl        attention
}

func newGPT2Attention(m *eager.Module, c *hfconfig.Config, s Spec) *gpt2Attention {
	hidden := c.Int("n_embd")
	a := &gpt2Attention{Module: m, width: hidden, head: hidden / c.Int("n_head")}
	a.qkv = m.Conv1D("c_attn", hidden, 3*hidden)
	a.proj = m.Conv1D("c_proj", hidden, hidden)
	a.drop = m.Dropout("resid_dropout", c.Float("resid_pdrop"))
	a.impl = attention{impl: s.Attn, dropout: c.Float("attn_pdrop"), causal: true, cache: s.cache}
	return a
}

func (a *gpt2Attention) forward(hidden, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := a.Enter(hidden, mask)
	batch, seq := hidden.Dim(0), hidden.Dim(1)
	parts := c.Lets(a.qkv.Forward(hidden).Split(2, a.width, a.width, a.width))
	for _, i := range []int{1, 2, 0} {
		c.Set(&parts[i], parts[i].View(batch, seq, -1, a.head).Transpose(1, 2))
	}
	a.impl.cache.update(c, &parts[1], &parts[2])
	out, weights = a.attend(parts[0], parts[1], parts[2], mask)
	c.Let(out)
	c.Let(weights)
	c.Set(&out, out.Reshape(batch, seq, -1).Contiguous())
	c.Set(&out, a.proj.Forward(out))
	c.Set(&out, a.drop.Forward(out))
	c.ReturnAll(out, weights)
	return out, weights
}

// attend has an eager form of its own: softmax in the scores' type, no contiguous copy.
func (a *gpt2Attention) attend(q, k, v, mask *eager.Tensor) (out, weights *eager.Tensor) {
	if a.impl.impl != "eager" {
		return a.impl.forward(q, k, v, mask)
	}
	c := a.Process().Function(q, k, v, mask)
	weights = c.Let(eager.Matmul(q, k.Transpose(-1, -2)).MulScalar())
	c.Set(&weights, weights.Add(mask))
	c.Set(&weights, weights.Softmax(-1))
	c.Set(&weights, weights.To(v.DType))
	c.Set(&weights, weights.Dropout(a.impl.dropout))
	out = c.Let(eager.Matmul(weights, v))
	c.Set(&out, out.Transpose(1, 2))
	c.ReturnAll(out, weights)
	return out, weights
}

// gpt2MLP is GPT2MLP.
type gpt2MLP struct {
	*eager.Module
	fc, proj *eager.LinearModule
	act      func(*eager.Tensor) *eager.Tensor
	drop     *eager.DropoutModule
}

func newGPT2MLP(m *eager.Module, c *hfconfig.Config, inner int) (*gpt2MLP, error) {
	hidden := c.Int("n_embd")
	l := &gpt2MLP{Module: m}
	l.fc = m.Conv1D("c_fc", hidden, inner)
	l.proj = m.Conv1D("c_proj", inner, hidden)
	act, err := activation(m, c.String("activation_function"))
	l.act = act
	l.drop = m.Dropout("dropout", c.Float("resid_pdrop"))
	return l, err
}

func (l *gpt2MLP) forward(x *eager.Tensor) *eager.Tensor {
	c := l.Enter(x)
	x = c.Let(l.fc.Forward(x))
	c.Set(&x, l.act(x))
	c.Set(&x, l.proj.Forward(x))
	c.Set(&x, l.drop.Forward(x))
	return c.Return(x)
}
