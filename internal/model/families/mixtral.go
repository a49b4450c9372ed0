package families

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// mixtralMoE is MixtralSparseMoeBlock (transformers 5.17, modeling_mixtral.py) with the grouped_mm experts of
// integrations/moe.py, the default on cards from compute capability 8.0 on.
type mixtralMoE struct {
	*eager.Module
	router  *mixtralRouter
	experts *mixtralExperts
}

func newMixtralMoE(m *eager.Module, c *hfconfig.Config) (*mixtralMoE, error) {
	if c.Float("router_jitter_noise") > 0 || c.Bool("output_router_logits") {
		return nil, errors.New("mixtral with router_jitter_noise or output_router_logits is not supported")
	}
	b := &mixtralMoE{Module: m}
	gate := m.Child("gate")
	b.router = &mixtralRouter{gate, gate.Param("weight", c.Int("num_local_experts"), c.Int("hidden_size")), c.Int("num_experts_per_tok")}
	experts, err := newMixtralExperts(m.Child("experts"), c)
	b.experts = experts
	return b, err
}

func (b *mixtralMoE) forward(x *eager.Tensor) *eager.Tensor {
	c := b.Enter(x)
	batch, seq, width := x.Dim(0), x.Dim(1), x.Dim(2)
	x = c.Let(x.View(-1, width))
	logits, weights, index := b.router.forward(x)
	c.Lets([]*eager.Tensor{logits, weights, index})
	c.Set(&x, b.experts.forward(x, index, weights))
	c.Set(&x, x.Reshape(batch, seq, width))
	return c.Return(x)
}

// mixtralRouter is MixtralTopKRouter.
type mixtralRouter struct {
	*eager.Module
	weight *eager.Tensor
	top    int
}

func (r *mixtralRouter) forward(x *eager.Tensor) (logits, scores, index *eager.Tensor) {
	c := r.Enter(x)
	x = c.Let(x.Reshape(-1, x.Dim(-1)))
	logits = c.Let(eager.Linear(x, r.weight, nil))
	probs := c.Let(logits.Float().Softmax(-1))
	scores, index = probs.TopK(r.top, -1)
	c.Let(scores)
	c.Let(index)
	c.Set(&scores, scores.Div(scores.Sum(true, -1)))
	c.ReturnAll(logits, scores, index)
	return logits, scores, index
}

// mixtralExperts is MixtralExperts.
type mixtralExperts struct {
	*eager.Module
	gateUp, down *eager.Tensor
	act          func(*eager.Tensor) *eager.Tensor
}

func newMixtralExperts(m *eager.Module, c *hfconfig.Config) (*mixtralExperts, error) {
	count, width, inner := c.Int("num_local_experts"), c.Int("hidden_size"), c.Int("intermediate_size")
	e := &mixtralExperts{Module: m}
	e.gateUp = m.Param("gate_up_proj", count, 2*inner, width)
	e.down = m.Param("down_proj", count, width, inner)
	act, err := activation(m, c.String("hidden_act"))
	e.act = act
	return e, err
}

// forward is grouped_mm_experts_forward: rows sorted by expert, two grouped products, rows put back and summed.
func (e *mixtralExperts) forward(x, index, weights *eager.Tensor) *eager.Tensor {
	p := e.Process()
	c := e.Enter(x, index, weights)
	tokens, top, width, dtype := x.Dim(0), index.Dim(-1), x.Dim(1), x.DType
	sample := c.Let(weights.Reshape(-1))
	ids := c.Let(index.Reshape(-1))
	sorted, order := ids.Sort()
	c.Let(sorted)
	c.Let(order)
	rows := c.Let(x.Index(0, p.Empty("aten::floor_divide", tensor.Int64, tokens*top)))
	sample = c.Let(sample.Index(0, order))
	c.Let(p.Empty("aten::_to_copy", tensor.Int32, tokens*top))
	offsets := c.Let(p.Empty("aten::cumsum", tensor.Int32, e.gateUp.Dim(0)))
	sentinels := c.Let(sorted.Compare("aten::ge", nil).Unsqueeze(-1))
	rows.MaskedFillInPlace(sentinels)
	out := c.Let(groupedLinear(rows, e.gateUp, offsets))
	c.Set(&out, out.MaskedFill(sentinels))
	c.Set(&out, e.gate(out))
	c.Set(&out, groupedLinear(out, e.down, offsets))
	c.Set(&out, out.MaskedFill(sentinels))
	weighted := c.Let(out.Mul(sample.Unsqueeze(-1)))
	back := c.Let(p.Empty("aten::empty_like", tensor.Int64, tokens*top))
	c.Set(&weighted, weighted.Index(0, back))
	final := c.Let(weighted.View(tokens, top, width).Sum(false, 1))
	return c.Return(final.To(dtype))
}

// gate is _default_apply_gate.
func (e *mixtralExperts) gate(x *eager.Tensor) *eager.Tensor {
	c := e.Process().Function(x)
	halves := c.Lets(x.Chunk(2, -1))
	return c.Return(e.act(halves[0]).Mul(halves[1]))
}

// groupedLinear is _grouped_linear without bias: the input takes the weight's type.
func groupedLinear(x, weight, offsets *eager.Tensor) *eager.Tensor {
	c := x.Process().Function(x, offsets)
	return c.Return(eager.GroupedMM(x.To(weight.DType), weight.Transpose(-2, -1), offsets))
}
