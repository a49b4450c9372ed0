package cost

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/gpu"
)

// What leaves the card. None of this was measured: rates are the links' own, efficiencies are assumed.

// linkShare of a link's rate that collectives and copies reach. Assumed.
const linkShare = 0.8

// nvlink is what one card can send over NVLink, in bytes a second and direction (NVIDIA datasheets: half of the stated sum).
var nvlink = map[string]float64{
	"b200": 900e9, "b300": 900e9, "h200": 450e9, "h100-80g": 450e9, "gh200-96g": 450e9, "gh200-144g": 450e9, "h100-94g": 300e9,
	"a100-40g": 300e9, "a100-80g": 300e9, "v100-16g": 150e9, "v100-32g": 150e9,
}

// hostLink is PCIe x16 in one direction: generation 5 for Hopper and later data-centre cards, 3 before Ampere, 4 between.
func hostLink(c gpu.Card) float64 {
	switch {
	case c.Major >= 9 && !strings.HasPrefix(c.Name, "rtx"):
		return 64e9
	case c.Major < 8:
		return 16e9
	}
	return 32e9
}

// link is what one card can send to another.
func link(c gpu.Card) float64 {
	if n, ok := nvlink[c.Name]; ok {
		return n
	}
	return hostLink(c)
}

// Collectives is the time one optimizer step spends in communication over a number of ranks. A ring sends (n-1)/n of what is gathered
// or scattered. DDP and ZeRO-1 and -2 reduce gradients once a step and gather what was updated; ZeRO-3 and FSDP2 gather parameters in forward and again in backward
// of every micro-batch and scatter gradients.
func Collectives(c gpu.Card, kind string, ranks, micro int, t Trained) float64 {
	once := t.Elements * t.Width * float64(ranks-1) / float64(ranks) / (link(c) * linkShare)
	switch kind {
	case "zero3", "fsdp2":
		return 3 * once * float64(micro)
	case "zero2":
		return once * float64(micro+1)
	}
	return 2 * once
}

// Overlapped is compute with communication behind it: frameworks start collectives while backward still runs. The better of what is possible.
func Overlapped(compute, communication float64) float64 { return max(compute, communication) }

// hostMemory is what a server's memory gives an optimizer that runs there, in bytes a second. Assumed: eight channels of DDR5, half of it reached; the time
// of a fused Adam on the host published with ZeRO-Offload (Ren et al., 2021: about 0.2 s for a billion parameters) agrees.
const hostMemory = 150e9

// HostOptimizer is the time of an optimizer step on the host: gradients come down, parameters go up, state stays. Copies of one parameter
// overlap with the arithmetic of another.
func HostOptimizer(c gpu.Card, t Trained) float64 {
	bytes := t.Elements * t.Width
	return max(2*bytes/(hostLink(c)*linkShare), fusedAccesses*t.Elements*4/hostMemory)
}
