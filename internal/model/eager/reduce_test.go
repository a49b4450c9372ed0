package eager

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Measured on an H200: the sum over the first dimension of fp32 [8192, 256, 512], 4 GiB, took a buffer of 256 MiB.
func TestAReductionOfMoreThanTwoGiBRunsInParts(t *testing.T) {
	d := Device{SMs: 132, ThreadsPerSM: 2048}
	if got, _ := d.Reduction(tensor.Of(8192, 256, 512), []int{0}, 4, 4); got != 256*units.MiB {
		t.Errorf("the buffer has %s, measured were 256 MiB", got)
	}
	half, _ := d.Reduction(tensor.Of(4096, 256, 512), []int{0}, 4, 4)
	if half != 256*units.MiB {
		t.Errorf("half of it, which fits in 32 bits, has %s", half)
	}
}
