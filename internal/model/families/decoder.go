package families

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// decoder is a causal model under one of its heads. Families embed it, register their body and call addHead last.
type decoder struct {
	root   *eager.Module
	spec   Spec
	labels int
	body   func(ids *eager.Tensor) *eager.Tensor    // the last hidden states
	head   *eager.Tensor                            // weights of lm_head
	logits func(hidden *eager.Tensor) *eager.Tensor // the head on all positions
}

// newDecoder starts a model for a task.
func newDecoder(p *eager.Process, c *hfconfig.Config, s Spec) *decoder {
	return &decoder{root: eager.NewModel(p, s.DType), spec: s, labels: c.Labels()}
}

// decoderTasks are the tasks of a family: some have no head for tokens.
func decoderTasks(c *hfconfig.Config) []string {
	if c.Family.TokenHead == "" {
		return []string{"causal-lm", "seq-cls"}
	}
	return []string{"causal-lm", "seq-cls", "token-cls"}
}

// addHead registers lm_head (tied to the words), score or a classifier of tokens.
func (d *decoder) addHead(c *hfconfig.Config, width int, words *eager.Tensor, body func(*eager.Tensor) *eager.Tensor) error {
	d.body = body
	switch {
	case d.spec.Task == "causal-lm":
		head := d.root.Linear("lm_head", width, c.Int("vocab_size"), false)
		if c.Bool("tie_word_embeddings") {
			head.Tie(words)
		}
		d.logits = head.Forward
		d.head = head.Weight
	case d.spec.Task == "seq-cls" && c.Null("pad_token_id") && d.spec.Batch != 1:
		return errors.New("a decoder classifies batches of more than one text only with a pad_token_id; set it in the configuration")
	case d.spec.Task == "seq-cls":
		d.logits = d.root.Linear("score", width, c.Labels(), false).Forward
	case d.spec.Task == "token-cls" && c.Family.TokenHead != "":
		d.logits = d.tokenHead(c, width)
	default:
		return wrongTask(c, d.spec, decoderTasks(c)...)
	}
	return nil
}

// tokenHead is dropout and a linear layer: GenericForTokenClassification calls it score, the older families classifier.
func (d *decoder) tokenHead(c *hfconfig.Config, width int) func(*eager.Tensor) *eager.Tensor {
	prob := 0.1
	for _, name := range []string{"hidden_dropout", "classifier_dropout"} {
		if c.Has(name) && !c.Null(name) {
			prob = c.Float(name)
		}
	}
	drop := d.root.Dropout("dropout", prob)
	out := d.root.Linear(c.Family.TokenHead, width, c.Labels(), true)
	return func(x *eager.Tensor) *eager.Tensor {
		call := d.root.Process().Function(x)
		call.Set(&x, drop.Forward(x))
		return call.Return(out.Forward(x))
	}
}

// Root is the module tree.
func (d *decoder) Root() *eager.Module { return d.root }

// Batch allocates ids and labels; for causal-lm the labels are the ids themselves.
func (d *decoder) Batch() []*eager.Tensor {
	p, s := d.root.Process(), d.spec
	if s.Task == "causal-lm" {
		return tokenBatch(p, s)
	}
	return classifierBatch(p, s, d.labels)
}

// tokenBatch allocates ids that are their own labels, or, where padding is told from tokens, labels apart from them and the mask.
func tokenBatch(p *eager.Process, s Spec) []*eager.Tensor {
	ids := p.Input("input_ids", tensor.Int64, s.Batch, s.Seq)
	if s.Mask == NoMask {
		return []*eager.Tensor{ids, ids}
	}
	return withMask(p, s, []*eager.Tensor{ids, p.Input("labels", tensor.Int64, s.Batch, s.Seq)})
}

// withMask adds the attention_mask of a tokenizer to a batch.
func withMask(p *eager.Process, s Spec, batch []*eager.Tensor) []*eager.Tensor {
	if s.Mask == NoMask {
		return batch
	}
	return append(batch, p.Input("attention_mask", tensor.Int64, s.Batch, s.Seq))
}

