package planfile

import (
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// cut tells whether a plan cuts the model among cards.
func cut(p report.Plan) bool { return p.Tensor > 1 || p.Stages > 1 }

// writeCut is a module of plain PyTorch for several cards: ranks by DistributedDataParallel or fully_shard, the layers of a model that is cut by
// torch.distributed.tensor.parallel, its stages by torch.distributed.pipelining.
func writeCut(p report.Plan, m Model) (string, error) {
	if !cut(p) {
		p.Ranks = p.GPUs
	}
	p.Tensor, p.Stages = max(p.Tensor, 1), max(p.Stages, 1) // a mesh has no dimension of 0
	v, err := newView(p, m)
	if err != nil {
		return "", err
	}
	return render("cut.py.tmpl", v)
}

// QueryNorm tells that queries and keys are normed by heads; the gradients of these norms are summed over the cards that share a layer.
func (v view) QueryNorm() bool {
	family, _ := hfconfig.FamilyOf(v.Model.Family)
	return family.QueryNorm != hfconfig.QueryNormNone
}

// Everywhere is the plan with checkpointing in all layers: a model that is cut leaves layers alone only when it knows which are its own.
func (v view) Everywhere() view {
	if v.Hub() && v.Checkpointing == setup.Selective {
		v.Checkpointing = setup.Full
	}
	return v
}
