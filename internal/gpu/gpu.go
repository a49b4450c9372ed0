// Package gpu is a catalogue of cards: what of a card decides whether a training job fits and how fast it may run.
//
// It takes the names people write ("rtx 4090", "A100-40G", "NVIDIA H100 80GB HBM3") and returns Cards with memory, architecture,
// rates and library workspaces, every number with its source. An unknown name is refused with the nearest known ones.
// Rates are dense (never "with sparsity"); zero means the number is not known here, and callers must say so.
package gpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/spelling"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Card is one model of accelerator.
type Card struct {
	Name    string      // short name: "rtx-4090"
	Title   string      // as people call it: "RTX 4090"
	Memory  units.Bytes // as sold; HBM and GDDR are sold in GiB under the name GB
	Total   units.Bytes // total_memory as PyTorch sees it; 0 where not known here
	Context units.Bytes // CUDA context and loaded libraries of one training process; 0 where not known here

	Major, Minor int // compute capability; AMD: gfx9 is 9, and ROCm is set
	SMs          int // multiprocessors (AMD: compute units)
	ThreadsPerSM int // resident threads of one
	ROCm         bool

	Bandwidth float64 // bytes/s of device memory
	BF16      float64 // FLOP/s, dense, fp32 accumulation; 0: the card has no bf16 tensor cores
	FP16      float64
	TF32      float64 // 0: no TF32
	FP32      float64 // without tensor cores

	NVLink float64 // bytes/s one card sends to others, in one direction (half of the sum that datasheets state); 0: it has none
	Host   float64 // bytes/s to the host in one direction: PCIe, by generation and lanes

	Aliases []string // further spellings, as plain leaves them: mostly what torch.cuda.get_device_name says
	Source  Source
}

// Source says where the numbers of a card come from.
type Source struct {
	Rates   string // bandwidth, rates, multiprocessors
	Total   string // total_memory
	Context string
}

// Capacity is what PyTorch can use in all: total_memory where known, the nominal size otherwise.
func (c Card) Capacity() units.Bytes {
	if c.Total > 0 {
		return c.Total
	}
	return c.Memory
}

// eagerKernels is what a context has more where CUDA loads all kernels of a library at once. Public reports of RTX 3090s with such wheels: 1,484 MiB in all with
// 1.7.1+cu110 (github.com/pytorch/pytorch/issues/49877), 1,352 with 1.12 (github.com/ultralytics/ultralytics/issues/1654), against at most 442 since; "more than
// 1,000 MB", says github.com/pytorch/pytorch/issues/107667.
const eagerKernels = 1000 * units.MiB

// ContextUnder is the context of a training process under a PyTorch release; known is false where it is that of other cards.
func (c Card) ContextUnder(v torch.Version) (size units.Bytes, known bool) {
	size, known = c.Context, c.Context > 0
	if !known {
		size = LargestContext()
	}
	if !torch.LazyKernels.Has(v) {
		size += eagerKernels
	}
	return size, known
}

// LargestContext is the largest context measured on any card here, for cards whose own is not known.
func LargestContext() units.Bytes {
	var most units.Bytes
	for _, c := range Cards() {
		most = max(most, c.Context)
	}
	return most
}

// BlasWorkspace is what cuBLAS takes through the caching allocator for each thread and stream, for a PyTorch
// version (aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize): 32 MiB on SM 9.0, since 2.12 also on
// SM 10 and 12 (pytorch PR #175344), 4096 KiB·2 + 16 KiB·8 on other NVIDIA cards; on ROCm 32 MiB, 128 MiB on gfx94.
func (c Card) BlasWorkspace(v torch.Version) units.Bytes {
	switch {
	case c.ROCm && c.Minor >= 4:
		return 128 * units.MiB
	case c.ROCm, c.Major == 9:
		return 32 * units.MiB
	case c.Major >= 10 && torch.BlackwellWorkspace.Has(v):
		return 32 * units.MiB
	}
	return 2*4096*units.KiB + 8*16*units.KiB
}

// BlasLtWorkspace is cuBLASLt's (same file, parseCUDABlasLtWorkspaceSize): 1 MiB; hipBLASLt 76 MiB.
func (c Card) BlasLtWorkspace() units.Bytes {
	if c.ROCm {
		return 76 * units.MiB
	}
	return units.MiB
}

// CuDNNAttention tells whether scaled_dot_product_attention tries cuDNN first (sdp_utils.cpp: SM 9.0, 10.0, 10.3 with cuDNN newer
// than 9.15, which wheels bring since PyTorch 2.10).
func (c Card) CuDNNAttention(v torch.Version) bool {
	hopper := c.Major == 9 && c.Minor == 0 || c.Major == 10 && (c.Minor == 0 || c.Minor == 3)
	return hopper && !c.ROCm && torch.CuDNNAttention.Has(v)
}

// Names lists the short names in the order of the catalogue.
func Names() []string {
	cards := Cards()
	names := make([]string, len(cards))
	for i, c := range cards {
		names[i] = c.Name
	}
	return names
}

// Find looks a card up by any usual spelling.
func Find(name string) (Card, error) {
	want := plain(name)
	for _, c := range Cards() {
		if plain(c.Name) == want || plain(c.Title) == want || slices.Contains(c.Aliases, want) {
			return c, nil
		}
	}
	return Card{}, unknown(name, want)
}

func unknown(name, want string) error {
	var alike []string
	for _, known := range Names() {
		p := plain(known)
		if want != "" && (strings.HasPrefix(p, want) || strings.Contains(want, p)) {
			alike = append(alike, known)
		}
	}
	if len(alike) == 0 {
		if near := spelling.Nearest(strings.ToLower(name), Names()); near != "" {
			alike = []string{near}
		}
	}
	if len(alike) == 0 {
		return fmt.Errorf("card %.40q is not in the catalogue; give its memory with --memory instead, or one of: %s", name, strings.Join(Names(), ", "))
	}
	return fmt.Errorf("card %.40q is not in the catalogue (did you mean %s?); --memory 24GiB works for any card", name, strings.Join(alike, " or "))
}

// plain strips what spellings differ in: case, separators, vendor words, the B of GB.
func plain(name string) string {
	s := strings.ToLower(name)
	for _, w := range []string{"nvidia", "geforce", "tesla", "quadro", "amd", "instinct", "generation", "graphics", "hbm3e", "hbm3", "hbm2e", "hbm2"} {
		s = strings.ReplaceAll(s, w, "")
	}
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, s)
	s = strings.ReplaceAll(s, "gib", "g")
	return strings.ReplaceAll(s, "gb", "g")
}
