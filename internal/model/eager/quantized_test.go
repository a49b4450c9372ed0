package eager

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
	"github.com/plimsoll/plimsoll/internal/units"
)

// bitsandbytes quantizes on the CPU with the same layout: every tensor that a layer then holds, in bytes.
const quantize = `
import json, torch
from bitsandbytes import functional as F
out = []
for rows, columns in json.loads(SHAPES):
    w = torch.randn(rows, columns)
    packed, state = F.quantize_4bit(w, compress_statistics=True, quant_type="nf4")
    held = [packed, state.absmax, state.state2.absmax, state.code, state.offset, state.state2.code]
    cb, scb, _ = F.int8_vectorwise_quant(w.half())
    out.append([[t.numel() * t.element_size() for t in held], [t.numel() * t.element_size() for t in (cb, scb)]])
print(json.dumps(out))
`

// TestQuantizedWeightsAreThoseOfBitsandbytes counts the tensors of the library itself (scripts/handover-env.sh installs it).
func TestQuantizedWeightsAreThoseOfBitsandbytes(t *testing.T) {
	t.Parallel()
	python, extra := probetest.Python(t), os.Getenv("PLIMSOLL_HANDOVER")
	if extra == "" {
		t.Skip("PLIMSOLL_HANDOVER names no folder that has bitsandbytes (make handover)")
	}
	shapes := [][2]int{{64, 64}, {1024, 512}, {896, 4864}, {151, 67}, {4096, 1024}}
	text, err := json.Marshal(shapes)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", "SHAPES = '"+string(text)+"'\n"+quantize)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+extra)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var held [][2][]units.Bytes
	if err := json.Unmarshal(out, &held); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, s := range shapes {
		for j, o := range []LoRA{{NF4: true}, {Int8: true}} {
			if got := o.quantized(s[0], s[1]); !slices.Equal(got, held[i][j]) {
				t.Errorf("%v: %v here, %v in bitsandbytes", s, got, held[i][j])
			}
		}
	}
}