// Forward is ForCausalLM.forward, ForSequenceClassification.forward or ForTokenClassification.forward. The output object keeps the logits.
func (d *decoder) Forward(batch []*eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	ids, labels := batch[0], batch[1]
	c := d.root.Enter(ids, labels)
	d.spec.cache.begin(c)
	hidden := c.Let(d.body(ids))
	if d.spec.Code == setup.TRL {
		out := c.ReturnAll(d.fused(hidden, labels))
		return out[0], nil
	}
	if d.spec.Loss != "" {
		out := c.ReturnAll(append([]*eager.Tensor{d.fusedLoss(hidden, labels)}, d.spec.cache.held()...)...)
		return out[0], out[1:]
	}
	logits := c.Let(d.logits(hidden))
	var loss *eager.Tensor
	switch d.spec.Task {
	case "causal-lm":
		loss = c.Let(eager.CausalLMLoss(logits, labels))
	case "seq-cls":
		logits = c.Let(d.lastToken(logits))
		loss = c.Let(classifierLoss(logits, labels, d.labels))
	default:
		loss = c.Let(labelLoss(logits, labels, d.labels))
	}
	out := c.ReturnAll(append([]*eager.Tensor{loss, logits}, d.spec.cache.held()...)...)
	return out[0], out[1:]
}

// fuses tells whether the head is a product that a fused loss computes itself.
func (d *decoder) fuses() bool { return d.head != nil }

// fusedLoss computes the loss from the last hidden states, without logits of all positions. Labels are padded and shifted as they are for the usual loss.
func (d *decoder) fusedLoss(hidden, labels *eager.Tensor) *eager.Tensor {
	c := d.root.Process().Function(hidden, labels)
	c.Set(&labels, labels.Pad(0, 1))
	shift := c.Let(labels.Slice(-1, 1, labels.Dim(-1)).Contiguous().View(-1))
	rows := c.Let(hidden.View(-1, hidden.Dim(-1)))
	if d.spec.Loss == "liger" {
		return c.Return(eager.FusedLinearCrossEntropy(rows, d.head, shift))
	}
	return c.Return(eager.ChunkedCrossEntropy(rows, d.head, shift, 8))
}

// lastToken is logits[arange(batch), last_non_pad_token]: the gradient has the size of all logits.
func (d *decoder) lastToken(logits *eager.Tensor) *eager.Tensor {
	p := d.root.Process()
	c := p.Function(logits)
	flat := c.Let(logits.View(-1, logits.Dim(-1)))
	return c.Return(flat.Index(0, p.Empty("aten::argmax", tensor.Int64, logits.Dim(0))))
}

// classifierBatch allocates ids with a label for a text or for each token. A single class is a number to be regressed.
func classifierBatch(p *eager.Process, s Spec, labels int) []*eager.Tensor {
	ids := p.Input("input_ids", tensor.Int64, s.Batch, s.Seq)
	var label *eager.Tensor
	switch {
	case s.Task == "token-cls":
		label = p.Input("labels", tensor.Int64, s.Batch, s.Seq)
	case labels == 1:
		label = p.Input("labels", tensor.Float32, s.Batch)
	default:
		label = p.Input("labels", tensor.Int64, s.Batch)
	}
	return withMask(p, s, []*eager.Tensor{ids, label})
}

// classifierLoss is cross entropy, or MSELoss for a single class (problem_type regression).
func classifierLoss(logits, labels *eager.Tensor, classes int) *eager.Tensor {
	c := logits.Process().Function(logits, labels)
	if classes == 1 {
		return c.Return(eager.MSELoss(logits.Squeeze(-1), labels))
	}
	rows := c.Let(logits.View(-1, classes))
	return c.Return(eager.CrossEntropy(rows, labels.View(-1)))
}

// labelLoss is ForTokenClassification of loss/loss_utils.py: rows in fp32.
func labelLoss(logits, labels *eager.Tensor, classes int) *eager.Tensor {
	c := logits.Process().Function(logits, labels)
	c.Set(&logits, logits.View(-1, classes))
	c.Set(&labels, labels.View(-1))
	c.Set(&logits, logits.Float())
	return c.Return(eager.CrossEntropy(logits, labels))
}

// fused is the forward that TRL's SFTTrainer gives the model, and its loss: hidden states of all positions but the last, no logits
// (https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/utils.py, add_fused_lm_head; sft_trainer.py, compute_loss). Labels are taken to be given everywhere.
func (d *decoder) fused(hidden, labels *eager.Tensor) *eager.Tensor {
	p := d.root.Process()
	c := p.Function(hidden, labels)
	last := hidden.Dim(1) - 1
	states := c.Let(hidden.Slice(1, 0, last))
	shifted := c.Let(labels.Slice(1, 1, last+1))
	mask := c.Let(p.Empty("aten::ne", tensor.Bool, shifted.Sizes...))
	rows := states.Rows()
	targets := p.Empty("aten::index", tensor.Int64, shifted.Numel())
	probs := c.Let(eager.FusedLogProbs(rows, d.head, targets))
	placed := c.Let(probs.View(mask.Sizes...).Clone())
	return c.Return(placed.Neg().Sum(false, 0, 1).DivScalar())
}
