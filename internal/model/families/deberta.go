package families

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// newDeberta builds DeBERTa-v2 or v3 with a head (transformers 5.17, modeling_deberta_v2.py). It has eager attention only.
func newDeberta(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	root := eager.NewModel(p, s.DType)
	m := &encoder{root: root, spec: s, classes: c.Labels()}
	body, err := newDebertaBody(root.Child(c.Family.Prefix), c, s)
	if err != nil {
		return nil, err
	}
	m.body = body
	hidden := c.Int("hidden_size")
	switch s.Task {
	case "masked-lm":
		m.classes = c.Int("vocab_size")
		head, err := newDebertaMaskedHead(root, c, body.words())
		m.head = head
		return m, err
	case "seq-cls":
		head, err := newDebertaClassifier(root, c)
		m.head = head
		return m, err
	case "token-cls":
		m.head = onSequence(tokenClassifier(root, hidden, c.Labels(), c.Float("hidden_dropout_prob")))
		return m, nil
	}
	return nil, wrongTask(c, s, encoderTasks...)
}

// newDebertaMaskedHead is LegacyDebertaV2OnlyMLMHead, or DebertaV2OnlyMLMHead, which multiplies by the word
// embeddings and adds the bias in a second tensor.
func newDebertaMaskedHead(root *eager.Module, c *hfconfig.Config, words *eager.Tensor) (func(_, _ *eager.Tensor) *eager.Tensor, error) {
	hidden, width, vocab := c.Int("hidden_size"), c.Int("embedding_size"), c.Int("vocab_size")
	if c.Bool("legacy") {
		m := root.Child("cls").Child("predictions")
		transform := m.Child("transform")
		h := &maskedHead{Module: m, dense: transform.Linear("dense", hidden, width, true)}
		act, err := activation(transform, c.String("hidden_act"))
		h.act = act
		h.norm = transform.LayerNorm("LayerNorm", width)
		h.addDecoder(width, vocab, c.Bool("tie_word_embeddings"), words)
		return onSequence(h.forward), err
	}
	m := root.Child("lm_predictions").Child("lm_head")
	dense := m.Linear("dense", hidden, hidden, true)
	act, err := activation(m, c.String("hidden_act"))
	norm := m.LayerNorm("LayerNorm", hidden)
	bias := m.Param("bias", vocab)
	return onSequence(func(x *eager.Tensor) *eager.Tensor {
		call := m.Enter(x)
		x = call.Let(dense.Forward(x))
		call.Set(&x, act(x))
		call.Set(&x, norm.Forward(x))
		call.Set(&x, eager.Matmul(x, words.Transpose(0, 1)).Add(bias))
		return call.Return(x)
	}), err
}

// newDebertaClassifier is ContextPooler with a classifier above.
func newDebertaClassifier(root *eager.Module, c *hfconfig.Config) (func(_, _ *eager.Tensor) *eager.Tensor, error) {
	width := c.Int("pooler_hidden_size")
	pool := root.Child("pooler")
	dense := pool.Linear("dense", width, width, true)
	first := pool.Dropout("dropout", c.Float("pooler_dropout"))
	act, err := activation(pool, c.String("pooler_hidden_act"))
	out := root.Linear("classifier", c.Int("hidden_size"), c.Labels(), true)
	prob := c.Float("hidden_dropout_prob")
	if !c.Null("cls_dropout") {
		prob = c.Float("cls_dropout")
	}
	drop := root.Dropout("dropout", prob)
	pooled := func(x *eager.Tensor) *eager.Tensor {
		call := pool.Enter(x)
		token := call.Let(firstToken(x))
		call.Set(&token, first.Forward(token))
		result := call.Let(dense.Forward(token))
		call.Set(&result, act(result))
		return call.Return(result)
	}
	return onSequence(func(x *eager.Tensor) *eager.Tensor {
		call := root.Process().Function(x)
		result := call.Let(pooled(x))
		call.Set(&result, drop.Forward(result))
		return call.Return(out.Forward(result))
	}), err
}

