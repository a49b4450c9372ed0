package torch

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is a PyTorch release. The zero Version is "not said": Latest.
type Version struct{ major, minor uint8 }

// Releases that something changed in, or that a message or file can be told by.
var (
	V0_1  = Version{0, 1}
	V0_4  = Version{0, 4}
	V1_0  = Version{1, 0}
	V1_3  = Version{1, 3}
	V1_4  = Version{1, 4}
	V1_9  = Version{1, 9}
	V1_10 = Version{1, 10}
	V1_12 = Version{1, 12}
	V1_13 = Version{1, 13}
	V2_0  = Version{2, 0}
	V2_1  = Version{2, 1}
	V2_2  = Version{2, 2}
	V2_3  = Version{2, 3}
	V2_4  = Version{2, 4}
	V2_5  = Version{2, 5}
	V2_6  = Version{2, 6}
	V2_7  = Version{2, 7}
	V2_8  = Version{2, 8}
	V2_9  = Version{2, 9}
	V2_10 = Version{2, 10}
	V2_11 = Version{2, 11}
	V2_12 = Version{2, 12}
	V2_13 = Version{2, 13}
	V2_14 = Version{2, 14} // allocates as 2.13
	V2_15 = Version{2, 15}
)

// Latest is the release of the measurements: the newest whose allocator was checked against recordings. Oldest and Newest bound what is modelled.
var (
	Latest = V2_11
	Oldest = V1_12
	Newest = V2_15
)

// Distinct are the releases whose allocators differ, those checked against recordings first.
func Distinct() []Version {
	return []Version{V2_11, V2_10, V2_9, V2_13, V2_12, V2_8, V2_5, V2_4, V2_3, V2_2, V2_0}
}

// ParseVersion reads "2.9", "2.11.0" or "2.11.0+cu130".
func ParseVersion(text string) (Version, error) {
	major, rest, found := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	minor, _, _ = strings.Cut(minor, "+")
	minor = strings.TrimRight(minor, "abrcdev")
	x, errX := strconv.ParseUint(major, 10, 8)
	y, errY := strconv.ParseUint(minor, 10, 8)
	if !found || errX != nil || errY != nil || y > 99 {
		return Version{}, fmt.Errorf("PyTorch version %.40q is not of the form %s", text, Latest)
	}
	v := Version{uint8(x), uint8(y)}
	if v.Before(Oldest) || Newest.Before(v) {
		return Version{}, fmt.Errorf("PyTorch %s is outside of what the allocator model covers (%s to %s)", v, Oldest, Newest)
	}
	return v, nil
}

// String prints the version as people write it.
func (v Version) String() string {
	v = v.OrLatest()
	return strconv.Itoa(int(v.major)) + "." + strconv.Itoa(int(v.minor))
}

// Said tells whether a version was named.
func (v Version) Said() bool { return v != Version{} }

// OrLatest is the version, or Latest where none was said.
func (v Version) OrLatest() Version {
	if !v.Said() {
		return Latest
	}
	return v
}

// Compare orders versions: negative where v is the older one.
func (v Version) Compare(o Version) int {
	v, o = v.OrLatest(), o.OrLatest()
	return cmp.Or(cmp.Compare(v.major, o.major), cmp.Compare(v.minor, o.minor))
}

// Before tells whether v is older than o.
func (v Version) Before(o Version) bool { return v.Compare(o) < 0 }

// AtLeast tells whether v is o or newer.
func (v Version) AtLeast(o Version) bool { return v.Compare(o) >= 0 }

// Span is a range of releases, both ends included; a bound that is not said is open.
type Span struct{ From, To Version }

// Since is an open span.
func Since(v Version) Span { return Span{From: v} }

// Has tells whether a release lies in the span.
func (s Span) Has(v Version) bool {
	return (!s.From.Said() || v.AtLeast(s.From)) && (!s.To.Said() || !s.To.Before(v))
}

// String prints "2.2–2.3", "2.12–", or nothing for a span that is open on both sides.
func (s Span) String() string {
	switch {
	case !s.From.Said() && !s.To.Said():
		return ""
	case !s.To.Said():
		return s.From.String() + "–"
	case !s.From.Said():
		return "–" + s.To.String()
	}
	return s.From.String() + "–" + s.To.String()
}
