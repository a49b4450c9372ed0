package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// t5 is T5ForConditionalGeneration (transformers 5.17, modeling_t5.py). The decoder has a copy of the configuration made before
// anybody switches use_cache off on the model, so its cache stays on.
type t5 struct {
	root             *eager.Module
	spec             Spec
	encoder, decoder *t5Stack
	head             *eager.LinearModule
	scale            bool // scale_decoder_outputs
}

func newT5(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if err := needTarget(c, s, "seq2seq-lm"); err != nil {
		return nil, err
	}
	root := eager.NewModel(p, s.DType)
	m := &t5{root: root, spec: s, scale: c.Bool("scale_decoder_outputs")}
	shared := root.Embedding("shared", c.Int("vocab_size"), c.Int("d_model"))
	var err error
	if m.encoder, err = newT5Stack(root.Child("encoder"), c, s, false); err != nil {
		return nil, err
	}
	if m.decoder, err = newT5Stack(root.Child("decoder"), c, s, true); err != nil {
		return nil, err
	}
	m.head = root.Linear("lm_head", c.Int("d_model"), c.Int("vocab_size"), false)
	if c.Bool("tie_word_embeddings") {
		m.head.Tie(shared.Weight)
		m.encoder.tokens.Tie(shared.Weight)
		m.decoder.tokens.Tie(shared.Weight)
	}
	return m, nil
}

func (m *t5) Root() *eager.Module { return m.root }

func (m *t5) Batch() []*eager.Tensor { return translationTokens(m.root.Process(), m.spec) }

// Forward keeps the logits, the cache and the encoder's last hidden states (Seq2SeqLMOutput).
func (m *t5) Forward(batch []*eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	ids, labels := batch[0], batch[1]
	c := m.root.Enter(ids, labels)
	encoded, _ := m.encoder.forward(ids, nil)
	c.Let(encoded)
	target := c.Let(shiftRight(labels))
	decoded, cache := m.decoder.forward(target, encoded)
	c.Let(decoded)
	c.Lets(cache)
	sequence := c.Let(decoded)
	if m.scale {
		c.Set(&sequence, sequence.MulScalar())
	}
	logits := c.Let(m.head.Forward(sequence))
	loss := c.Let(targetLoss(logits, labels))
	kept := append([]*eager.Tensor{loss, logits}, cache...)
	out := c.ReturnAll(append(kept, encoded)...)
	return out[0], out[1:]
}

// t5Stack is T5Stack, encoder or decoder.
type t5Stack struct {
	*eager.Module
	spec    Spec
	decoder bool
	cached  bool
	tokens  *eager.EmbeddingModule
	blocks  []*t5Block
	norm    *t5Norm
	drop    *eager.DropoutModule
}

func newT5Stack(m *eager.Module, c *hfconfig.Config, s Spec, decoder bool) (*t5Stack, error) {
	t := &t5Stack{Module: m, spec: s, decoder: decoder}
	t.tokens = m.Embedding("embed_tokens", c.Int("vocab_size"), c.Int("d_model"))
	count := c.Int("num_layers")
	if decoder {
		count = c.Int("num_decoder_layers")
		t.cached = c.Bool("use_cache") && !s.Checkpointing // checkpointed layers drop it
	}
	list := m.Child("block")
	for i := range count {
		b, err := newT5Block(list.Item(i), c, s, decoder, i == 0)
		if err != nil {
			return nil, err
		}
		t.blocks = append(t.blocks, b)
	}
	t.norm = newT5Norm(m, "final_layer_norm", c.Int("d_model"))
	t.drop = m.Dropout("dropout", c.Float("dropout_rate"))
	return t, nil
}

// forward gives the last hidden states and what the cache holds.
func (t *t5Stack) forward(ids, encoded *eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	p := t.Process()
	c := t.Enter(ids, encoded)
	embeds := c.Let(t.tokens.Forward(ids))
	var mask, across *eager.Tensor
	if t.decoder {
		own := t.spec
		own.Seq, own.Mask = ids.Dim(1), NoMask
		mask = c.Let(plainMask(own, p, embeds.DType, 0))
		across = c.Let(bidirectionalMask(t.spec, p, embeds.DType, own.Seq))
	} else {
		mask = c.Let(bidirectionalMask(t.spec, p, embeds.DType, t.spec.Seq))
	}
	hidden := c.Let(t.drop.Forward(embeds))
	cache := &kvCache{call: c, on: t.cached}
	var bias, crossBias *eager.Tensor
	for _, b := range t.blocks {
		in := t5Inputs{hidden, mask, bias, encoded, across, crossBias}
		run := func() []*eager.Tensor { return b.forward(in, cache) }
		var out []*eager.Tensor
		if t.spec.Checkpointing {
			out = p.Checkpoint(run, in.hidden, in.mask, in.bias, in.encoded, in.across, in.crossBias)
		} else {
			out = run()
		}
		c.Set(&hidden, out[0])
		c.Set(&bias, out[1])
		if t.decoder {
			c.Set(&crossBias, out[2])
		}
	}
	c.Set(&hidden, t.norm.forward(hidden))
	c.Set(&hidden, t.drop.Forward(hidden))
	out := c.ReturnAll(append([]*eager.Tensor{hidden}, cache.entries...)...)
	return out[0], out[1:]
}

// t5Inputs are the tensor arguments of a block.
type t5Inputs struct{ hidden, mask, bias, encoded, across, crossBias *eager.Tensor }

