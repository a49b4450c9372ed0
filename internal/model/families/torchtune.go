package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// tune is torchtune's own Llama, as its builder llama3_2 makes it: norms in fp32, RoPE in fp32 on pairs, keys and values copied for every query head, and a loss
// on eight pieces of the logits (https://github.com/pytorch/torchtune/blob/v0.6.1/torchtune/modules/transformer.py). Linear layers have the last names
// they have in transformers, so that one word names them in both.
type tune struct {
	root   *eager.Module
	spec   Spec
	embed  *eager.EmbeddingModule
	cache  *eager.Tensor // of RoPE: cosines and sines of every position
	layers []*tuneLayer
	norm   *tuneNorm
	output func(*eager.Tensor) *eager.Tensor
}

// tunePieces is num_output_chunks of CEWithChunkedOutputLoss.
const tunePieces = 8

func newTune(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if s.Task != "causal-lm" {
		return nil, wrongTask(c, s, "causal-lm")
	}
	m := &tune{root: eager.NewModel(p, s.DType), spec: s}
	width, vocab := c.Int("hidden_size"), c.Int("vocab_size")
	m.embed = m.root.Embedding("tok_embeddings", vocab, width)
	list := m.root.Child("layers")
	for i := range c.Int("num_hidden_layers") {
		m.layers = append(m.layers, newTuneLayer(list.Item(i), c))
	}
	rope := list.Item(0).Child("attn").Child("pos_embeddings") // one object of all layers
	rope.Buffer("theta", tensor.Float32, headDim(c)/2)
	m.cache = rope.Buffer("cache", tensor.Float32, max(s.Seq, c.Int("max_position_embeddings")), headDim(c)/2, 2)
	m.norm = newTuneNorm(m.root, "norm", width)
	if c.Bool("tie_word_embeddings") { // TiedLinear: no module of its own
		m.output = func(x *eager.Tensor) *eager.Tensor { return eager.Linear(x, m.embed.Weight, nil) }
	} else {
		m.output = m.root.Linear("lm_head", width, vocab, false).Forward
	}
	return m, nil
}

// Root is the module tree.
func (m *tune) Root() *eager.Module { return m.root }

// Batch allocates tokens and labels.
func (m *tune) Batch() []*eager.Tensor {
	p, s := m.root.Process(), m.spec
	return []*eager.Tensor{p.Input("tokens", tensor.Int64, s.Batch, s.Seq), p.Input("labels", tensor.Int64, s.Batch, s.Seq)}
}

// Forward is _loss_step of the recipes: the list of logits is let go once the loss is known
// (https://github.com/pytorch/torchtune/blob/v0.6.1/recipes/full_finetune_single_device.py#L622).
func (m *tune) Forward(batch []*eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	c := m.root.Process().Function(batch...)
	var logits []*eager.Tensor
	for _, piece := range m.model(batch[0]) {
		logits = append(logits, c.Let(piece))
	}
	labels := c.Let(eager.Cat(-1, batch[1].Slice(1, 1, m.spec.Seq), m.root.Process().Empty("ignore_labels_cache", tensor.Int64, m.spec.Batch, 1)))
	loss := c.Let(m.loss(logits, labels))
	out := c.ReturnAll(loss)
	return out[0], nil
}

func (m *tune) model(tokens *eager.Tensor) []*eager.Tensor {
	p := m.root.Process()
	c := m.root.Enter(tokens)
	h := c.Let(m.embed.Forward(tokens))
	for _, l := range m.layers {
		in := h
		c.Set(&h, layer(p, m.spec.Checkpointing, func() *eager.Tensor { return l.forward(in, m.cache) }, in))
	}
	c.Set(&h, m.norm.forward(h))
	if m.spec.Code == setup.TorchtuneWhole {
		return c.ReturnAll(m.output(h).Float())
	}
	var out []*eager.Tensor
	for _, piece := range h.Chunk(tunePieces, 1) {
		out = append(out, c.Let(m.output(piece)))
	}
	return c.ReturnAll(out...)
}

// loss is CEWithChunkedOutputLoss: one piece at a time is brought to fp32, its log-probabilities stay for backward.
func (m *tune) loss(logits []*eager.Tensor, labels *eager.Tensor) *eager.Tensor {
	c := m.root.Process().Function(append([]*eager.Tensor{labels}, logits...)...)
	var total *eager.Tensor
	from := 0
	for _, piece := range logits {
		rows := c.Let(piece.View(-1, piece.Dim(-1)))
		target := c.Let(labels.Slice(1, from, from+piece.Dim(1)).Reshape(-1))
		from += piece.Dim(1)
		loss := c.Let(eager.CrossEntropy(rows.Float(), target)) // of all logits at once they are fp32 already
		if total == nil {
			total = c.Let(loss.AddScalar())
			continue
		}
		c.Set(&total, total.Add(loss))
	}
	return c.Return(total.DivScalar())
}

// tuneLayer is TransformerSelfAttentionLayer.
type tuneLayer struct {
	*eager.Module
	attn            *tuneAttention
	mlp             *tuneFeedForward
	saNorm, mlpNorm *tuneNorm
}

func newTuneLayer(m *eager.Module, c *hfconfig.Config) *tuneLayer {
	l := &tuneLayer{Module: m, attn: newTuneAttention(m.Child("attn"), c), mlp: newTuneFeedForward(m.Child("mlp"), c)}
	l.saNorm = newTuneNorm(m, "sa_norm", c.Int("hidden_size"))
	l.mlpNorm = newTuneNorm(m, "mlp_norm", c.Int("hidden_size"))
	return l
}

