package lintout

import (
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Diff writes what changes in a file, for people and for patch.
func Diff(w io.Writer, path string, before, after []byte) error {
	path = filepath.ToSlash(path)
	_, err := io.WriteString(w, renumbered(udiff.Unified("a/"+path, "b/"+path, string(before), string(after))))
	return err
}

var hunk = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// renumbered corrects where hunks begin in the new file: after a hunk that joins several changes, go-udiff 0.4.1 leaves the lines between them out of its
// count (toUnified in https://github.com/aymanbagabas/go-udiff/blob/v0.4.1/unified.go). patch goes by the old file's numbers, people by the new one's.
func renumbered(diff string) string {
	lines := strings.SplitAfter(diff, "\n")
	added := 0 // lines that the hunks so far added to the file
	for i := 0; i < len(lines); i++ {
		m := hunk.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		from, old, now := number(m[1], 1), number(m[2], 1), number(m[4], 1)
		if old > 0 && now > 0 {
			rest := lines[i][len(m[0]):]
			lines[i] = strings.Replace(m[0], " +"+m[3], fmt.Sprintf(" +%d", from+added), 1) + rest
		}
		added += now - old
		for ; i+1 < len(lines) && (old > 0 || now > 0); i++ { // what a hunk shows may look like a header
			switch {
			case strings.HasPrefix(lines[i+1], "-"):
				old--
			case strings.HasPrefix(lines[i+1], "+"):
				now--
			case strings.HasPrefix(lines[i+1], " "):
				old, now = old-1, now-1
			}
		}
	}
	return strings.Join(lines, "")
}

func number(text string, absent int) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return absent
}
