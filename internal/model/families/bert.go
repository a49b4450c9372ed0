package families

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// newBert builds BERT, RoBERTa or ELECTRA with a head (transformers 5.17, modeling_bert.py, modeling_roberta.py,
// modeling_electra.py).
func newBert(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if c.Bool("is_decoder") || c.Bool("add_cross_attention") {
		return nil, errors.New(c.Type + " as a decoder is not supported")
	}
	root := eager.NewModel(p, s.DType)
	m := &encoder{root: root, spec: s, classes: c.Labels()}
	body, err := newBertBody(root.Child(c.Family.Prefix), c, s, c.Family.Code == "Bert" && s.Task == "seq-cls")
	if err != nil {
		return nil, err
	}
	m.body = body
	hidden := c.Int("hidden_size")
	switch s.Task {
	case "masked-lm":
		m.classes = c.Int("vocab_size")
		head, err := newBertMaskedHead(root, c, body.words())
		m.head = head
		return m, err
	case "seq-cls":
		switch c.Family.Code {
		case "Roberta":
			m.head = onSequence(newTextClassifier(root, hidden, c.Labels(), classifierDropout(c), (*eager.Tensor).Tanh).forward)
		case "Electra":
			m.head = onSequence(newTextClassifier(root, hidden, c.Labels(), classifierDropout(c), (*eager.Tensor).GELU).forward)
		default:
			m.head = onPooled(tokenClassifier(root, hidden, c.Labels(), classifierDropout(c)))
		}
		return m, nil
	case "token-cls":
		m.head = onSequence(tokenClassifier(root, hidden, c.Labels(), classifierDropout(c)))
		return m, nil
	}
	return nil, wrongTask(c, s, encoderTasks...)
}

// newBertMaskedHead is BertOnlyMLMHead, RobertaLMHead or ELECTRA's generator head.
func newBertMaskedHead(root *eager.Module, c *hfconfig.Config, words *eager.Tensor) (func(_, _ *eager.Tensor) *eager.Tensor, error) {
	hidden, vocab, tied := c.Int("hidden_size"), c.Int("vocab_size"), c.Bool("tie_word_embeddings")
	switch c.Family.Code {
	case "Electra":
		m := root.Child("generator_predictions")
		h := &maskedHead{Module: m, act: (*eager.Tensor).GELU, norm: m.LayerNorm("LayerNorm", c.Int("embedding_size"))}
		h.dense = m.Linear("dense", hidden, c.Int("embedding_size"), true)
		h.decoder = root.Linear("generator_lm_head", c.Int("embedding_size"), vocab, true)
		if tied {
			h.decoder.Tie(words)
		}
		return onSequence(h.forward), nil
	case "Roberta":
		m := root.Child("lm_head")
		h := &maskedHead{Module: m, dense: m.Linear("dense", hidden, hidden, true), act: (*eager.Tensor).GELU}
		h.norm = m.LayerNorm("layer_norm", hidden)
		h.addDecoder(hidden, vocab, tied, words)
		return onSequence(h.forward), nil
	}
	m := root.Child("cls").Child("predictions")
	transform := m.Child("transform")
	h := &maskedHead{Module: m, dense: transform.Linear("dense", hidden, hidden, true)}
	act, err := activation(transform, c.String("hidden_act"))
	h.act = act
	h.norm = transform.LayerNorm("LayerNorm", hidden)
	h.addDecoder(hidden, vocab, tied, words)
	return onSequence(h.forward), err
}

// addDecoder registers the projection and the head's own bias, which takes the place of the projection's.
func (h *maskedHead) addDecoder(width, vocab int, tied bool, words *eager.Tensor) {
	h.decoder = h.Linear("decoder", width, vocab, true)
	bias := h.Param("bias", vocab)
	if tied {
		h.decoder.Tie(words)
		h.decoder.TieBias(bias)
	}
}

