package families

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// whisper is WhisperForConditionalGeneration (transformers 5.17, modeling_whisper.py) with use_cache off.
type whisper struct {
	root    *eager.Module
	model   *eager.Module
	spec    Spec
	bins    int
	frames  int
	encoder *whisperEncoder
	decoder *whisperDecoder
	head    *eager.LinearModule
}

func newWhisper(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if err := needTarget(c, s, "speech-seq2seq"); err != nil {
		return nil, err
	}
	root := eager.NewModel(p, s.DType)
	m := &whisper{root: root, model: root.Child("model"), spec: s, bins: c.Int("num_mel_bins"), frames: 2 * c.Int("max_source_positions")}
	if s.Frames != 0 && s.Frames != m.frames {
		return nil, fmt.Errorf("whisper takes spectrograms of %d frames (twice max_source_positions), not of %d", m.frames, s.Frames)
	}
	if c.Bool("apply_spec_augment") {
		return nil, fmt.Errorf("whisper with apply_spec_augment is not supported")
	}
	var err error
	if m.encoder, err = newWhisperEncoder(m.model.Child("encoder"), c, s); err != nil {
		return nil, err
	}
	if m.decoder, err = newWhisperDecoder(m.model.Child("decoder"), c, s); err != nil {
		return nil, err
	}
	m.head = root.Linear("proj_out", c.Int("d_model"), c.Int("vocab_size"), false)
	if c.Bool("tie_word_embeddings") {
		m.head.Tie(m.decoder.tokens.Weight)
	}
	return m, nil
}

func (m *whisper) Root() *eager.Module { return m.root }

// Batch allocates a spectrogram of thirty seconds and the labels.
func (m *whisper) Batch() []*eager.Tensor {
	p, s := m.root.Process(), m.spec
	features := p.Input("input_features", s.DType, s.Batch, m.bins, m.frames)
	return []*eager.Tensor{features, p.Input("labels", tensor.Int64, s.Batch, s.TargetSeq)}
}

// Forward keeps the logits and the encoder's last hidden states (Seq2SeqLMOutput).
func (m *whisper) Forward(batch []*eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	features, labels := batch[0], batch[1]
	c := m.root.Enter(features, labels)
	target := c.Let(shiftRight(labels))
	hidden, encoded := m.body(features, target)
	c.Let(hidden)
	c.Let(encoded)
	logits := c.Let(m.head.Forward(hidden))
	loss := c.Let(targetLoss(logits, labels))
	out := c.ReturnAll(loss, logits, encoded)
	return out[0], out[1:]
}

// body is WhisperModel.forward.
func (m *whisper) body(features, target *eager.Tensor) (hidden, encoded *eager.Tensor) {
	c := m.model.Enter(features, target)
	encoded = c.Let(m.encoder.forward(features))
	hidden = c.Let(m.decoder.forward(target, encoded))
	c.ReturnAll(hidden, encoded)
	return hidden, encoded
}

// whisperEncoder is WhisperEncoder. Its hidden states keep the memory order of the convolutions, channels before time, through all
// residual sums.
type whisperEncoder struct {
	*eager.Module
	spec         Spec
	conv1, conv2 *eager.ConvModule
	places       *eager.EmbeddingModule
	layers       []*seqLayer
	norm         *eager.LayerNormModule
	dropout      float64
}

func newWhisperEncoder(m *eager.Module, c *hfconfig.Config, s Spec) (*whisperEncoder, error) {
	width := c.Int("d_model")
	e := &whisperEncoder{Module: m, spec: s, dropout: c.Float("dropout")}
	one := eager.Conv{Window: eager.Window{Stride: []int{1}, Padding: []int{1}}}
	two := eager.Conv{Window: eager.Window{Stride: []int{2}, Padding: []int{1}}}
	e.conv1 = m.Conv("conv1", c.Int("num_mel_bins"), width, true, one, 3)
	e.conv2 = m.Conv("conv2", width, width, true, two, 3)
	e.places = m.Embedding("embed_positions", c.Int("max_source_positions"), width)
	m.Fix(e.places.Weight)
	layers, err := seqLayers(m, c, s, "encoder")
	e.layers = layers
	e.norm = m.LayerNorm("layer_norm", width)
	return e, err
}

func (e *whisperEncoder) forward(features *eager.Tensor) *eager.Tensor {
	p := e.Process()
	c := e.Enter(features)
	embeds := c.Let(e.conv1.Forward(features).GELU())
	c.Set(&embeds, e.conv2.Forward(embeds).GELU())
	c.Set(&embeds, embeds.Permute(0, 2, 1))
	positions := c.Let(p.Empty("aten::arange", tensor.Int64, e.places.Weight.Dim(0)))
	hidden := c.Let(embeds.Add(e.places.Forward(positions)))
	c.Set(&hidden, hidden.Dropout(e.dropout))
	hidden = runLayers(c, e.spec, e.layers, streams{hidden: hidden})
	c.Set(&hidden, e.norm.Forward(hidden))
	return c.Return(hidden)
}

// whisperDecoder is WhisperDecoder.
type whisperDecoder struct {
	*eager.Module
	spec           Spec
	tokens, places *eager.EmbeddingModule
	layers         []*seqLayer
	norm           *eager.LayerNormModule
	dropout        float64
}

func newWhisperDecoder(m *eager.Module, c *hfconfig.Config, s Spec) (*whisperDecoder, error) {
	width := c.Int("d_model")
	d := &whisperDecoder{Module: m, spec: s, dropout: c.Float("dropout")}
	d.tokens = m.Embedding("embed_tokens", c.Int("vocab_size"), width)
	d.places = m.Embedding("embed_positions", c.Int("max_target_positions"), width)
	layers, err := seqLayers(m, c, s, "decoder")
	d.layers = layers
	d.norm = m.LayerNorm("layer_norm", width)
	return d, err
}

func (d *whisperDecoder) forward(ids, encoded *eager.Tensor) *eager.Tensor {
	p := d.Process()
	c := d.Enter(ids, encoded)
	rows, seq := ids.Dim(0), ids.Dim(1)
	embeds := c.Let(d.tokens.Forward(ids))
	positions := c.Let(p.Empty("aten::arange", tensor.Int64, 1, seq).AddScalar())
	c.Set(&positions, positions.Repeat(rows, 1))
	places := c.Let(d.positions(ids, positions))
	hidden := c.Let(embeds.Add(places))
	c.Set(&hidden, hidden.Dropout(d.dropout))
	target := d.spec
	target.Seq = seq
	mask := c.Let(causalMask(target, p, embeds.DType))
	hidden = runLayers(c, d.spec, d.layers, streams{hidden: hidden, mask: mask, source: encoded})
	c.Set(&hidden, d.norm.Forward(hidden))
	return c.Return(hidden)
}

// positions is WhisperPositionalEmbedding.forward: weight[position_ids].
func (d *whisperDecoder) positions(ids, positions *eager.Tensor) *eager.Tensor {
	c := d.places.Enter(ids, positions)
	return c.Return(d.places.Weight.Index(0, positions))
}
