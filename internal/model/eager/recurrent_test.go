package eager

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/cudnn"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// live is what is allocated now, in blocks of 512 bytes.
func liveBytes(t *tape.Tape) units.Bytes {
	var now units.Bytes
	for _, e := range t.Events {
		size := (e.Size + 511) / 512 * 512
		switch e.Kind {
		case tape.Alloc:
			now += size
		case tape.Free:
			now -= size
		}
	}
	return now
}

// TestRecurrentNetsKeepWhatWasMeasured: [32, 256, 128] through an LSTM of two layers and a GRU of one, 512 wide, batch first.
func TestRecurrentNetsKeepWhatWasMeasured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gates, layers, states int
		kept                  units.Bytes
	}{
		"lstm": {4, 2, 2, 201589248},
		"gru":  {3, 1, 1, 117506560},
	} {
		p := NewProcess(H200())
		x := p.Input("x", tensor.Float32, 32, 256, 128).Retain()
		root := NewModel(p, tensor.Float32)
		var weights, states []*Tensor
		in := 128
		for range c.layers {
			weights = append(weights, root.Param("ih", c.gates*512, in), root.Param("hh", c.gates*512, 512), root.Param("b1", c.gates*512), root.Param("b2", c.gates*512))
			in = 512
		}
		root.Load()
		for range c.states {
			states = append(states, p.Empty("state", tensor.Float32, c.layers, 32, 512).Retain())
		}
		before := liveBytes(p.Tape())
		for _, o := range RNN(x, states, weights, Recurrent{Gates: cudnn.Gates(c.gates), Layers: c.layers, BatchFirst: true}) {
			o.Retain()
		}
		got := liveBytes(p.Tape()) - before
		if diff := got - c.kept; diff < -units.MiB || diff > units.MiB {
			t.Errorf("%s keeps %d bytes, measured %d", name, got, c.kept)
		}
	}
}