// bertBody is BertModel, RobertaModel or ElectraModel.
type bertBody struct {
	*eager.Module
	spec    Spec
	embed   *bertEmbeddings
	project *eager.LinearModule // ELECTRA, where embeddings are narrower
	encoder *eager.Module
	layers  []*bertLayer
	pool    *pooler // nil without one
}

func newBertBody(m *eager.Module, c *hfconfig.Config, s Spec, pooled bool) (*bertBody, error) {
	hidden, width := c.Int("hidden_size"), c.Int("hidden_size")
	if c.Family.Code == "Electra" {
		width = c.Int("embedding_size")
	}
	b := &bertBody{Module: m, spec: s, embed: newBertEmbeddings(m.Child("embeddings"), c, width)}
	if width != hidden {
		b.project = m.Linear("embeddings_project", width, hidden, true)
	}
	b.encoder = m.Child("encoder")
	list := b.encoder.Child("layer")
	for i := range c.Int("num_hidden_layers") {
		l, err := newBertLayer(list.Item(i), c, s)
		if err != nil {
			return nil, err
		}
		b.layers = append(b.layers, l)
	}
	if pooled {
		b.pool = newPooler(m, hidden)
	}
	return b, nil
}

func (b *bertBody) words() *eager.Tensor { return b.embed.word.Weight }

func (b *bertBody) forward(ids *eager.Tensor) (sequence, pooled *eager.Tensor) {
	c := b.Enter(ids)
	embeds := c.Let(b.embed.forward(ids))
	if b.project != nil {
		c.Set(&embeds, b.project.Forward(embeds))
	}
	mask := c.Let(bidirectionalMask(b.spec, b.Process(), embeds.DType, b.spec.Seq))
	sequence = c.Let(b.encode(embeds, mask))
	if b.pool != nil {
		pooled = c.Let(b.pool.forward(sequence))
	}
	c.ReturnAll(sequence, pooled)
	return sequence, pooled
}

// encode is BertEncoder.forward.
func (b *bertBody) encode(hidden, mask *eager.Tensor) *eager.Tensor {
	c := b.encoder.Enter(hidden, mask)
	hidden = c.Let(hidden)
	for _, l := range b.layers {
		h := hidden
		run := func() *eager.Tensor { return l.forward(h, mask) }
		c.Set(&hidden, layer(b.Process(), b.spec.Checkpointing, run, h, mask))
	}
	return c.Return(hidden)
}

// bertEmbeddings is BertEmbeddings: words, token types and places. RoBERTa counts places from the ids, so they have a batch
// dimension.
type bertEmbeddings struct {
	*eager.Module
	word, place, kind *eager.EmbeddingModule
	norm              *eager.LayerNormModule
	drop              *eager.DropoutModule
	positions         *eager.Tensor // a buffer: 0, 1, 2, ...
	perSample         bool
}

func newBertEmbeddings(m *eager.Module, c *hfconfig.Config, width int) *bertEmbeddings {
	rows, places := c.Int("vocab_size"), c.Int("max_position_embeddings")
	e := &bertEmbeddings{Module: m, perSample: c.Family.Code == "Roberta"}
	e.word = m.Embedding("word_embeddings", rows, width)
	if !e.perSample {
		e.place = m.Embedding("position_embeddings", places, width)
	}
	e.kind = m.Embedding("token_type_embeddings", c.Int("type_vocab_size"), width)
	e.norm = m.LayerNorm("LayerNorm", width)
	e.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	e.positions = m.Buffer("position_ids", tensor.Int64, 1, places)
	m.Buffer("token_type_ids", tensor.Int64, 1, places)
	if e.perSample {
		e.place = m.Embedding("position_embeddings", places, width)
	}
	return e
}

