package arch

import (
	"github.com/plimsoll/plimsoll/internal/eager"
	"github.com/plimsoll/plimsoll/internal/hfconfig"
)

// gpt2 is GPT2LMHeadModel (transformers 5.17, modeling_gpt2.py).
type gpt2 struct {
	root     *eager.Module
	spec     Spec
	wte, wpe *eager.EmbeddingModule
	drop     *eager.DropoutModule
	blocks   []*gpt2Block
	norm     *eager.LayerNormModule
	head     *eager.LinearModule
}

func newGPT2(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if s.Task != "causal-lm" {
		return nil, wrongTask(c, s, "causal-lm")
	}
	root := eager.NewModel(p, s.DType)
	m := &gpt2{root: root, spec: s}
	model := root.Child("transformer")
	hidden := c.Int("n_embd")
	m.wte = model.Embedding("wte", c.Int("vocab_size"), hidden, false)
	m.wpe = model.Embedding("wpe", c.Int("n_positions"), hidden, false)
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
	m.head = root.Linear("lm_head", hidden, c.Int("vocab_size"), false)
	if c.Bool("tie_word_embeddings") {
		m.head.Tie(m.wte.Weight)
	}
	return m, nil
}

func (m *gpt2) Root() *eager.Module { return m.root }

func (m *gpt2) Batch() []*eager.Tensor { return causalTokens(m.root.Process(), m.spec) }

// Forward is GPT2LMHeadModel.forward.
func (m *gpt2) Forward(batch []*eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	ids, labels := batch[0], batch[1]
	c := m.root.Enter(ids, labels)
	hidden := c.Let(m.model(ids))
	logits := c.Let(m.head.Forward(hidden))
	loss := c.Let(eager.CausalLMLoss(logits, labels))
	out := c.ReturnAll(loss, logits)
	return out[0], out[1:]
}

// model is GPT2Model.forward.
func (m *gpt2) model(ids *eager.Tensor) *eager.Tensor {
	p := m.root.Process()
	c := m.root.Enter(ids)
	embeds := c.Let(m.wte.Forward(ids))
	positions := c.Let(positionIDs(p, m.spec.Seq))
	placed := c.Let(m.wpe.Forward(positions))
	hidden := c.Let(embeds.Add(placed))
	mask := c.Let(causalMask(m.spec, p, embeds.DType))
	c.Set(&hidden, m.drop.Forward(hidden))
	for _, b := range m.blocks {
		h := hidden
		run := func() *eager.Tensor { return b.forward(h, mask) }
		c.Set(&hidden, layer(p, m.spec.Checkpointing, run, h, mask, positions))
	}
	c.Set(&hidden, m.norm.Forward(hidden))
	c.Set(&hidden, hidden.View(-1, m.spec.Seq, hidden.Dim(-1)))
	return c.Return(hidden)
}

// conv1D is Conv1D of pytorch_utils.py: a Linear with its weight transposed.
type conv1D struct {
	*eager.Module
	weight, bias *eager.Tensor
}

func newConv1D(m *eager.Module, name string, in, out int) *conv1D {
	c := m.Child(name)
	return &conv1D{c, c.Param("weight", in, out), c.Param("bias", out)}
}

func (l *conv1D) forward(x *eager.Tensor) *eager.Tensor {
	c := l.Enter(x)
	sizes := append(append([]int(nil), x.Sizes[:x.Rank()-1]...), l.bias.Numel())
	x = c.Let(eager.Addmm(l.bias, x.View(-1, x.Dim(-1)), l.weight))
	c.Set(&x, x.View(sizes...))
	return c.Return(x)
}

// gpt2Block is GPT2Block.
type gpt2Block struct {
	*eager.Module
	norm1, norm2 *eager.LayerNormModule
	attn         *gpt2Attention
	mlp          *gpt2MLP
}

func newGPT2Block(m *eager.Module, c *hfconfig.Config, s Spec) (*gpt2Block, error) {
	hidden := c.Int("n_embd")
	inner := 4 * hidden
	if !c.Null("n_inner") {
		inner = c.Int("n_inner")
	}
	b := &gpt2Block{Module: m, norm1: m.LayerNorm("ln_1", hidden)}
	b.attn = newGPT2Attention(m.Child("attn"), c, s)
	b.norm2 = m.LayerNorm("ln_2", hidden)
	mlp, err := newGPT2MLP(m.Child("mlp"), c, inner)
	b.mlp = mlp
	return b, err
}

