package alloc

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a PyTorch release: 100·major + minor (211 is 2.11). The zero Version is Latest.
type Version int

// Latest is the newest release whose allocator was checked against recordings; Oldest and Newest bound what
// is modelled.
const (
	Latest Version = 211
	Oldest Version = 112
	Newest Version = 215
)

// ParseVersion reads "2.9", "2.11.0" or "2.11.0+cu130".
func ParseVersion(text string) (Version, error) {
	major, rest, found := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	minor, _, _ = strings.Cut(minor, "+")
	minor = strings.TrimRight(minor, "abrcdev")
	x, errX := strconv.Atoi(major)
	y, errY := strconv.Atoi(minor)
	if !found || errX != nil || errY != nil || x < 0 || y < 0 || y > 99 {
		return 0, fmt.Errorf("PyTorch version %q is not of the form 2.11", text)
	}
	v := Version(100*x + y)
	if v < Oldest || v > Newest {
		return 0, fmt.Errorf("PyTorch %s is outside of what the allocator model covers (%s to %s)", v, Oldest, Newest)
	}
	return v, nil
}

// String prints the version as people write it.
func (v Version) String() string {
	v = v.orLatest()
	return strconv.Itoa(int(v)/100) + "." + strconv.Itoa(int(v)%100)
}

func (v Version) orLatest() Version {
	if v == 0 {
		return Latest
	}
	return v
}

func (v Version) atLeast(major, minor int) bool { return int(v.orLatest()) >= 100*major+minor }

// EnvVar is the environment variable to set for this version. Every version reads PYTORCH_CUDA_ALLOC_CONF; 2.8 and 2.9
// announce PYTORCH_ALLOC_CONF but ignore expandable_segments in it (pytorch issue 183387); 2.10 reads both and calls the
// old name deprecated; 2.11 and later advise the old name again.
func (v Version) EnvVar() string {
	if v.orLatest() == 210 {
		return "PYTORCH_ALLOC_CONF"
	}
	return "PYTORCH_CUDA_ALLOC_CONF"
}
