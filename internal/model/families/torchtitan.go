package families

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// titan is torchtitan's own Llama 3: RoPE on complex numbers in fp32, nn.RMSNorm, a loss outside of the model that gets fp32 logits
// (https://github.com/pytorch/torchtitan/blob/v0.2.2/torchtitan/models/llama3/model/model.py).
type titan struct {
	root   *eager.Module
	spec   Spec
	embed  *eager.EmbeddingModule
	freqs  *eager.Tensor // freqs_cis: complex64, here pairs of fp32
	layers []*titanBlock
	norm   *titanNorm
	output *eager.LinearModule
}

func newTitan(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if s.Task != "causal-lm" {
		return nil, wrongTask(c, s, "causal-lm")
	}
	if s.Context > 1 && s.Seq%(2*s.Context) != 0 { // parallel_dims.seq_len_divisor
		return nil, fmt.Errorf("%d tokens cannot be divided into two parts for each of %d cards", s.Seq, s.Context)
	}
	if c.Bool("tie_word_embeddings") {
		return nil, fmt.Errorf("torchtitan's Llama has an output layer of its own; this configuration has tie_word_embeddings")
	}
	m := &titan{root: eager.NewModel(p, s.DType), spec: s}
	width := c.Int("hidden_size")
	m.embed = m.root.Embedding("tok_embeddings", c.Int("vocab_size"), width)
	list := m.root.Child("layers")
	for i := range c.Int("num_hidden_layers") {
		m.layers = append(m.layers, newTitanBlock(list.Item(i), c, s))
	}
	m.norm = newTitanNorm(m.root, "norm", width, s.Code)
	m.output = m.root.Linear("output", width, c.Int("vocab_size"), false)
	m.freqs = m.root.Buffer("freqs_cis", tensor.Float32, s.Seq, headDim(c)/2, 2)
	return m, nil
}

// Root is the module tree.
func (m *titan) Root() *eager.Module { return m.root }

// Batch allocates tokens and labels.
func (m *titan) Batch() []*eager.Tensor {
	p, s := m.root.Process(), m.spec
	tokens := s.Seq / max(1, s.Context)
	batch := []*eager.Tensor{p.Input("input", tensor.Int64, s.Batch, tokens), p.Input("labels", tensor.Int64, s.Batch, tokens)}
	if s.Context > 1 { // prepare_context_parallel_input
		batch = append(batch, p.Input("positions", tensor.Int32, s.Batch, tokens))
	}
	return batch
}

// Forward is the model and, after it, the loss of torchtitan's loop.
func (m *titan) Forward(batch []*eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	c := m.root.Process().Function(batch...)
	var positions *eager.Tensor
	if len(batch) > 2 {
		positions = batch[2]
	}
	pred := c.Let(m.model(batch[0], positions))
	loss := c.Let(m.loss(pred, batch[1]))
	out := c.ReturnAll(loss, pred)
	return out[0], out[1:]
}

func (m *titan) model(tokens, positions *eager.Tensor) *eager.Tensor {
	p := m.root.Process()
	c := m.root.Enter(tokens, positions)
	h := c.Let(m.embed.Forward(tokens))
	for _, l := range m.layers {
		in := h
		c.Set(&h, layer(p, m.spec.Checkpointing, func() *eager.Tensor { return l.forward(in, m.freqs, positions) }, in, m.freqs, positions))
	}
	c.Set(&h, m.norm.forward(h))
	return c.Return(m.output.Forward(h))
}

// loss is cross_entropy_loss of torchtitan/components/loss.py.
func (m *titan) loss(pred, labels *eager.Tensor) *eager.Tensor {
	c := m.root.Process().Function(pred, labels)
	return c.Return(eager.CrossEntropy(pred.Flatten(0, 1).Float(), labels.Flatten(0, 1)))
}

// titanBlock is TransformerBlock.
type titanBlock struct {
	*eager.Module
	attention        *titanAttention
	feed             *titanFeedForward
	attnNorm, ffNorm *titanNorm
}

func newTitanBlock(m *eager.Module, c *hfconfig.Config, s Spec) *titanBlock {
	width := c.Int("hidden_size")
	b := &titanBlock{Module: m, attention: newTitanAttention(m.Child("attention"), c, s), feed: newTitanFeedForward(m.Child("feed_forward"), c)}
	b.attnNorm = newTitanNorm(m, "attention_norm", width, s.Code)
	b.ffNorm = newTitanNorm(m, "ffn_norm", width, s.Code)
	return b
}

func (b *titanBlock) forward(x, freqs, positions *eager.Tensor) *eager.Tensor {
	c := b.Enter(x, freqs, positions)
	h := c.Let(x.Add(b.attention.forward(b.attnNorm.forward(x), freqs, positions)))
	return c.Return(h.Add(b.feed.forward(b.ffNorm.forward(h))))
}

// titanNorm is nn.RMSNorm. Before PyTorch 2.9 it was made of other operators, which keep the input in fp32 and the result before the weight
// (https://github.com/pytorch/pytorch/blob/v2.6.0/aten/src/ATen/native/layer_norm.cpp, rms_norm).
type titanNorm struct {
	*eager.Module
	weight *eager.Tensor
	apart  bool
}