func (e *bertEmbeddings) forward(ids *eager.Tensor) *eager.Tensor {
	p := e.Process()
	c := e.Enter(ids)
	batch, seq := ids.Dim(0), ids.Dim(1)
	var positions *eager.Tensor
	if e.perSample {
		positions = c.Let(p.Empty("position_ids", tensor.Int64, batch, seq))
	} else {
		positions = c.Let(e.positions.Slice(1, 0, seq))
	}
	kinds := c.Let(p.Empty("aten::gather", tensor.Int64, positions.Dim(0), seq).Expand(batch, seq))
	words := c.Let(e.word.Forward(ids))
	types := c.Let(e.kind.Forward(kinds))
	sum := c.Let(words.Add(types))
	places := c.Let(e.place.Forward(positions))
	c.Set(&sum, sum.Add(places))
	c.Set(&sum, e.norm.Forward(sum))
	c.Set(&sum, e.drop.Forward(sum))
	return c.Return(sum)
}

// bertLayer is BertLayer.
type bertLayer struct {
	*eager.Module
	attn         *eager.Module
	self         *eager.Module
	heads        headAttention
	attnOut      *bertOutput
	intermediate *eager.Module
	up           *eager.LinearModule
	act          func(*eager.Tensor) *eager.Tensor
	out          *bertOutput
}

func newBertLayer(m *eager.Module, c *hfconfig.Config, s Spec) (*bertLayer, error) {
	hidden, inner := c.Int("hidden_size"), c.Int("intermediate_size")
	l := &bertLayer{Module: m, attn: m.Child("attention")}
	l.self = l.attn.Child("self")
	names := [3]string{"query", "key", "value"}
	l.heads = newHeadAttention(l.self, names, hidden, c.Int("num_attention_heads"), s, c.Float("attention_probs_dropout_prob"))
	l.attnOut = newBertOutput(l.attn.Child("output"), hidden, hidden, c.Float("hidden_dropout_prob"))
	l.intermediate = m.Child("intermediate")
	l.up = l.intermediate.Linear("dense", hidden, inner, true)
	act, err := activation(l.intermediate, c.String("hidden_act"))
	l.act = act
	l.out = newBertOutput(m.Child("output"), inner, hidden, c.Float("hidden_dropout_prob"))
	return l, err
}

func (l *bertLayer) forward(hidden, mask *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden, mask)
	attended, weights := l.attend(hidden, mask)
	c.Let(attended)
	c.Let(weights)
	return c.Return(l.feedForward(attended))
}

// attend is BertAttention.forward around BertSelfAttention.forward.
func (l *bertLayer) attend(hidden, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := l.attn.Enter(hidden, mask)
	inner := l.self.Enter(hidden, mask)
	out, weights = l.heads.forward(inner, hidden, mask)
	inner.ReturnAll(out, weights)
	c.Let(out)
	c.Let(weights)
	c.Set(&out, l.attnOut.forward(out, hidden))
	c.ReturnAll(out, weights)
	return out, weights
}

// feedForward is feed_forward_chunk.
func (l *bertLayer) feedForward(attended *eager.Tensor) *eager.Tensor {
	c := l.Process().Function(attended)
	wide := c.Let(l.widen(attended))
	out := c.Let(l.out.forward(wide, attended))
	return c.Return(out)
}

// widen is BertIntermediate.forward.
func (l *bertLayer) widen(x *eager.Tensor) *eager.Tensor {
	c := l.intermediate.Enter(x)
	x = c.Let(l.up.Forward(x))
	c.Set(&x, l.act(x))
	return c.Return(x)
}

// bertOutput is BertSelfOutput and BertOutput: dense, dropout, and the norm of the sum with the input.
type bertOutput struct {
	*eager.Module
	dense *eager.LinearModule
	norm  *eager.LayerNormModule
	drop  *eager.DropoutModule
}

func newBertOutput(m *eager.Module, in, out int, prob float64) *bertOutput {
	return &bertOutput{m, m.Linear("dense", in, out, true), m.LayerNorm("LayerNorm", out), m.Dropout("dropout", prob)}
}

func (o *bertOutput) forward(x, input *eager.Tensor) *eager.Tensor {
	c := o.Enter(x, input)
	x = c.Let(o.dense.Forward(x))
	c.Set(&x, o.drop.Forward(x))
	c.Set(&x, o.norm.Forward(x.Add(input)))
	return c.Return(x)
}
