package screen

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"
)

// JSON passes JSON documents on and writes characters that steer a terminal as escapes. They occur in strings only, where both forms mean the same; encoding/json
// escapes those below U+0020 itself. Each Write has to be whole characters, as those of a json.Encoder are.
func JSON(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(p []byte) (int, error) {
	if !bytes.ContainsFunc(p, steersInJSON) {
		return j.w.Write(p)
	}
	var out bytes.Buffer
	for _, r := range string(p) {
		if steersInJSON(r) {
			fmt.Fprintf(&out, `\u%04x`, r) // all of them lie below U+FFFF
		} else {
			out.WriteRune(r)
		}
	}
	if _, err := j.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func steersInJSON(r rune) bool {
	return r >= 0x7f && r != utf8.RuneError && unsafe(r)
}
