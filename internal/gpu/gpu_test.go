package gpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

func TestUsualSpellingsFindTheirCard(t *testing.T) {
	t.Parallel()
	for spelling, want := range map[string]string{
		"rtx-4090": "rtx-4090", "RTX 4090": "rtx-4090", "NVIDIA GeForce RTX 4090": "rtx-4090", "4090": "rtx-4090",
		"NVIDIA H100 80GB HBM3": "h100-80g", "h100": "h100-80g", "H100 PCIe": "h100-pcie", "A100-SXM4-40GB": "a100-40g", "NVIDIA A100 80GB PCIe": "a100-80g-pcie",
		"Tesla T4": "t4", "Tesla V100-SXM2-16GB": "v100-16g", "a10g": "a10g", "A6000": "rtx-a6000", "NVIDIA L40S": "l40s", "NVIDIA H200": "h200",
		"NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada", "rtx 3060": "rtx-3060-12g", "MI300X": "mi300x", "NVIDIA H20": "h20", "NVIDIA A800-SXM4-80GB": "a800-80g", "NVIDIA A800 80GB PCIe": "a800-80g-pcie",
		"NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000", "NVIDIA B300 SXM6 AC": "b300", "rtx4060ti-16g": "rtx-4060-ti-16g",
	} {
		c, err := Find(spelling)
		if err != nil || c.Name != want {
			t.Errorf("Find(%q) = %q, %v; want %q", spelling, c.Name, err, want)
		}
	}
}

func TestAnUnknownCardGetsASuggestion(t *testing.T) {
	t.Parallel()
	for spelling, want := range map[string]string{"rtx-4900": "rtx-4090", "h1000": "h100", "voodoo2": "--memory", "rtx-5060-ti": ""} {
		_, err := Find(spelling)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", spelling, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%q): %v, want a mention of %s", spelling, err, want)
		}
	}
}

func TestEveryCardIsWholeAndSourced(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, c := range Cards() {
		if c.Memory < 4*units.GiB || c.SMs < 4 || c.ThreadsPerSM < 1024 || c.Bandwidth < 1e11 || c.FP32 < 1e12 || c.Major == 0 || c.Host < 1e10 || c.Source.Rates == "" {
			t.Errorf("%s is incomplete: %+v", c.Name, c)
		}
		if c.Total > 0 && (c.Source.Total == "" || c.Total > c.Memory+units.GiB || float64(c.Total) < 0.9*float64(c.Memory)) {
			t.Errorf("%s: total %v of %v, source %q", c.Name, c.Total, c.Memory, c.Source.Total)
		}
		if c.Context > 0 && c.Source.Context == "" {
			t.Errorf("%s: context without a source", c.Name)
		}
		for _, key := range append(slices.Clone(c.Aliases), plain(c.Name), plain(c.Title)) {
			if other, ok := seen[key]; ok && other != c.Name {
				t.Errorf("%q names both %s and %s", key, other, c.Name)
			}
			seen[key] = c.Name
		}
	}
}

func TestWorkspacesFollowCardAndVersion(t *testing.T) {
	t.Parallel()
	check := func(name, version string, want units.Bytes) {
		t.Helper()
		c, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := torch.ParseVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.BlasWorkspace(v); got != want {
			t.Errorf("%s with %s: %v, want %v", name, version, got, want)
		}
	}
	check("h200", "2.11", 32*units.MiB)
	check("a100-40g", "2.11.0+cu130", 8519680)
	check("rtx-5090", "2.11", 8519680)
	check("rtx-5090", "2.12", 32*units.MiB)
	check("mi300x", "2.11", 128*units.MiB)
}
