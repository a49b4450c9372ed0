package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// What text encoders share: a body, a head for the task, cross entropy on its logits.

// encoder is a text encoder with a head.
type encoder struct {
	root    *eager.Module
	spec    Spec
	classes int // columns of the logits: the vocabulary or the labels
	body    encoderBody
	head    func(sequence, pooled *eager.Tensor) *eager.Tensor
}

// encoderBody is the model below the head: the last hidden states, and the pooled ones where it has a pooler.
type encoderBody interface {
	forward(ids *eager.Tensor) (sequence, pooled *eager.Tensor)
	words() *eager.Tensor // the word embeddings, for tied heads
}

// encoderTasks are the tasks every encoder here has a head for.
var encoderTasks = []string{"masked-lm", "seq-cls", "token-cls"}

func (m *encoder) Root() *eager.Module { return m.root }

// Batch allocates ids and labels: one label for a text, one for each token, or the ids themselves for masked-lm.
func (m *encoder) Batch() []*eager.Tensor {
	p, s := m.root.Process(), m.spec
	if s.Task != "masked-lm" {
		return classifierBatch(p, s, m.classes)
	}
	return tokenBatch(p, s)
}

// Forward is ForMaskedLM.forward, ForSequenceClassification.forward or ForTokenClassification.forward: the output of the body has
// a name while the loss is computed.
func (m *encoder) Forward(batch []*eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	ids, labels := batch[0], batch[1]
	c := m.root.Enter(ids, labels)
	sequence, pooled := m.body.forward(ids)
	c.Let(sequence)
	c.Let(pooled)
	logits := c.Let(m.head(sequence, pooled))
	loss := c.Let(m.loss(logits, labels))
	out := c.ReturnAll(loss, logits)
	return out[0], out[1:]
}

// loss is CrossEntropyLoss in the type of the logits, or MSELoss for a single label.
func (m *encoder) loss(logits, labels *eager.Tensor) *eager.Tensor {
	if m.spec.Task == "seq-cls" {
		return classifierLoss(logits, labels, m.classes)
	}
	c := m.root.Process().Function(logits, labels)
	rows := c.Let(logits.View(-1, m.classes))
	return c.Return(eager.CrossEntropy(rows, labels.View(-1)))
}

// firstToken is hidden_states[:, 0]; its gradient is full size.
func firstToken(x *eager.Tensor) *eager.Tensor { return x.Select(1, 0) }

// classifierDropout is classifier_dropout where it is set, else hidden_dropout_prob.
func classifierDropout(c *hfconfig.Config) float64 {
	if c.Null("classifier_dropout") {
		return c.Float("hidden_dropout_prob")
	}
	return c.Float("classifier_dropout")
}

// tokenClassifier is dropout and a linear layer, on every token or on the pooled text.
func tokenClassifier(root *eager.Module, width, labels int, prob float64) func(x *eager.Tensor) *eager.Tensor {
	drop := root.Dropout("dropout", prob)
	out := root.Linear("classifier", width, labels, true)
	return func(x *eager.Tensor) *eager.Tensor {
		c := root.Process().Function(x)
		c.Set(&x, drop.Forward(x))
		return c.Return(out.Forward(x))
	}
}

// textClassifier is RobertaClassificationHead and ElectraClassificationHead: dropout, dense, activation, dropout, projection of the
// first token.
type textClassifier struct {
	*eager.Module
	dense, out *eager.LinearModule
	drop       *eager.DropoutModule
	act        func(*eager.Tensor) *eager.Tensor
}

func newTextClassifier(root *eager.Module, width, labels int, prob float64, act func(*eager.Tensor) *eager.Tensor) *textClassifier {
	m := root.Child("classifier")
	h := &textClassifier{Module: m, dense: m.Linear("dense", width, width, true), act: act}
	h.drop = m.Dropout("dropout", prob)
	h.out = m.Linear("out_proj", width, labels, true)
	return h
}

