package lengths

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLengthsAreReadInEveryForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		"3\n5\n\n7\n":                     {3, 5, 7},
		" [3, 5, 7] ":                     {3, 5, 7},
		"{\"length\": 3}\n{\"length\":5}": {3, 5},
		"{\"num_tokens\": 9, \"id\": 1}":  {9},
		"{\"input_ids\": [1, 2, 3, 4]}":   {4},
	} {
		got, err := Read(strings.NewReader(text))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                      "no lengths",
		"3\nx\n":                "line 2",
		"3\n0\n":                "line 2",
		"[3, -1]":               "entry 2",
		"[3, ":                  "array",
		"{\"text\": \"hello\"}": "input_ids",
		"{\"length\": \"9\"}":   "length",
		"99999999999":           "line 1",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q in it", text, err, want)
		}
	}
}

func TestDistributionsAreReadAndCut(t *testing.T) {
	t.Parallel()
	d, err := ParseDistribution("lognormal:130,0.7,max=1024")
	if err != nil {
		t.Fatal(err)
	}
	drawn := d.Draw(20000, 1)
	slices.Sort(drawn)
	if median := drawn[len(drawn)/2]; median < 125 || median > 135 || drawn[0] < 1 || drawn[len(drawn)-1] > 1024 {
		t.Errorf("median %d, from %d to %d", median, drawn[0], drawn[len(drawn)-1])
	}
	for _, bad := range []string{"lognormal:130", "uniform:1,2,3", "uniform:a,b", "normal:1,2,most=3", "poisson:4", "constant:5,max=2,min=3", "constant:NaN"} {
		if _, err := ParseDistribution(bad); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// TestSamplersKeepEverySample: whatever the order, every sample is in one batch, and a batch is as long as its longest.
func TestSamplersKeepEverySample(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.IntRange(1, 500), 1, 300).Draw(t, "lengths")
		b := Batching{
			Sampler: rapid.SampledFrom([]Sampler{Random, Sequential, Grouped, Tokens}).Draw(t, "sampler"),
			Batch:   rapid.IntRange(1, 9).Draw(t, "batch"), Tokens: rapid.IntRange(500, 4000).Draw(t, "tokens"), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		count, longest := 0, 0
		for _, made := range b.Epoch(all, 0) {
			count, longest = count+made.Samples, max(longest, made.Longest)
			if made.Samples > b.Batch || all[made.At] != made.Longest || b.Sampler == Tokens && made.Samples*made.Longest > b.Tokens {
				t.Fatalf("%+v from %+v", made, b)
			}
		}
		if count != len(all) || longest != slices.Max(all) {
			t.Fatalf("%d of %d samples, longest %d", count, len(all), longest)
		}
	})
}

func TestGroupingPutsTheLongestFirst(t *testing.T) {
	t.Parallel()
	d, _ := ParseDistribution("lognormal:100,0.8,max=900")
	all := d.Draw(1000, 3)
	made := Batching{Sampler: Grouped, Batch: 8, Seed: 1}.Epoch(all, 0)
	if made[0].Longest != slices.Max(all) {
		t.Errorf("the first batch has %d tokens, the longest sample %d", made[0].Longest, slices.Max(all))
	}
}

func TestPackedRowsAreFull(t *testing.T) {
	t.Parallel()
	made := Batching{Sampler: Packed, Batch: 2, Row: 10}.Epoch([]int{7, 9, 20, 3, 15}, 0)
	if len(made) != 3 || made[0] != (Batch{Samples: 2, Longest: 10}) || made[2].Samples != 1 {
		t.Errorf("%+v", made)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"1\n2\n", "[1,2]", "{\"length\":3}", "{\"input_ids\":[1]}", "\x00", "[[[[", "-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Read(strings.NewReader(text))
		if (err == nil) != (len(all) > 0) {
			t.Errorf("%d lengths, %v", len(all), err)
		}
	})
}