func (l *tuneLayer) forward(x, cache *eager.Tensor) *eager.Tensor {
	c := l.Enter(x)
	h := c.Let(l.saNorm.forward(x))
	attended := c.Let(l.attn.forward(h, cache))
	c.Set(&h, attended.Add(x))
	fed := c.Let(l.mlp.forward(l.mlpNorm.forward(h)))
	return c.Return(h.Add(fed))
}

// tuneNorm is RMSNorm: F.rms_norm of the input in fp32. Weights of another type have no fused kernel, so it is made of its parts
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/layer_norm.cpp, rms_norm_symint).
type tuneNorm struct {
	*eager.Module
	scale *eager.Tensor
}

func newTuneNorm(m *eager.Module, name string, width int) *tuneNorm {
	c := m.Child(name)
	return &tuneNorm{c, c.Param("scale", width)}
}

func (n *tuneNorm) forward(x *eager.Tensor) *eager.Tensor {
	c := n.Enter(x)
	if n.scale.DType == tensor.Float32 && x.DType == tensor.Float32 {
		return c.Return(eager.RMSNorm(x, n.scale, n.scale.Numel()))
	}
	wide := c.Let(x.Float())
	rsqrt := wide.Pow().Mean(true, -1).AddScalar().Rsqrt()
	return c.Return(wide.Mul(rsqrt).Mul(n.scale).To(x.DType))
}

// tuneAttention is MultiHeadAttention.
type tuneAttention struct {
	*eager.Module
	q, k, v, o  *eager.LinearModule
	dim, groups int
}

func newTuneAttention(m *eager.Module, c *hfconfig.Config) *tuneAttention {
	hidden, heads, kv, dim := c.Int("hidden_size"), c.Int("num_attention_heads"), c.Int("num_key_value_heads"), headDim(c)
	return &tuneAttention{
		Module: m, dim: dim, groups: heads / kv,
		q: m.Linear("q_proj", hidden, heads*dim, false), k: m.Linear("k_proj", hidden, kv*dim, false), v: m.Linear("v_proj", hidden, kv*dim, false), o: m.Linear("o_proj", heads*dim, hidden, false),
	}
}

func (a *tuneAttention) forward(x, cache *eager.Tensor) *eager.Tensor {
	c := a.Enter(x)
	batch, seq := x.Dim(0), x.Dim(1)
	q := c.Let(a.q.Forward(x))
	c.Set(&q, q.View(batch, seq, -1, a.dim))
	c.Set(&q, tuneRotary(q, cache))
	c.Set(&q, q.Transpose(1, 2))
	k, v := c.Let(a.k.Forward(x)), c.Let(a.v.Forward(x))
	c.Set(&k, k.View(batch, seq, -1, a.dim))
	c.Set(&v, v.View(batch, seq, -1, a.dim))
	c.Set(&k, tuneRotary(k, cache))
	c.Set(&k, k.Transpose(1, 2))
	c.Set(&v, v.Transpose(1, 2))
	if a.groups > 1 {
		c.Set(&k, k.RepeatInterleave(a.groups, 1))
		c.Set(&v, v.RepeatInterleave(a.groups, 1))
	}
	out := c.Let(eager.ScaledDotProduct(q, k, v, eager.Attention{Causal: true}))
	c.Set(&out, out.Transpose(1, 2).Contiguous().View(batch, seq, -1))
	return c.Return(a.o.Forward(out))
}

// tuneRotary is Llama3ScaledRoPE: each half of the pairs is multiplied by cosines and sines, in fp32.
func tuneRotary(x, cache *eager.Tensor) *eager.Tensor {
	c := x.Process().Function(x, cache)
	seq, pairs := x.Dim(1), x.Dim(3)/2
	wave := c.Let(cache.Slice(0, 0, seq).View(1, seq, 1, pairs, 2))
	shaped := c.Let(x.Float().View(x.Dim(0), seq, x.Dim(2), pairs, 2))
	times := func(part, by int) *eager.Tensor { return shaped.Select(4, part).Mul(wave.Select(4, by)) }
	real := times(0, 0).Sub(times(1, 1))
	imaginary := times(1, 0).Add(times(0, 1))
	out := c.Let(eager.Stack(-1, real, imaginary))
	c.Set(&out, out.Flatten(3, 4))
	return c.Return(out.To(x.DType))
}

// tuneFeedForward is FeedForward.
type tuneFeedForward struct {
	*eager.Module
	gate, down, up *eager.LinearModule
}

func newTuneFeedForward(m *eager.Module, c *hfconfig.Config) *tuneFeedForward {
	hidden, inner := c.Int("hidden_size"), c.Int("intermediate_size")
	return &tuneFeedForward{m, m.Linear("gate_proj", hidden, inner, false), m.Linear("down_proj", inner, hidden, false), m.Linear("up_proj", hidden, inner, false)}
}

func (f *tuneFeedForward) forward(x *eager.Tensor) *eager.Tensor {
	c := f.Enter(x)
	h := c.Let(f.gate.Forward(x).SiLU())
	c.Set(&h, h.Mul(f.up.Forward(x)))
	return c.Return(f.down.Forward(h))
}
