package families

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// recordedTrace reads the requests of a real run: "a SIZE" and "f ORDINAL" lines, in order. It was recorded with
// torch.cuda.memory._record_memory_history on an H200: gpt2, batch 4, 512 tokens, amp-bf16, AdamW.
func recordedTrace(t *testing.T) (sizes []units.Bytes) {
	t.Helper()
	f, err := os.Open("testdata/gpt2-amp.trace.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		var kind string
		var n int64
		if _, err := fmt.Sscan(lines.Text(), &kind, &n); err != nil {
			t.Fatal(err)
		}
		if kind == "a" {
			sizes = append(sizes, units.Bytes(n))
		}
	}
	return sizes
}

// TestAComputedStepAsksForMemoryInTheOrderOfARecordedOne holds three training steps to the recording, request by request; only
// requests below 64 KiB are left out, among them the flags of the mask's search for packed sequences.
func TestAComputedStepAsksForMemoryInTheOrderOfARecordedOne(t *testing.T) {
	t.Parallel()
	c, err := hfconfig.Parse([]byte(`{"model_type":"gpt2"}`))
	if err != nil {
		t.Fatal(err)
	}
	p := eager.NewProcess(eager.H200())
	m, err := New(p, c, Spec{Task: "causal-lm", Batch: 4, Seq: 512, DType: tensor.Float32})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Train(m, eager.Options{Optimizer: "adamw", Autocast: tensor.BFloat16, Steps: 4}); err != nil {
		t.Fatal(err)
	}
	var got, want []units.Bytes
	for _, e := range p.Tape().Events {
		if e.Kind == tape.Alloc && e.Size >= 64*units.KiB {
			got = append(got, e.Size)
		}
	}
	for _, s := range recordedTrace(t) {
		if s >= 64*units.KiB {
			want = append(want, s)
		}
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("request %d asks for %d bytes, the recording for %d", i, got[i], want[i])
		}
	}
	if len(got) < len(want) {
		t.Errorf("%d requests, the recording has %d", len(got), len(want))
	}
	t.Logf("%d requests agree", len(want))
}
