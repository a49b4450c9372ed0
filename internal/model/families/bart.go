package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// bart is BartForConditionalGeneration (transformers 5.17, modeling_bart.py). Labels switch its cache off.
type bart struct {
	root             *eager.Module
	model            *eager.Module
	spec             Spec
	encoder, decoder *bartSide
	bias             *eager.Tensor // final_logits_bias
	head             *eager.LinearModule
}

func newBart(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if err := needTarget(c, s, "seq2seq-lm"); err != nil {
		return nil, err
	}
	root := eager.NewModel(p, s.DType)
	m := &bart{root: root, model: root.Child("model"), spec: s}
	vocab, width := c.Int("vocab_size"), c.Int("d_model")
	shared := m.model.Embedding("shared", vocab, width)
	var err error
	if m.encoder, err = newBartSide(m.model, c, s, "encoder"); err != nil {
		return nil, err
	}
	if m.decoder, err = newBartSide(m.model, c, s, "decoder"); err != nil {
		return nil, err
	}
	tied := c.Bool("tie_word_embeddings")
	if tied { // BartModel ties its own embeddings before the head exists
		m.decoder.tokens.Tie(shared.Weight)
		m.encoder.tokens.Tie(shared.Weight)
	}
	m.bias = root.Buffer("final_logits_bias", s.DType, 1, vocab)
	m.head = root.Linear("lm_head", width, vocab, false)
	if tied {
		m.head.Tie(shared.Weight)
	}
	return m, nil
}

func (m *bart) Root() *eager.Module { return m.root }

// Batch allocates the source and the target.
func (m *bart) Batch() []*eager.Tensor { return translationTokens(m.root.Process(), m.spec) }

// translationTokens allocates a source sequence and the labels.
func translationTokens(p *eager.Process, s Spec) []*eager.Tensor {
	ids := p.Input("input_ids", tensor.Int64, s.Batch, s.Seq)
	return withMask(p, s, []*eager.Tensor{ids, p.Input("labels", tensor.Int64, s.Batch, s.TargetSeq)})
}

// Forward keeps the logits and the encoder's last hidden states (Seq2SeqLMOutput).
func (m *bart) Forward(batch []*eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	ids, labels := batch[0], batch[1]
	c := m.root.Enter(ids, labels)
	target := c.Let(shiftRight(labels))
	hidden, encoded := m.body(ids, target)
	c.Let(hidden)
	c.Let(encoded)
	logits := c.Let(m.head.Forward(hidden))
	c.Set(&logits, logits.Add(m.bias))
	loss := c.Let(targetLoss(logits, labels))
	out := c.ReturnAll(loss, logits, encoded)
	return out[0], out[1:]
}

// body is BartModel.forward.
func (m *bart) body(ids, target *eager.Tensor) (hidden, encoded *eager.Tensor) {
	c := m.model.Enter(ids, target)
	encoded = c.Let(m.encoder.encode(ids))
	hidden = c.Let(m.decoder.decode(target, encoded))
	c.ReturnAll(hidden, encoded)
	return hidden, encoded
}

// bartSide is BartEncoder or BartDecoder.
type bartSide struct {
	*eager.Module
	spec    Spec
	tokens  *eager.EmbeddingModule
	places  *eager.EmbeddingModule
	layers  []*seqLayer
	norm    *eager.LayerNormModule
	dropout float64
}

func newBartSide(model *eager.Module, c *hfconfig.Config, s Spec, side string) (*bartSide, error) {
	m, width := model.Child(side), c.Int("d_model")
	b := &bartSide{Module: m, spec: s, dropout: c.Float("dropout")}
	b.tokens = m.Embedding("embed_tokens", c.Int("vocab_size"), width)
	b.places = m.Embedding("embed_positions", c.Int("max_position_embeddings")+2, width)
	layers, err := seqLayers(m, c, s, side)
	b.layers = layers
	b.norm = m.LayerNorm("layernorm_embedding", width)
	return b, err
}

// words is BartScaledWordEmbedding.forward: a product even where the scale is one.
func (b *bartSide) words(ids *eager.Tensor) *eager.Tensor {
	c := b.tokens.Enter(ids)
	return c.Return(eager.Embedding(ids, b.tokens.Weight).MulScalar())
}

// positions is BartLearnedPositionalEmbedding.forward on [rows, seq] positions.
func (b *bartSide) positions(rows, seq int) *eager.Tensor {
	p := b.Process()
	c := b.places.Enter()
	at := c.Let(p.Empty("aten::arange", tensor.Int64, 1, seq).Expand(rows, -1))
	return c.Return(eager.Embedding(at.AddScalar(), b.places.Weight))
}

func (b *bartSide) encode(ids *eager.Tensor) *eager.Tensor {
	c := b.Enter(ids)
	embeds := c.Let(b.words(ids))
	places := c.Let(b.positions(ids.Dim(0), ids.Dim(1)))
	hidden := c.Let(embeds.Add(places))
	c.Set(&hidden, b.norm.Forward(hidden))
	c.Set(&hidden, hidden.Dropout(b.dropout))
	mask := c.Let(bidirectionalMask(b.spec, b.Process(), embeds.DType, b.spec.Seq))
	return c.Return(runLayers(c, b.spec, b.layers, streams{hidden: hidden, mask: mask}))
}

// decode makes a padding mask of ones where none is given, so nobody looks for packed sequences.
func (b *bartSide) decode(ids, encoded *eager.Tensor) *eager.Tensor {
	p := b.Process()
	c := b.Enter(ids, encoded)
	rows, seq := ids.Dim(0), ids.Dim(1)
	embeds := c.Let(b.words(ids))
	c.Let(p.Empty("aten::arange", tensor.Int64, seq).AddScalar())
	padding := c.Let(p.Empty("aten::ones", tensor.Float32, rows, seq))
	target := b.spec
	target.Seq, target.Mask = seq, NoMask
	p.Empty("aten::to", tensor.Bool, rows, seq).Drop()
	c.Set(&padding, plainMask(target, p, embeds.DType, 0))
	across := c.Let(bidirectionalMask(b.spec, p, embeds.DType, seq))
	places := c.Let(b.positions(1, seq))
	hidden := c.Let(embeds.Add(places))
	c.Set(&hidden, b.norm.Forward(hidden))
	c.Set(&hidden, hidden.Dropout(b.dropout))
	return c.Return(runLayers(c, b.spec, b.layers, streams{hidden, padding, encoded, across}))
}