// debertaBody is DebertaV2Model.
type debertaBody struct {
	*eager.Module
	spec    Spec
	embed   *debertaEmbeddings
	encoder *eager.Module
	layers  []*debertaLayer
	places  *eager.EmbeddingModule // rel_embeddings; nil without relative attention
	norm    *eager.LayerNormModule // of rel_embeddings; nil without
	conv    *debertaConv
}

func newDebertaBody(m *eager.Module, c *hfconfig.Config, s Spec) (*debertaBody, error) {
	hidden := c.Int("hidden_size")
	b := &debertaBody{Module: m, spec: s, embed: newDebertaEmbeddings(m.Child("embeddings"), c)}
	b.encoder = m.Child("encoder")
	list := b.encoder.Child("layer")
	for i := range c.Int("num_hidden_layers") {
		l, err := newDebertaLayer(list.Item(i), c)
		if err != nil {
			return nil, err
		}
		b.layers = append(b.layers, l)
	}
	if c.Bool("relative_attention") {
		b.places = b.encoder.Embedding("rel_embeddings", 2*debertaSpan(c), hidden)
	}
	if slices.ContainsFunc(strings.Split(c.String("norm_rel_ebd"), "|"), isLayerNorm) {
		b.norm = b.encoder.LayerNorm("LayerNorm", hidden)
	}
	if c.Int("conv_kernel_size") > 0 {
		conv, err := newDebertaConv(b.encoder.Child("conv"), c)
		if err != nil {
			return nil, err
		}
		b.conv = conv
	}
	return b, nil
}

func isLayerNorm(word string) bool { return strings.ToLower(strings.TrimSpace(word)) == "layer_norm" }

// debertaSpan is pos_ebd_size: position_buckets, else max_relative_positions, else max_position_embeddings.
func debertaSpan(c *hfconfig.Config) int {
	switch {
	case c.Int("position_buckets") > 0:
		return c.Int("position_buckets")
	case c.Int("max_relative_positions") >= 1:
		return c.Int("max_relative_positions")
	}
	return c.Int("max_position_embeddings")
}

func (b *debertaBody) words() *eager.Tensor { return b.embed.word.Weight }

// forward is DebertaV2Model.forward: it makes a mask of ones, and the encoder returns all hidden states, so every layer's output
// lives until the body is done.
func (b *debertaBody) forward(ids *eager.Tensor) (sequence, pooled *eager.Tensor) {
	p, s := b.Process(), b.spec
	c := b.Enter(ids)
	mask := c.Let(p.Empty("aten::ones", tensor.Float32, s.Batch, s.Seq))
	kinds := c.Let(p.Empty("aten::zeros", tensor.Int64, s.Batch, s.Seq))
	embeds := c.Let(b.embed.forward(ids, kinds, mask))
	states := c.Lets(b.encode(embeds, mask))
	return c.Return(states[len(states)-1]), nil
}

// encode is DebertaV2Encoder.forward.
func (b *debertaBody) encode(embeds, mask *eager.Tensor) []*eager.Tensor {
	p, s := b.Process(), b.spec
	c := b.encoder.Enter(embeds, mask)
	square := c.Let(p.Empty("aten::mul", tensor.Float32, s.Batch, 1, s.Seq, s.Seq))
	var relative, places *eager.Tensor
	if b.places != nil {
		relative = c.Let(p.Empty("relative_pos", tensor.Int64, 1, s.Seq, s.Seq))
		places = b.places.Weight
		if b.norm != nil {
			places = c.Let(b.norm.Forward(places))
		}
	}
	states := []*eager.Tensor{embeds}
	hidden := c.Let(embeds)
	for i, l := range b.layers {
		h := hidden
		run := func() *eager.Tensor { return l.forward(h, square, relative, places) }
		out := c.Let(layer(p, s.Checkpointing, run, h, square, relative, places))
		if i == 0 && b.conv != nil {
			c.Set(&out, b.conv.forward(embeds, out, mask))
		}
		states = append(states, c.Let(out))
		c.Set(&hidden, out)
	}
	return c.ReturnAll(states...)
}

