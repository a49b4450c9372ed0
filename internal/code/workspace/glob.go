package workspace

import (
	"regexp"
	"strings"
)

// matchPath tells whether a pattern of the settings means a path (both with slashes, from the root on): "old", "src/old" and "*_pb2.py" any file or
// folder of that name and all below it, "src/**/gen_*.py" across folders.
func matchPath(pattern, path string) bool {
	pattern = strings.Trim(strings.TrimPrefix(pattern, "./"), "/")
	if pattern == "" {
		return false
	}
	re, err := regexp.Compile("(^|/)" + translate(pattern) + "(/|$)")
	return err == nil && re.MatchString(path)
}

// translate turns a glob into a regular expression.
func translate(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString("(.*/)?")
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(".*")
			i++
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String()
}
