package families

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// What BART and Whisper share: labels shifted right, attention over another sequence, layers with or without it.

// needTarget refuses a task without the length of its labels.
func needTarget(c *hfconfig.Config, s Spec, task string) error {
	if s.Task != task {
		return wrongTask(c, s, task)
	}
	if s.TargetSeq < 1 {
		return fmt.Errorf("task %s needs the length of a target: set --target-seq (\"target_seq\" in a job file), the number of tokens in one target, for example --target-seq 128", task)
	}
	return nil
}

// shiftRight is shift_tokens_right: the decoder's input from the labels.
func shiftRight(labels *eager.Tensor) *eager.Tensor {
	p := labels.Process()
	c := p.Function(labels)
	batch, seq := labels.Dim(0), labels.Dim(1)
	shifted := c.Let(p.Empty("decoder_input_ids", tensor.Int64, batch, seq))
	p.Empty("aten::clone", tensor.Int64, batch, seq-1).Drop()
	p.Empty("aten::eq", tensor.Bool, batch, seq).Drop()
	return c.Return(shifted)
}

// targetLoss is CrossEntropyLoss over all tokens of the target, in the type of the logits.
func targetLoss(logits, labels *eager.Tensor) *eager.Tensor {
	return eager.CrossEntropy(logits.View(-1, logits.Dim(-1)), labels.View(-1))
}

// crossAttention is BartAttention and WhisperAttention: keys and values of the sequence itself or of another one.
type crossAttention struct {
	*eager.Module
	k, v, q, out *eager.LinearModule
	head         int
	impl         attention
	whisper      bool // scales the queries itself and makes all three contiguous
}

func newCrossAttention(m *eager.Module, c *hfconfig.Config, s Spec, heads string, causal bool) *crossAttention {
	width := c.Int("d_model")
	a := &crossAttention{Module: m, head: width / max(c.Int(heads), 1), whisper: c.Family.Code == "Whisper"}
	a.k = m.Linear("k_proj", width, width, !a.whisper)
	a.v = m.Linear("v_proj", width, width, true)
	a.q = m.Linear("q_proj", width, width, true)
	a.out = m.Linear("out_proj", width, width, true)
	a.impl = attention{impl: s.Attn, dropout: c.Float("attention_dropout"), causal: causal, plain: true}
	return a
}

// forward attends from hidden to source; nil is hidden itself.
func (a *crossAttention) forward(hidden, source, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := a.Enter(hidden, source, mask)
	batch := hidden.Dim(0)
	if source == nil {
		source = hidden
	}
	split := func(x *eager.Tensor) *eager.Tensor {
		x = x.View(batch, -1, x.Dim(2)/a.head, a.head).Transpose(1, 2)
		if a.whisper {
			x = x.Contiguous()
		}
		return c.Let(x)
	}
	q := a.q.Forward(hidden)
	if a.whisper {
		q = q.MulScalar()
	}
	q = split(q)
	k := split(a.k.Forward(source))
	v := split(a.v.Forward(source))
	out, weights = a.impl.forward(q, k, v, mask)
	return projectHeads(c, a.out, out, weights)
}

// seqLayer is BartEncoderLayer, BartDecoderLayer and Whisper's two. BART normalises sums, Whisper what goes into a block.
type seqLayer struct {
	*eager.Module
	self, cross                    *crossAttention // cross is nil in encoders
	selfNorm, crossNorm, finalNorm *eager.LayerNormModule
	fc1, fc2                       *eager.LinearModule
	act                            func(*eager.Tensor) *eager.Tensor
	dropout, actDropout            float64
	before                         bool
}

