package families

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// debertaLayer is DebertaV2Layer.
type debertaLayer struct {
	*eager.Module
	attn         *eager.Module
	self         *debertaAttention
	attnOut      *bertOutput
	intermediate *eager.Module
	up           *eager.LinearModule
	act          func(*eager.Tensor) *eager.Tensor
	out          *bertOutput
}

func newDebertaLayer(m *eager.Module, c *hfconfig.Config) (*debertaLayer, error) {
	hidden, inner, prob := c.Int("hidden_size"), c.Int("intermediate_size"), c.Float("hidden_dropout_prob")
	l := &debertaLayer{Module: m, attn: m.Child("attention")}
	l.self = newDebertaAttention(l.attn.Child("self"), c)
	l.attnOut = newBertOutput(l.attn.Child("output"), hidden, hidden, prob)
	l.intermediate = m.Child("intermediate")
	l.up = l.intermediate.Linear("dense", hidden, inner, true)
	act, err := activation(l.intermediate, c.String("hidden_act"))
	l.act = act
	l.out = newBertOutput(m.Child("output"), inner, hidden, prob)
	return l, err
}

func (l *debertaLayer) forward(hidden, mask, relative, places *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden, mask, relative, places)
	attended := c.Let(l.attend(hidden, mask, relative, places))
	wide := c.Let(l.widen(attended))
	out := c.Let(l.out.forward(wide, attended))
	return c.Return(out)
}

func (l *debertaLayer) attend(hidden, mask, relative, places *eager.Tensor) *eager.Tensor {
	c := l.attn.Enter(hidden, mask, relative, places)
	self := c.Let(l.self.forward(hidden, mask, relative, places))
	out := c.Let(l.attnOut.forward(self, hidden))
	return c.Return(out)
}

func (l *debertaLayer) widen(x *eager.Tensor) *eager.Tensor {
	c := l.intermediate.Enter(x)
	x = c.Let(l.up.Forward(x))
	c.Set(&x, l.act(x))
	return c.Return(x)
}

// debertaAttention is DisentangledSelfAttention: scores of contents, of contents with places, of places with contents.
type debertaAttention struct {
	*eager.Module
	q, k, v            *eager.LinearModule
	posKey, posQuery   *eager.LinearModule // q and k themselves where share_att_key
	relative, shared   bool
	toPlace, fromPlace bool // c2p, p2c
	heads, width       int
	posDrop, drop      *eager.DropoutModule
}

func newDebertaAttention(m *eager.Module, c *hfconfig.Config) *debertaAttention {
	hidden, types := c.Int("hidden_size"), c.Strings("pos_att_type")
	a := &debertaAttention{Module: m, heads: c.Int("num_attention_heads"), relative: c.Bool("relative_attention"),
		shared: c.Bool("share_att_key"), toPlace: slices.Contains(types, "c2p"), fromPlace: slices.Contains(types, "p2c")}
	a.width = a.heads * c.Int("attention_head_size")
	a.q = m.Linear("query_proj", hidden, a.width, true)
	a.k = m.Linear("key_proj", hidden, a.width, true)
	a.v = m.Linear("value_proj", hidden, a.width, true)
	if a.relative {
		a.posDrop = m.Dropout("pos_dropout", c.Float("hidden_dropout_prob"))
		a.posKey, a.posQuery = a.k, a.q
		if !a.shared && a.toPlace {
			a.posKey = m.Linear("pos_key_proj", hidden, a.width, true)
		}
		if !a.shared && a.fromPlace {
			a.posQuery = m.Linear("pos_query_proj", hidden, a.width, true)
		}
	}
	a.drop = m.Dropout("dropout", c.Float("attention_probs_dropout_prob"))
	return a
}

// byHead is transpose_for_scores: a copy [batch * heads, seq, dim].
func (a *debertaAttention) byHead(x *eager.Tensor) *eager.Tensor {
	c := a.Process().Function(x)
	seq := x.Dim(1)
	c.Set(&x, x.View(x.Dim(0), seq, a.heads, -1))
	dim := x.Dim(-1)
	return c.Return(x.Permute(0, 2, 1, 3).Contiguous().View(-1, seq, dim))
}

func (a *debertaAttention) forward(hidden, mask, relative, places *eager.Tensor) *eager.Tensor {
	c := a.Enter(hidden, mask, relative, places)
	batch, seq := hidden.Dim(0), hidden.Dim(1)
	q := c.Let(a.byHead(a.q.Forward(hidden)))
	k := c.Let(a.byHead(a.k.Forward(hidden)))
	v := c.Let(a.byHead(a.v.Forward(hidden)))
	scores := c.Let(eager.Bmm(q, k.Transpose(-1, -2).DivScalar()))
	if a.relative {
		places = c.Let(a.posDrop.Forward(places))
		if bias := a.bias(q, k, relative, places); bias != nil {
			c.Let(bias)
			c.Set(&scores, scores.Add(bias))
		}
	}
	c.Set(&scores, scores.View(-1, a.heads, seq, seq))
	allowed := c.Let(mask.To(tensor.Bool))
	c.Set(&scores, scores.MaskedFill(allowed.Compare("aten::bitwise_not", nil)))
	probs := c.Let(scores.Softmax(-1))
	c.Set(&probs, a.drop.Forward(probs))
	context := c.Let(eager.Bmm(probs.View(-1, seq, seq), v))
	c.Set(&context, context.View(-1, a.heads, seq, context.Dim(-1)).Permute(0, 2, 1, 3).Contiguous())
	c.Set(&context, context.View(batch, seq, -1))
	return c.Return(context)
}

// bias is disentangled_attention_bias. gather keeps the scores of all distances beside the ones it takes.
func (a *debertaAttention) bias(q, k, relative, places *eager.Tensor) *eager.Tensor {
	c := a.Process().Function(q, k, relative, places)
	batch := q.Dim(0) / a.heads
	c.Set(&relative, relative.Unsqueeze(1))
	c.Set(&places, places.Slice(0, 0, places.Dim(0)).Unsqueeze(0))
	project := func(l *eager.LinearModule) *eager.Tensor {
		return c.Let(a.byHead(l.Forward(places)).Repeat(batch, 1, 1))
	}
	var posQuery, posKey *eager.Tensor
	if a.shared {
		posQuery = project(a.posQuery)
		posKey = project(a.posKey)
	} else {
		if a.toPlace {
			posKey = project(a.posKey)
		}
		if a.fromPlace {
			posQuery = project(a.posQuery)
		}
	}
	var score *eager.Tensor
	if a.toPlace {
		score = c.Let(a.distances(c, q, posKey, relative).DivScalar().AddScalar())
	}
	if a.fromPlace {
		part := c.Let(a.distances(c, k, posQuery, relative).Transpose(-1, -2))
		if score == nil {
			score = c.Let(part.DivScalar().AddScalar())
		} else {
			score.AddInPlace(part.DivScalar())
		}
	}
	return c.Return(score)
}

// distances are the scores of contents with places, gathered by relative position; the index has a name.
func (a *debertaAttention) distances(c *eager.Call, x, places, relative *eager.Tensor) *eager.Tensor {
	index := c.Let(relative.AddScalar().Clamp())
	scores := eager.Bmm(x, places.Transpose(-1, -2))
	seq := x.Dim(1)
	return c.Let(scores.Gather(index.Squeeze(0).Expand(x.Dim(0), seq, seq)))
}
