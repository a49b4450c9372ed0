package families

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// newAlbert builds ALBERT with a head (transformers 5.17, modeling_albert.py).
func newAlbert(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if s.Checkpointing {
		return nil, errors.New("albert does not support gradient checkpointing: gradient_checkpointing_enable() raises; leave checkpointing out")
	}
	root := eager.NewModel(p, s.DType)
	m := &encoder{root: root, spec: s, classes: c.Labels()}
	hidden := c.Int("hidden_size")
	body, err := newAlbertBody(root.Child(c.Family.Prefix), c, s, s.Task == "seq-cls")
	if err != nil {
		return nil, err
	}
	m.body = body
	dropout := c.Float("hidden_dropout_prob")
	if !c.Null("classifier_dropout_prob") {
		dropout = c.Float("classifier_dropout_prob")
	}
	switch s.Task {
	case "masked-lm":
		m.classes = c.Int("vocab_size")
		head, err := newAlbertMaskedHead(root.Child("predictions"), c, body.words())
		m.head = head
		return m, err
	case "seq-cls":
		m.head = onPooled(tokenClassifier(root, hidden, c.Labels(), dropout))
		return m, nil
	case "token-cls":
		m.head = onSequence(tokenClassifier(root, hidden, c.Labels(), dropout))
		return m, nil
	}
	return nil, wrongTask(c, s, encoderTasks...)
}

// newAlbertMaskedHead is AlbertMLMHead.
func newAlbertMaskedHead(m *eager.Module, c *hfconfig.Config, words *eager.Tensor) (func(_, _ *eager.Tensor) *eager.Tensor, error) {
	width, vocab := c.Int("embedding_size"), c.Int("vocab_size")
	h := &maskedHead{Module: m, norm: m.LayerNorm("LayerNorm", width)}
	bias := m.Param("bias", vocab)
	h.dense = m.Linear("dense", c.Int("hidden_size"), width, true)
	h.decoder = m.Linear("decoder", width, vocab, true)
	if c.Bool("tie_word_embeddings") {
		h.decoder.Tie(words)
		h.decoder.TieBias(bias)
	}
	act, err := activation(m, c.String("hidden_act"))
	h.act = act
	return onSequence(h.forward), err
}

// albertBody is AlbertModel: its layers share the parameters of a few groups.
type albertBody struct {
	*eager.Module
	spec    Spec
	embed   *bertEmbeddings
	encoder *eager.Module
	mapping *eager.LinearModule
	groups  []*albertGroup
	count   int // layers
	pool    *eager.LinearModule
}

// albertGroup is AlbertLayerGroup.
type albertGroup struct {
	*eager.Module
	layers []*albertLayer
}

func newAlbertBody(m *eager.Module, c *hfconfig.Config, s Spec, pooled bool) (*albertBody, error) {
	hidden := c.Int("hidden_size")
	b := &albertBody{Module: m, spec: s, count: c.Int("num_hidden_layers")}
	b.embed = newBertEmbeddings(m.Child("embeddings"), c, c.Int("embedding_size"))
	b.encoder = m.Child("encoder")
	b.mapping = b.encoder.Linear("embedding_hidden_mapping_in", c.Int("embedding_size"), hidden, true)
	list := b.encoder.Child("albert_layer_groups")
	for i := range c.Int("num_hidden_groups") {
		g := &albertGroup{Module: list.Item(i)}
		inner := g.Child("albert_layers")
		for k := range c.Int("inner_group_num") {
			l, err := newAlbertLayer(inner.Item(k), c, s)
			if err != nil {
				return nil, err
			}
			g.layers = append(g.layers, l)
		}
		b.groups = append(b.groups, g)
	}
	if len(b.groups) == 0 {
		return nil, errors.New("albert without hidden groups")
	}
	if pooled {
		b.pool = m.Linear("pooler", hidden, hidden, true)
	}
	return b, nil
}