func (h *textClassifier) forward(features *eager.Tensor) *eager.Tensor {
	c := h.Enter(features)
	x := c.Let(firstToken(features))
	c.Set(&x, h.drop.Forward(x))
	c.Set(&x, h.dense.Forward(x))
	c.Set(&x, h.act(x))
	c.Set(&x, h.drop.Forward(x))
	c.Set(&x, h.out.Forward(x))
	return c.Return(x)
}

// maskedHead is BertLMPredictionHead and its kin: dense, activation, norm, then the (tied) word embeddings with a bias.
type maskedHead struct {
	*eager.Module
	dense, decoder *eager.LinearModule
	norm           *eager.LayerNormModule
	act            func(*eager.Tensor) *eager.Tensor
}

func (h *maskedHead) forward(x *eager.Tensor) *eager.Tensor {
	c := h.Enter(x)
	x = c.Let(h.dense.Forward(x))
	c.Set(&x, h.act(x))
	c.Set(&x, h.norm.Forward(x))
	c.Set(&x, h.decoder.Forward(x))
	return c.Return(x)
}

// onSequence makes a head that reads all hidden states, onPooled one that reads the pooler's output.
func onSequence(f func(*eager.Tensor) *eager.Tensor) func(sequence, pooled *eager.Tensor) *eager.Tensor {
	return func(sequence, _ *eager.Tensor) *eager.Tensor { return f(sequence) }
}

func onPooled(f func(*eager.Tensor) *eager.Tensor) func(sequence, pooled *eager.Tensor) *eager.Tensor {
	return func(_, pooled *eager.Tensor) *eager.Tensor { return f(pooled) }
}

// pooler is BertPooler: dense and tanh on the first token.
type pooler struct {
	*eager.Module
	dense *eager.LinearModule
}

func newPooler(m *eager.Module, width int) *pooler {
	c := m.Child("pooler")
	return &pooler{c, c.Linear("dense", width, width, true)}
}

func (l *pooler) forward(hidden *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden)
	first := c.Let(firstToken(hidden))
	out := c.Let(l.dense.Forward(first))
	c.Set(&out, out.Tanh())
	return c.Return(out)
}

// headAttention is the attention of encoders: three projections, [batch, seq, width] in and out.
type headAttention struct {
	q, k, v *eager.LinearModule
	head    int
	impl    attention

	queryLast bool // keys and values are projected before the queries
}

func newHeadAttention(m *eager.Module, names [3]string, width, heads int, s Spec, dropout float64) headAttention {
	return newHeadAttentionBias(m, names, width, heads, s, dropout, [3]bool{true, true, true})
}

// newHeadAttentionBias may leave the bias of some projections out.
func newHeadAttentionBias(m *eager.Module, names [3]string, width, heads int, s Spec, dropout float64, bias [3]bool) headAttention {
	a := headAttention{head: width / max(heads, 1), impl: attention{impl: s.Attn, dropout: dropout, plain: true}}
	a.q = m.Linear(names[0], width, heads*a.head, bias[0])
	a.k = m.Linear(names[1], width, heads*a.head, bias[1])
	a.v = m.Linear(names[2], width, heads*a.head, bias[2])
	return a
}

// forward runs inside the call of the module that owns the projections, with a mask or a bias on the scores, or none.
func (a headAttention) forward(c *eager.Call, hidden, mask *eager.Tensor) (out, weights *eager.Tensor) {
	batch, seq := hidden.Dim(0), hidden.Dim(1)
	split := func(l *eager.LinearModule) *eager.Tensor {
		return c.Let(l.Forward(hidden).View(batch, seq, -1, a.head).Transpose(1, 2))
	}
	var q *eager.Tensor
	if !a.queryLast {
		q = split(a.q)
	}
	k := split(a.k)
	v := split(a.v)
	if a.queryLast {
		q = split(a.q)
	}
	out, weights = a.impl.forward(q, k, v, mask)
	c.Let(out)
	c.Let(weights)
	c.Set(&out, out.Reshape(batch, seq, -1).Contiguous())
	return out, weights
}
