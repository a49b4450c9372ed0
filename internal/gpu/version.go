package gpu

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a version of PyTorch; the zero value is not one.
type Version struct{ Major, Minor int }

// Measured is the version the measurements were made with.
var Measured = Version{2, 11}

// ParseVersion reads "2.11", "2.11.0" or "2.11.0+cu130".
func ParseVersion(s string) (Version, error) {
	parts := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 3)
	if len(parts) >= 2 {
		major, err1 := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && major >= 1 && major < 100 && minor >= 0 && minor < 1000 {
			return Version{major, minor}, nil
		}
	}
	return Version{}, fmt.Errorf("PyTorch version %.30q is not of the form 2.11", s)
}

// Before tells whether the version is older than major.minor.
func (v Version) Before(major, minor int) bool {
	return v.Major < major || v.Major == major && v.Minor < minor
}

// String is "2.11".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }
