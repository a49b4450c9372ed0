package graphrun

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/testkit/measured"
	"github.com/plimsoll/plimsoll/internal/units"
)

// A GRU's cell on [batch, 4] keeps both products and five values of each unit until backward, which makes the gradients of both products and of the state: with
// 16 MiB for a tensor of the batch that is the input, the state and two products, five for the workspace, and three gradients: twelve, or seven without the
// workspace. Results and gradients around it may be there as well, five at most.
func TestACellKeepsItsProductsAndItsWorkspace(t *testing.T) {
	t.Parallel()
	const one = 16 * units.MiB
	args := `{"name":"input","arg":{"as_tensor":{"name":"h"}}},{"name":"hx","arg":{"as_tensor":{"name":"h"}}},{"name":"w_ih","arg":{"as_tensor":{"name":"w"}}},{"name":"w_hh","arg":{"as_tensor":{"name":"w"}}}`
	peak, unknown := need(t, "torch.ops.aten.gru_cell.default", args)
	if peak < 12*one || peak > 17*one || len(unknown) > 0 {
		t.Errorf("peak %.2f tensors of the batch, unknown operators %v", float64(peak)/float64(one), unknown)
	}
}

// Operators that only call others are known by these: OWL-ViT's norms, LightGlue's lists of keypoints.
func TestOperatorsThatCallOthersAreKnown(t *testing.T) {
	t.Parallel()
	for target, args := range map[string]string{
		"torch.ops.aten.linalg_norm.default":  selfArg,
		"torch.ops.aten.pad_sequence.default": `{"name":"sequences","arg":{"as_tensors":[{"name":"h"}]}}`,
	} {
		g, err := exported.Parse(program(target, args))
		if err != nil {
			t.Fatal(err)
		}
		_, m, err := trainGraph(g, measured.Row{Job: job.Job{Batch: 8, Optimizer: "sgd", ParamDType: "fp32"}})
		if err != nil || len(m.Unknown()) > 0 {
			t.Errorf("%s: %v, unknown operators %v", target, err, m)
		}
	}
}