// debertaEmbeddings is DebertaV2Embeddings.
type debertaEmbeddings struct {
	*eager.Module
	word, place, kind *eager.EmbeddingModule // place and kind may be nil
	project           *eager.LinearModule    // nil where embeddings have the hidden size
	norm              *eager.LayerNormModule
	drop              *eager.DropoutModule
	positions         *eager.Tensor
}

func newDebertaEmbeddings(m *eager.Module, c *hfconfig.Config) *debertaEmbeddings {
	width, places := c.Int("embedding_size"), c.Int("max_position_embeddings")
	e := &debertaEmbeddings{Module: m, word: m.Embedding("word_embeddings", c.Int("vocab_size"), width)}
	if c.Bool("position_biased_input") {
		e.place = m.Embedding("position_embeddings", places, width)
	}
	if c.Int("type_vocab_size") > 0 {
		e.kind = m.Embedding("token_type_embeddings", c.Int("type_vocab_size"), width)
	}
	if width != c.Int("hidden_size") {
		e.project = m.Linear("embed_proj", width, c.Int("hidden_size"), false)
	}
	e.norm = m.LayerNorm("LayerNorm", c.Int("hidden_size"))
	e.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	e.positions = m.Buffer("position_ids", tensor.Int64, 1, places)
	return e
}

func (e *debertaEmbeddings) forward(ids, kinds, mask *eager.Tensor) *eager.Tensor {
	p := e.Process()
	c := e.Enter(ids, kinds, mask)
	words := c.Let(e.word.Forward(ids))
	sum := c.Let(words)
	if e.place != nil {
		places := c.Let(e.place.Forward(e.positions.Slice(1, 0, ids.Dim(1))))
		c.Set(&sum, sum.Add(places))
	} else {
		c.Let(p.Empty("aten::zeros_like", words.DType, words.Sizes...))
	}
	if e.kind != nil {
		types := c.Let(e.kind.Forward(kinds))
		c.Set(&sum, sum.Add(types))
	}
	if e.project != nil {
		c.Set(&sum, e.project.Forward(sum))
	}
	c.Set(&sum, e.norm.Forward(sum))
	c.Set(&sum, sum.Mul(mask.Unsqueeze(2).To(sum.DType)))
	c.Set(&sum, e.drop.Forward(sum))
	return c.Return(sum)
}

// debertaConv is ConvLayer: a convolution over the embeddings, added to the first layer's output.
type debertaConv struct {
	*eager.Module
	conv *eager.ConvModule
	norm *eager.LayerNormModule
	drop *eager.DropoutModule
	act  func(*eager.Tensor) *eager.Tensor
}

func newDebertaConv(m *eager.Module, c *hfconfig.Config) (*debertaConv, error) {
	hidden, kernel := c.Int("hidden_size"), c.Int("conv_kernel_size")
	args := eager.Conv{Window: eager.Window{Stride: []int{1}, Padding: []int{(kernel - 1) / 2}}, Groups: c.Int("conv_groups")}
	l := &debertaConv{Module: m, conv: m.Conv("conv", hidden, hidden, true, args, kernel)}
	l.norm = m.LayerNorm("LayerNorm", hidden)
	l.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	act, err := activation(m, c.String("conv_act"))
	l.act = act
	return l, err
}

func (l *debertaConv) forward(hidden, residual, mask *eager.Tensor) *eager.Tensor {
	p := l.Process()
	c := l.Enter(hidden, residual, mask)
	out := c.Let(l.conv.Forward(hidden.Permute(0, 2, 1).Contiguous()).Permute(0, 2, 1).Contiguous())
	padded := c.Let(p.Empty("aten::_to_copy", tensor.Bool, mask.Sizes...))
	out.MaskedFillInPlace(padded.Unsqueeze(-1).Expand(out.Sizes...))
	c.Set(&out, l.act(l.drop.Forward(out)))
	sum := c.Let(residual.Add(out))
	normed := c.Let(l.norm.Forward(sum).To(sum.DType))
	return c.Return(normed.Mul(mask.Unsqueeze(2).To(normed.DType)))
}