func newTitanNorm(m *eager.Module, name string, width int, code setup.Code) *titanNorm {
	c := m.Child(name)
	return &titanNorm{c, c.Param("weight", width), code == setup.Torchtitan2025}
}

func (n *titanNorm) forward(x *eager.Tensor) *eager.Tensor {
	c := n.Enter(x)
	if !n.apart {
		return c.Return(eager.RMSNorm(x, n.weight, n.weight.Numel()))
	}
	wide := c.Let(x.Float())
	rsqrt := c.Let(wide.Pow().Mean(true, -1).AddScalar().Rsqrt())
	return c.Return(wide.Mul(rsqrt).To(x.DType).Mul(n.weight))
}

// titanAttention is Attention.
type titanAttention struct {
	*eager.Module
	q, k, v, o  *eager.LinearModule
	dim, groups int
	cards       int  // that divide a sample
	repeats     bool // keys and values are repeated for every query head; later scaled_dot_product_attention does with the few there are
}

func newTitanAttention(m *eager.Module, c *hfconfig.Config, s Spec) *titanAttention {
	hidden, heads, kv, dim := c.Int("hidden_size"), c.Int("num_attention_heads"), c.Int("num_key_value_heads"), headDim(c)
	return &titanAttention{
		Module: m, dim: dim, groups: heads / kv, cards: s.Context, repeats: s.Code == setup.Torchtitan2025,
		q: m.Linear("wq", hidden, heads*dim, false), k: m.Linear("wk", hidden, kv*dim, false), v: m.Linear("wv", hidden, kv*dim, false), o: m.Linear("wo", heads*dim, hidden, false),
	}
}

func (a *titanAttention) forward(x, freqs, positions *eager.Tensor) *eager.Tensor {
	c := a.Enter(x, freqs, positions)
	batch, seq := x.Dim(0), x.Dim(1)
	heads := func(l *eager.LinearModule) *eager.Tensor { return c.Let(l.Forward(x)) }
	q, k, v := heads(a.q), heads(a.k), heads(a.v)
	for _, t := range []**eager.Tensor{&q, &k, &v} {
		c.Set(t, (*t).View(batch, seq, -1, a.dim))
	}
	qe, ke := titanRotary(q, k, freqs, positions)
	c.Set(&q, qe)
	c.Set(&k, ke)
	keys, values := k, v
	if a.repeats {
		keys, values = c.Let(titanRepeat(k, a.groups)), c.Let(titanRepeat(v, a.groups))
	}
	c.Set(&q, q.Transpose(1, 2))
	c.Set(&k, keys.Transpose(1, 2))
	c.Set(&v, values.Transpose(1, 2))
	out := c.Let(eager.RingAttention(q, k, v, eager.Attention{Causal: true, GQA: !a.repeats && a.groups > 1}, a.cards))
	c.Set(&out, out.Transpose(1, 2).Contiguous())
	c.Set(&out, out.View(batch, seq, -1))
	return c.Return(a.o.Forward(out))
}

// titanRepeat is repeat_kv: heads are the third dimension.
func titanRepeat(x *eager.Tensor, times int) *eager.Tensor {
	if times == 1 {
		return x
	}
	return x.RepeatInterleave(times, 2)
}

// titanRotary is apply_rotary_emb: products of complex numbers in fp32.
func titanRotary(q, k, freqs, positions *eager.Tensor) (*eager.Tensor, *eager.Tensor) {
	c := q.Process().Function(q, k, freqs, positions)
	complex := func(x *eager.Tensor) *eager.Tensor {
		return c.Let(x.Float().Reshape(x.Dim(0), x.Dim(1), x.Dim(2), -1, 2))
	}
	qc, kc := complex(q), complex(k)
	wave := c.Let(titanWave(freqs, positions, q.Dim(1)))
	qo := c.Let(qc.Mul(wave).Flatten(3, 4))
	ko := c.Let(kc.Mul(wave).Flatten(3, 4))
	out := c.ReturnAll(qo.To(q.DType), ko.To(k.DType))
	return out[0], out[1]
}

// titanWave is reshape_for_broadcast: the first rows of freqs_cis, or those of given positions.
func titanWave(freqs, positions *eager.Tensor, rows int) *eager.Tensor {
	if positions == nil {
		return freqs.Slice(0, 0, rows).View(1, rows, 1, -1, 2)
	}
	batch := positions.Dim(0)
	return freqs.Index(0, positions.Flatten(0, 1)).View(batch, rows, 1, -1, 2)
}

// titanFeedForward is FeedForward.
type titanFeedForward struct {
	*eager.Module
	w1, w2, w3 *eager.LinearModule
}

func newTitanFeedForward(m *eager.Module, c *hfconfig.Config) *titanFeedForward {
	hidden, inner := c.Int("hidden_size"), c.Int("intermediate_size")
	return &titanFeedForward{m, m.Linear("w1", hidden, inner, false), m.Linear("w2", inner, hidden, false), m.Linear("w3", hidden, inner, false)}
}

func (f *titanFeedForward) forward(x *eager.Tensor) *eager.Tensor {
	c := f.Enter(x)
	return c.Return(f.w2.Forward(f.w1.Forward(x).SiLU().Mul(f.w3.Forward(x))))
}