// t5Block is T5Block.
type t5Block struct {
	*eager.Module
	self  *t5Attention
	cross *t5Attention // nil in encoders
	ff    *t5FF
}

func newT5Block(m *eager.Module, c *hfconfig.Config, s Spec, decoder, first bool) (*t5Block, error) {
	list := m.Child("layer")
	b := &t5Block{Module: m}
	b.self = newT5Attention(list.Item(0), "SelfAttention", c, s)
	b.self.causal = decoder
	if first {
		b.self.buckets = b.self.inner.Embedding("relative_attention_bias", c.Int("relative_attention_num_buckets"), c.Int("num_heads"))
	}
	b.self.addNorm(c)
	last := 1
	if decoder {
		b.cross = newT5Attention(list.Item(1), "EncDecAttention", c, s)
		b.cross.addNorm(c)
		last = 2
	}
	ff, err := newT5FF(list.Item(last), c)
	b.ff = ff
	return b, err
}

// forward gives hidden states, the bias of self-attention and, in decoders, that of cross-attention.
func (b *t5Block) forward(in t5Inputs, cache *kvCache) []*eager.Tensor {
	c := b.Enter(in.hidden, in.mask, in.bias, in.encoded, in.across, in.crossBias)
	hidden := c.Let(in.hidden)
	var unused *eager.Tensor // the name _
	out, bias, weights := b.self.forward(hidden, in.mask, nil, in.bias, cache)
	c.Set(&hidden, out)
	c.Let(bias)
	c.Set(&unused, weights)
	c.Set(&hidden, finite(hidden))
	var crossBias *eager.Tensor
	if b.cross != nil {
		out, crossBias, weights = b.cross.forward(hidden, in.across, in.encoded, in.crossBias, cache)
		c.Set(&hidden, out)
		c.Let(crossBias)
		c.Set(&unused, weights)
		c.Set(&hidden, finite(hidden))
	}
	c.Set(&hidden, b.ff.forward(hidden))
	c.Set(&hidden, finite(hidden))
	return c.ReturnAll(hidden, bias, crossBias)
}

// finite clamps fp16 states between tensors of limits, after a look for infinities.
func finite(x *eager.Tensor) *eager.Tensor {
	if x.DType != tensor.Float16 {
		return x
	}
	size := x.Process().Empty("aten::isinf", x.DType, x.Sizes...)
	x.Process().Empty("aten::isinf", tensor.Bool, x.Sizes...).Drop()
	size.Drop()
	return x.Clamp()
}

// t5Norm is T5LayerNorm: the square is taken in fp32, the product in the type of its operands.
type t5Norm struct {
	*eager.Module
	weight *eager.Tensor
}

func newT5Norm(m *eager.Module, name string, width int) *t5Norm {
	c := m.Child(name)
	return &t5Norm{c, c.Param("weight", width)}
}

func (n *t5Norm) forward(x *eager.Tensor) *eager.Tensor {
	c := n.Enter(x)
	variance := c.Let(x.To(tensor.Float32).Pow().Mean(true, -1))
	x = c.Let(x.Mul(variance.AddScalar().Rsqrt()))
	if n.weight.DType.Half() {
		c.Set(&x, x.To(n.weight.DType))
	}
	return c.Return(n.weight.Mul(x))
}

// t5FF is T5LayerFF around T5DenseActDense or, gated, T5DenseGatedActDense.
type t5FF struct {
	*eager.Module
	dense    *eager.Module
	gate, in *eager.LinearModule // gate is nil where there is none
	out      *eager.LinearModule
	act      func(*eager.Tensor) *eager.Tensor
	norm     *t5Norm
	drop     *eager.DropoutModule
}

func newT5FF(m *eager.Module, c *hfconfig.Config) (*t5FF, error) {
	width, inner := c.Int("d_model"), c.Int("d_ff")
	f := &t5FF{Module: m, dense: m.Child("DenseReluDense")}
	if c.Bool("is_gated_act") {
		f.gate = f.dense.Linear("wi_0", width, inner, false)
		f.in = f.dense.Linear("wi_1", width, inner, false)
	} else {
		f.in = f.dense.Linear("wi", width, inner, false)
	}
	f.out = f.dense.Linear("wo", inner, width, false)
	act, err := activation(f.dense, c.String("dense_act_fn"))
	f.act = act
	f.norm = newT5Norm(m, "layer_norm", width)
	f.drop = m.Dropout("dropout", c.Float("dropout_rate"))
	return f, err
}

func (f *t5FF) forward(hidden *eager.Tensor) *eager.Tensor {
	c := f.Enter(hidden)
	x := c.Let(f.norm.forward(hidden))
	c.Set(&x, f.widen(x))
	return c.Return(hidden.Add(f.drop.Forward(x)))
}

// widen is the forward of the dense module. Under autocast the activation is copied to the type of wo, for the linear layer to
// cast it back.
func (f *t5FF) widen(x *eager.Tensor) *eager.Tensor {
	c := f.dense.Enter(x)
	var gelu, linear *eager.Tensor
	if f.gate == nil {
		x = c.Let(f.in.Forward(x))
		c.Set(&x, f.act(x))
	} else {
		gelu = c.Let(f.act(f.gate.Forward(x)))
		linear = c.Let(f.in.Forward(x))
		x = c.Let(gelu.Mul(linear))
	}
	c.Set(&x, f.drop.Forward(x))
	c.Set(&x, x.To(f.out.Weight.DType))
	c.Set(&x, f.out.Forward(x))
	return c.Return(x)
}
