package eager

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// The numbers were read off PyTorch 2.11: the same six layers and loss under torch.autograd.graph.saved_tensors_hooks, counting what is packed,
// on the CPU, whose autocast computes log_softmax in fp32 where CUDA's keeps the 16 bits that cross_entropy_loss asks for.
func TestSavedTensorsTravelAsPyTorchPacksThem(t *testing.T) {
	t.Parallel()
	const half = 512 * 256 * 2
	for _, c := range []struct {
		checkpoint bool
		autocast   tensor.DType
		copies     int
		bytes      units.Bytes
	}{
		{false, tensor.Bool, 21, 8654852},
		{false, tensor.BFloat16, 21, 4853764 - half},
		{true, tensor.Bool, 10, 4198404}, // PyTorch packs an empty tensor a call beside these
		{true, tensor.BFloat16, 10, 2887684 - half},
	} {
		p := bare()
		var down, up int
		var bytes, back units.Bytes
		p.Observe = func(w Work) {
			switch w.Kind {
			case ToHost:
				down++
				bytes += w.Read
			case FromHost:
				up++
				back += w.Read
			}
		}
		if err := p.Train(newMLP(p, 6, 512, 256, c.checkpoint), Options{Optimizer: "sgd", Autocast: c.autocast, Steps: 1, SavedOnHost: true}); err != nil {
			t.Fatal(err)
		}
		if down != c.copies || bytes != c.bytes {
			t.Errorf("checkpointing %v, autocast %v: %d copies of %d bytes, want %d of %d", c.checkpoint, c.autocast, down, bytes, c.copies, c.bytes)
		}
		if up != down || back != bytes {
			t.Errorf("%d copies of %d bytes come back, %d of %d went", up, back, down, bytes)
		}
	}
}

func TestSavedTensorsLeaveTheCard(t *testing.T) {
	t.Parallel()
	params := units.Bytes(6 * (256*256 + 256) * 4)
	for _, checkpoint := range []bool{false, true} {
		o := Options{Optimizer: "adamw"}
		here := highest(trainMLP(t, checkpoint, o))
		o.SavedOnHost = true
		there := trainMLP(t, checkpoint, o)
		if got := highest(there); got >= here {
			t.Errorf("checkpointing %v: %d bytes with activations on the host, %d without", checkpoint, got, here)
		}
		if got := live(there); got != 4*params {
			t.Errorf("checkpointing %v: %d bytes are left, want parameters, gradients and two states: %d", checkpoint, got, 4*params)
		}
	}
}