func (b *gpt2Block) forward(hidden, mask *eager.Tensor) *eager.Tensor {
	c := b.Enter(hidden, mask)
	residual := c.Let(hidden)
	hidden = c.Let(b.norm1.Forward(hidden))
	out := c.Let(b.attn.forward(hidden, mask))
	c.Set(&hidden, out.Add(residual))
	c.Set(&residual, hidden)
	c.Set(&hidden, b.norm2.Forward(hidden))
	fed := c.Let(b.mlp.forward(hidden))
	c.Set(&hidden, residual.Add(fed))
	return c.Return(hidden)
}

// gpt2Attention is GPT2Attention.
type gpt2Attention struct {
	*eager.Module
	attn, proj  *conv1D
	resid       *eager.DropoutModule
	hidden, dim int
	prob        float64
	impl        attention
}

func newGPT2Attention(m *eager.Module, c *hfconfig.Config, s Spec) *gpt2Attention {
	hidden := c.Int("n_embd")
	a := &gpt2Attention{Module: m, hidden: hidden, dim: hidden / c.Int("n_head"), prob: c.Float("attn_pdrop")}
	a.attn = newConv1D(m, "c_attn", hidden, 3*hidden)
	a.proj = newConv1D(m, "c_proj", hidden, hidden)
	a.resid = m.Dropout("resid_dropout", c.Float("resid_pdrop"))
	a.impl = attention{impl: s.Attn, dropout: a.prob, causal: true}
	return a
}

func (a *gpt2Attention) forward(hidden, mask *eager.Tensor) *eager.Tensor {
	c := a.Enter(hidden, mask)
	batch, seq := hidden.Dim(0), hidden.Dim(1)
	parts := c.Lets(a.attn.forward(hidden).Split(2, a.hidden, a.hidden, a.hidden))
	q, k, v := parts[0], parts[1], parts[2]
	c.Set(&k, k.View(batch, seq, -1, a.dim).Transpose(1, 2))
	c.Set(&v, v.View(batch, seq, -1, a.dim).Transpose(1, 2))
	c.Set(&q, q.View(batch, seq, -1, a.dim).Transpose(1, 2))
	var out *eager.Tensor
	if a.impl.impl == "eager" {
		out = c.Let(a.eager(q, k, v, mask))
	} else {
		out = c.Let(a.impl.forward(q, k, v, mask))
	}
	c.Set(&out, out.Reshape(batch, seq, -1).Contiguous())
	c.Set(&out, a.proj.forward(out))
	c.Set(&out, a.resid.Forward(out))
	return c.Return(out)
}

// eager is modeling_gpt2.py's eager_attention_forward: softmax in the scores' own type. The weights are returned too, so
// they live until the attention's caller has its result.
func (a *gpt2Attention) eager(q, k, v, mask *eager.Tensor) *eager.Tensor {
	c := q.Process().Function(q, k, v, mask)
	weights := c.Let(eager.Matmul(q, k.Transpose(-1, -2)).MulScalar())
	if mask != nil {
		c.Set(&weights, weights.Add(mask))
	}
	c.Set(&weights, weights.Softmax(-1))
	c.Set(&weights, weights.To(v.DType))
	c.Set(&weights, weights.Dropout(a.prob))
	out := c.Let(eager.Matmul(weights, v))
	c.Set(&out, out.Transpose(1, 2))
	return c.Return(out)
}

// gpt2MLP is GPT2MLP.
type gpt2MLP struct {
	*eager.Module
	fc, proj *conv1D
	act      func(*eager.Tensor) *eager.Tensor
	drop     *eager.DropoutModule
}

func newGPT2MLP(m *eager.Module, c *hfconfig.Config, inner int) (*gpt2MLP, error) {
	hidden := c.Int("n_embd")
	g := &gpt2MLP{Module: m, fc: newConv1D(m, "c_fc", hidden, inner), proj: newConv1D(m, "c_proj", inner, hidden)}
	act, err := activation(m, c.String("activation_function"))
	g.act = act
	g.drop = m.Dropout("dropout", c.Float("resid_pdrop"))
	return g, err
}

func (g *gpt2MLP) forward(hidden *eager.Tensor) *eager.Tensor {
	c := g.Enter(hidden)
	hidden = c.Let(g.fc.forward(hidden))
	c.Set(&hidden, g.act(hidden))
	c.Set(&hidden, g.proj.forward(hidden))
	c.Set(&hidden, g.drop.Forward(hidden))
	return c.Return(hidden)
}
