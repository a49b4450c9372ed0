package alloc

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

func TestSettingsAreReadAsEachVersionReadsThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		version torch.Version
		check   func(Conf) bool
	}{
		{"", torch.V2_11, func(c Conf) bool { return c == Conf{} }},
		{" max_split_size_mb : 64 ", torch.V2_11, func(c Conf) bool { return c.MaxSplit == 64*units.MiB }},
		{"max_split_size_mb:64MB", torch.V2_9, func(c Conf) bool { return c.MaxSplit == 64*units.MiB }}, // std::stoi stops at the M
		{"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", torch.V2_11, func(c Conf) bool {
			return c.Divisions[0] == 1 && c.Divisions[8] == 1 && c.Divisions[9] == 2 && c.Divisions[10] == 4 && c.Divisions[11] == 8 && c.Divisions[15] == 8
		}},
		{"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", torch.V2_9, func(c Conf) bool {
			return c.Divisions[9] == 2 && c.Divisions[10] == 8 && c.Divisions[11] == 8
		}},
		{"large_segment_size_mb:40", torch.V2_11, func(c Conf) bool { return c.resolved().NonSplitRounding == 40*units.MiB }},
		{"expandable_segments:True,pinned_num_register_threads:8", torch.V2_9, func(c Conf) bool { return c.Expandable }},
		{"per_process_memory_fraction:0.5", torch.V2_10, func(c Conf) bool { return c.Fraction == 0.5 }},
		{"backend:cudaMallocAsync", torch.V2_0, func(c Conf) bool { return c.Async }},
	} {
		got, err := ParseConf(c.text, c.version)
		if err != nil || !c.check(got) {
			t.Errorf("%q for %s: %+v, %v", c.text, c.version, got, err)
		}
	}
}

func FuzzParseConf(f *testing.F) {
	for _, text := range []string{
		"", "expandable_segments:True", "max_split_size_mb:64,garbage_collection_threshold:0.6",
		"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "roundup_power2_divisions:[", "large_segment_size_mb:32,max_split_size_mb:32",
		"backend:native,max_non_split_rounding_mb:40", ",,,:[]", "max_split_size_mb:999999999999999999999",
	} {
		f.Add(text, uint(0))
	}
	f.Fuzz(func(t *testing.T, text string, version uint) {
		v := torch.Distinct()[version%uint(len(torch.Distinct()))]
		c, err := ParseConf(text, v)
		if err != nil {
			return
		}
		if r := c.resolved(); r.MaxSplit < r.LargeSegment || r.NonSplitRounding < r.LargeSegment || r.Fraction > 1 {
			t.Fatalf("%q: %+v", text, r)
		}
		a := New(Policy{Conf: c, Torch: v, Total: units.GiB})
		for id, size := range []units.Bytes{1, 600, 3 << 20, 50 << 20, 1100 << 20} {
			a.Malloc(uint32(id), size, 0, 0)
		}
		if err := a.Check(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
