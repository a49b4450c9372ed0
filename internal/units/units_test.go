package units

import "testing"

func TestSizesAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bytes{
		"0": 0, "512": 512, "512B": 512, "24GiB": 24 * GiB, "24 GiB": 24 * GiB, "24g": 24 * GiB,
		"80GB": 80_000_000_000, "1.5MiB": 3 * MiB / 2, "10_000": 10000, "2TiB": 2 * TiB,
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1GiB", "24 apples", "1e400", "99999999999GiB", "1.2.3"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %d, want an error", text, got)
		}
	}
}

func TestAMemoryWithoutAUnitIsInGiB(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bytes{"24": 24 * GiB, "23.5": 47 * GiB / 2, " 80 ": 80 * GiB, "25769803776": 24 * GiB, "24GB": 24_000_000_000} {
		if got, err := ParseMemory(text); err != nil || got != want {
			t.Errorf("ParseMemory(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"24576", "-1", "", "x", "NaN", "Inf"} {
		if got, err := ParseMemory(text); err == nil {
			t.Errorf("ParseMemory(%q) = %d, want an error", text, got)
		}
	}
}

func TestSizesArePrintedInTheLargestFittingUnit(t *testing.T) {
	t.Parallel()
	for size, want := range map[Bytes]string{
		0: "0 B", 511: "511 B", KiB: "1.00 KiB", 3 * MiB / 2: "1.50 MiB", 16 * GiB: "16.00 GiB", -2 * GiB: "-2.00 GiB",
	} {
		if got := size.String(); got != want {
			t.Errorf("%d prints as %q, want %q", int64(size), got, want)
		}
	}
	if got := Count(-1234567); got != "-1,234,567" {
		t.Errorf("Count: %q", got)
	}
	if got := Percent(1, 1000); got != "<1 %" {
		t.Errorf("Percent: %q", got)
	}
}
