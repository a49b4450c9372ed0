// Package units gives memory sizes a type.
//
// It reads numbers of bytes in the spellings people use ("24GiB", "80GB", "512 MiB") and prints
// short, aligned texts. It is the only package that knows 1024, and it refuses sizes that are
// negative, fractional below a byte or too large for 64 bits.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is an amount of memory in bytes.
type Bytes int64

// Binary multiples, as PyTorch and the driver use them.
const (
	KiB Bytes = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

// String prints a size as a person reads it: two decimals, the largest binary unit that keeps it at or
// above one ("15.42 GiB", "512 B").
func (b Bytes) String() string {
	v, unit := b.scaled()
	if unit == "B" {
		return strconv.FormatInt(int64(b), 10) + " B"
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + " " + unit
}

// Short prints a size with one decimal ("15.4 GiB"), for tables.
func (b Bytes) Short() string {
	v, unit := b.scaled()
	if unit == "B" {
		return strconv.FormatInt(int64(b), 10) + " B"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + unit
}

// GiBString prints a size in GiB whatever its magnitude, for columns whose rows must compare.
func (b Bytes) GiBString(decimals int) string {
	return strconv.FormatFloat(float64(b)/float64(GiB), 'f', decimals, 64)
}

func (b Bytes) scaled() (float64, string) {
	abs := b
	if abs < 0 {
		abs = -abs
	}
	for _, u := range []struct {
		size Bytes
		name string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if abs >= u.size {
			return float64(b) / float64(u.size), u.name
		}
	}
	return float64(b), "B"
}

// Parse reads a size: a number with an optional unit. Binary units are KiB, MiB, GiB, TiB and the bare
// letters k, m, g, t (nvidia-smi and people mean 1024 by them); kB, MB, GB, TB are decimal. No unit: bytes.
func Parse(s string) (Bytes, error) {
	text := strings.TrimSpace(s)
	split := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != '_' })
	number, unit := text, ""
	if split >= 0 {
		number, unit = text[:split], strings.TrimSpace(text[split:])
	}
	value, err := strconv.ParseFloat(strings.ReplaceAll(number, "_", ""), 64)
	if err != nil || number == "" {
		return 0, fmt.Errorf("size %q is not a number with a unit (write for example 24GiB or 80GB)", s)
	}
	factor, ok := factors[strings.ToLower(unit)]
	if !ok {
		return 0, fmt.Errorf("size %q: unknown unit %q (use B, KiB, MiB, GiB, TiB or kB, MB, GB, TB)", s, unit)
	}
	bytes := value * factor
	if bytes > math.MaxInt64/2 {
		return 0, fmt.Errorf("size %q is larger than any memory", s)
	}
	return Bytes(math.Round(bytes)), nil
}

// largestBare is the largest memory a number without a unit means in GiB; smallestBytes the smallest that it means in bytes.
const (
	largestBare   = 4096
	smallestBytes = float64(MiB)
)

// ParseMemory reads the memory of a card: as Parse does, and a bare number as people write it. 24 is 24 GiB; a number of many
// digits is bytes; what lies between could be either and is refused.
func ParseMemory(s string) (Bytes, error) {
	text := strings.TrimSpace(s)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n >= smallestBytes {
		return Parse(s)
	}
	if n > largestBare {
		return 0, fmt.Errorf("size %q has no unit (write for example 24GiB or 24576MiB)", s)
	}
	return Parse(text + "GiB")
}

var factors = map[string]float64{
	"": 1, "b": 1, "byte": 1, "bytes": 1,
	"k": float64(KiB), "m": float64(MiB), "g": float64(GiB), "t": float64(TiB),
	"kib": float64(KiB), "mib": float64(MiB), "gib": float64(GiB), "tib": float64(TiB),
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
}

// Count prints an integer with thousands separators ("80,029").
func Count(n int) string {
	s := strconv.Itoa(n)
	neg := strings.TrimPrefix(s, "-")
	var out []byte
	for i := range len(neg) {
		if i > 0 && (len(neg)-i)%3 == 0 {
			out = append(out, ',')
		}
		out = append(out, neg[i])
	}
	if len(neg) < len(s) {
		return "-" + string(out)
	}
	return string(out)
}

// Percent prints a share of a whole without decimals, "<1 %" for a small non-zero one.
func Percent(part, whole Bytes) string {
	if whole <= 0 {
		return "–"
	}
	p := 100 * float64(part) / float64(whole)
	if p > 0 && p < 1 {
		return "<1 %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}
