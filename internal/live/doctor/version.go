package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// version is the part of a version number that decides compatibility.
type version struct{ major, minor int }

// parseVersion reads the first two numbers of "2.11.0+cu130", "12.8", "13". It is not ok where there is none.
func parseVersion(s string) (version, bool) {
	head, rest, _ := strings.Cut(strings.TrimSpace(s), ".")
	major, err := strconv.Atoi(head)
	if err != nil || major < 0 {
		return version{}, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	minor, err := strconv.Atoi(rest)
	if err != nil {
		minor = 0
	}
	return version{major, minor}, true
}

func (v version) less(other version) bool {
	return v.major < other.major || (v.major == other.major && v.minor < other.minor)
}

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }
