package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// newDistilBert builds DistilBERT with a head (transformers 5.17, modeling_distilbert.py).
func newDistilBert(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	root := eager.NewModel(p, s.DType)
	m := &encoder{root: root, spec: s, classes: c.Labels()}
	body, err := newDistilBody(root.Child(c.Family.Prefix), c, s)
	if err != nil {
		return nil, err
	}
	m.body = body
	width := c.Int("dim")
	switch s.Task {
	case "masked-lm":
		m.classes = c.Int("vocab_size")
		act, err := activation(root, c.String("activation"))
		h := &maskedHead{Module: root, dense: root.Linear("vocab_transform", width, width, true), act: act}
		h.norm = root.LayerNorm("vocab_layer_norm", width)
		h.decoder = root.Linear("vocab_projector", width, m.classes, true)
		if c.Bool("tie_word_embeddings") {
			h.decoder.Tie(body.words())
		}
		m.head = onSequence(h.forward)
		return m, err
	case "seq-cls":
		m.head = onSequence(distilClassifier(root, width, c.Labels(), c.Float("seq_classif_dropout")))
		return m, nil
	case "token-cls":
		m.head = onSequence(tokenClassifier(root, width, c.Labels(), c.Float("dropout")))
		return m, nil
	}
	return nil, wrongTask(c, s, encoderTasks...)
}

// distilClassifier is the head of DistilBertForSequenceClassification.
func distilClassifier(root *eager.Module, width, labels int, prob float64) func(*eager.Tensor) *eager.Tensor {
	dense := root.Linear("pre_classifier", width, width, true)
	out := root.Linear("classifier", width, labels, true)
	drop := root.Dropout("dropout", prob)
	return func(x *eager.Tensor) *eager.Tensor {
		c := root.Process().Function(x)
		pooled := c.Let(firstToken(x))
		c.Set(&pooled, dense.Forward(pooled))
		c.Set(&pooled, pooled.ReLU())
		c.Set(&pooled, drop.Forward(pooled))
		return c.Return(out.Forward(pooled))
	}
}

// distilBody is DistilBertModel.
type distilBody struct {
	*eager.Module
	spec        Spec
	embeddings  *eager.Module
	word, place *eager.EmbeddingModule
	norm        *eager.LayerNormModule
	drop        *eager.DropoutModule
	positions   *eager.Tensor // a buffer: 0, 1, 2, ...
	transformer *eager.Module
	blocks      []*distilBlock
}

func newDistilBody(m *eager.Module, c *hfconfig.Config, s Spec) (*distilBody, error) {
	width, places := c.Int("dim"), c.Int("max_position_embeddings")
	b := &distilBody{Module: m, spec: s, embeddings: m.Child("embeddings")}
	b.word = b.embeddings.Embedding("word_embeddings", c.Int("vocab_size"), width)
	b.place = b.embeddings.Embedding("position_embeddings", places, width)
	b.norm = b.embeddings.LayerNorm("LayerNorm", width)
	b.drop = b.embeddings.Dropout("dropout", c.Float("dropout"))
	b.positions = b.embeddings.Buffer("position_ids", tensor.Int64, 1, places)
	b.transformer = m.Child("transformer")
	list := b.transformer.Child("layer")
	for i := range c.Int("n_layers") {
		block, err := newDistilBlock(list.Item(i), c, s)
		if err != nil {
			return nil, err
		}
		b.blocks = append(b.blocks, block)
	}
	return b, nil
}

func (b *distilBody) words() *eager.Tensor { return b.word.Weight }

func (b *distilBody) forward(ids *eager.Tensor) (sequence, pooled *eager.Tensor) {
	c := b.Enter(ids)
	hidden := c.Let(b.embed(ids))
	mask := c.Let(bidirectionalMask(b.spec, b.Process(), hidden.DType, b.spec.Seq))
	inner := b.transformer.Enter(hidden, mask)
	hidden = inner.Let(hidden)
	for _, block := range b.blocks {
		h := hidden
		run := func() *eager.Tensor { return block.forward(h, mask) }
		inner.Set(&hidden, layer(b.Process(), b.spec.Checkpointing, run, h, mask))
	}
	return c.Return(inner.Return(hidden)), nil
}

func (b *distilBody) embed(ids *eager.Tensor) *eager.Tensor {
	c := b.embeddings.Enter(ids)
	words := c.Let(b.word.Forward(ids))
	positions := c.Let(b.positions.Slice(1, 0, ids.Dim(1)))
	places := c.Let(b.place.Forward(positions))
	sum := c.Let(words.Add(places))
	c.Set(&sum, b.norm.Forward(sum))
	c.Set(&sum, b.drop.Forward(sum))
	return c.Return(sum)
}

// distilBlock is TransformerBlock.
type distilBlock struct {
	*eager.Module
	attn              *eager.Module
	heads             headAttention
	out               *eager.LinearModule
	attnNorm, outNorm *eager.LayerNormModule
	ffn               *eager.Module
	drop              *eager.DropoutModule
	lin1, lin2        *eager.LinearModule
	act               func(*eager.Tensor) *eager.Tensor
}

func newDistilBlock(m *eager.Module, c *hfconfig.Config, s Spec) (*distilBlock, error) {
	width := c.Int("dim")
	b := &distilBlock{Module: m, attn: m.Child("attention")}
	names := [3]string{"q_lin", "k_lin", "v_lin"}
	b.heads = newHeadAttention(b.attn, names, width, c.Int("n_heads"), s, c.Float("attention_dropout"))
	b.out = b.attn.Linear("out_lin", width, width, true)
	b.attnNorm = m.LayerNorm("sa_layer_norm", width)
	b.ffn = m.Child("ffn")
	b.drop = b.ffn.Dropout("dropout", c.Float("dropout"))
	b.lin1 = b.ffn.Linear("lin1", width, c.Int("hidden_dim"), true)
	b.lin2 = b.ffn.Linear("lin2", c.Int("hidden_dim"), width, true)
	act, err := activation(b.ffn, c.String("activation"))
	b.act = act
	b.outNorm = m.LayerNorm("output_layer_norm", width)
	return b, err
}

func (b *distilBlock) forward(hidden, mask *eager.Tensor) *eager.Tensor {
	c := b.Enter(hidden, mask)
	attended, weights := b.attend(hidden, mask)
	c.Let(attended)
	c.Let(weights)
	c.Set(&attended, b.attnNorm.Forward(attended.Add(hidden)))
	out := c.Let(b.feedForward(attended))
	c.Set(&out, b.outNorm.Forward(out.Add(attended)))
	return c.Return(out)
}

func (b *distilBlock) attend(hidden, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := b.attn.Enter(hidden, mask)
	out, weights = b.heads.forward(c, hidden, mask)
	c.Set(&out, b.out.Forward(out))
	c.ReturnAll(out, weights)
	return out, weights
}

// feedForward is FFN.forward.
func (b *distilBlock) feedForward(x *eager.Tensor) *eager.Tensor {
	c := b.ffn.Enter(x)
	x = c.Let(b.lin1.Forward(x))
	c.Set(&x, b.act(x))
	c.Set(&x, b.lin2.Forward(x))
	c.Set(&x, b.drop.Forward(x))
	return c.Return(x)
}