func (b *albertBody) words() *eager.Tensor { return b.embed.word.Weight }

func (b *albertBody) forward(ids *eager.Tensor) (sequence, pooled *eager.Tensor) {
	c := b.Enter(ids)
	embeds := c.Let(b.embed.forward(ids))
	mask := c.Let(bidirectionalMask(b.spec, b.Process(), embeds.DType, b.spec.Seq))
	sequence = c.Let(b.encode(embeds, mask))
	if b.pool != nil {
		pooled = c.Let(b.pool.Forward(firstToken(sequence)).Tanh())
	}
	c.ReturnAll(sequence, pooled)
	return sequence, pooled
}

// encode is AlbertTransformer.forward.
func (b *albertBody) encode(embeds, mask *eager.Tensor) *eager.Tensor {
	c := b.encoder.Enter(embeds, mask)
	hidden := c.Let(b.mapping.Forward(embeds))
	for i := range b.count {
		group := b.groups[i*len(b.groups)/b.count]
		c.Set(&hidden, group.forward(hidden, mask))
	}
	return c.Return(hidden)
}

func (g *albertGroup) forward(hidden, mask *eager.Tensor) *eager.Tensor {
	c := g.Enter(hidden, mask)
	hidden = c.Let(hidden)
	for _, l := range g.layers {
		c.Set(&hidden, l.forward(hidden, mask))
	}
	return c.Return(hidden)
}

// albertLayer is AlbertLayer with its AlbertAttention.
type albertLayer struct {
	*eager.Module
	full    *eager.LayerNormModule
	attn    *eager.Module
	heads   headAttention
	dense   *eager.LinearModule
	norm    *eager.LayerNormModule
	drop    *eager.DropoutModule
	up, out *eager.LinearModule
	act     func(*eager.Tensor) *eager.Tensor
}

func newAlbertLayer(m *eager.Module, c *hfconfig.Config, s Spec) (*albertLayer, error) {
	hidden, inner := c.Int("hidden_size"), c.Int("intermediate_size")
	l := &albertLayer{Module: m, full: m.LayerNorm("full_layer_layer_norm", hidden), attn: m.Child("attention")}
	l.drop = l.attn.Dropout("output_dropout", c.Float("hidden_dropout_prob"))
	names := [3]string{"query", "key", "value"}
	l.heads = newHeadAttention(l.attn, names, hidden, c.Int("num_attention_heads"), s, c.Float("attention_probs_dropout_prob"))
	l.dense = l.attn.Linear("dense", hidden, hidden, true)
	l.norm = l.attn.LayerNorm("LayerNorm", hidden)
	l.up = m.Linear("ffn", hidden, inner, true)
	l.out = m.Linear("ffn_output", inner, hidden, true)
	act, err := activation(m, c.String("hidden_act"))
	l.act = act
	return l, err
}

func (l *albertLayer) forward(hidden, mask *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden, mask)
	attended, weights := l.attend(hidden, mask)
	c.Let(attended)
	c.Let(weights)
	out := c.Let(l.feedForward(attended))
	hidden = c.Let(l.full.Forward(out.Add(attended)))
	return c.Return(hidden)
}

func (l *albertLayer) attend(hidden, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := l.attn.Enter(hidden, mask)
	out, weights = l.heads.forward(c, hidden, mask)
	c.Set(&out, l.dense.Forward(out))
	c.Set(&out, l.drop.Forward(out))
	c.Set(&out, l.norm.Forward(hidden.Add(out)))
	c.ReturnAll(out, weights)
	return out, weights
}

// feedForward is ff_chunk.
func (l *albertLayer) feedForward(attended *eager.Tensor) *eager.Tensor {
	c := l.Process().Function(attended)
	x := c.Let(l.up.Forward(attended))
	c.Set(&x, l.act(x))
	c.Set(&x, l.out.Forward(x))
	return c.Return(x)
}