func newSeqLayer(m *eager.Module, c *hfconfig.Config, s Spec, side string) (*seqLayer, error) {
	width, inner, heads := c.Int("d_model"), c.Int(side+"_ffn_dim"), side+"_attention_heads"
	l := &seqLayer{Module: m, dropout: c.Float("dropout"), actDropout: c.Float("activation_dropout"), before: c.Family.Code == "Whisper"}
	l.self = newCrossAttention(m.Child("self_attn"), c, s, heads, side == "decoder")
	l.selfNorm = m.LayerNorm("self_attn_layer_norm", width)
	if side == "decoder" {
		l.cross = newCrossAttention(m.Child("encoder_attn"), c, s, heads, false)
		l.crossNorm = m.LayerNorm("encoder_attn_layer_norm", width)
	}
	act, err := activation(m, c.String("activation_function"))
	l.act = act
	l.fc1 = m.Linear("fc1", width, inner, true)
	l.fc2 = m.Linear("fc2", inner, width, true)
	l.finalNorm = m.LayerNorm("final_layer_norm", width)
	return l, err
}

// streams are what a layer is given: the hidden states, the sequence it looks across to, and a mask for each; what there is none of is nil.
type streams struct{ hidden, mask, source, across *eager.Tensor }

func (l *seqLayer) forward(in streams) *eager.Tensor {
	c := l.Enter(in.hidden, in.mask, in.source, in.across)
	hidden := c.Let(in.hidden)
	var weights *eager.Tensor
	block := func(norm *eager.LayerNormModule, run func() *eager.Tensor) {
		residual := c.Let(hidden)
		if l.before {
			c.Set(&hidden, norm.Forward(hidden))
		}
		c.Set(&hidden, run())
		c.Set(&hidden, hidden.Dropout(l.dropout))
		c.Set(&hidden, residual.Add(hidden))
		if !l.before {
			c.Set(&hidden, norm.Forward(hidden))
		}
		c.Del(&residual)
	}
	attend := func(a *crossAttention, source, mask *eager.Tensor) func() *eager.Tensor {
		return func() *eager.Tensor {
			out, w := a.forward(hidden, source, mask)
			c.Set(&weights, w)
			return out
		}
	}
	block(l.selfNorm, attend(l.self, nil, in.mask))
	if l.cross != nil {
		block(l.crossNorm, attend(l.cross, in.source, in.across))
	}
	block(l.finalNorm, func() *eager.Tensor {
		c.Set(&hidden, l.act(l.fc1.Forward(hidden)))
		c.Set(&hidden, hidden.Dropout(l.actDropout))
		return l.fc2.Forward(hidden)
	})
	if l.cross == nil && hidden.DType == tensor.Float16 {
		c.Set(&hidden, l.bounded(hidden))
	}
	return c.Return(hidden)
}

// bounded keeps an encoder's fp16 values finite: Whisper clamps, BART looks first (isfinite: equal to itself and of finite size).
func (l *seqLayer) bounded(x *eager.Tensor) *eager.Tensor {
	if l.before {
		return x.Clamp()
	}
	p := l.Process()
	equal := p.Empty("aten::isfinite", tensor.Bool, x.Sizes...)
	p.Empty("aten::isfinite", x.DType, x.Sizes...).Drop()
	p.Empty("aten::isfinite", tensor.Bool, x.Sizes...).Drop()
	equal.Drop()
	return x
}

// seqLayers registers the layers of one side.
func seqLayers(m *eager.Module, c *hfconfig.Config, s Spec, side string) ([]*seqLayer, error) {
	var out []*seqLayer
	list := m.Child("layers")
	for i := range c.Int(side + "_layers") {
		l, err := newSeqLayer(list.Item(i), c, s, side)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// runLayers passes the hidden states, which have a name in the call, through all layers.
func runLayers(c *eager.Call, s Spec, layers []*seqLayer, in streams) *eager.Tensor {
	for _, l := range layers {
		now := in
		run := func() *eager.Tensor { return l.forward(now) }
		c.Set(&in.hidden, layer(c.Process(), s.Checkpointing, run, now.hidden, now.mask, now.source, now.across))
	}
	return in.hidden
}
