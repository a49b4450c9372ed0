package hfconfig

import "bytes"

// StandardJSON rewrites the numbers that Python's json module writes and JSON does not have: Infinity becomes 1e999, which Python reads
// back as infinity and no program takes for a size, NaN becomes null. Text without any comes back as it is.
func StandardJSON(data []byte) []byte {
	if !bytes.Contains(data, []byte("Infinity")) && !bytes.Contains(data, []byte("NaN")) {
		return data
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		rest := data[i:]
		switch {
		case data[i] == '"':
			end := stringEnd(rest)
			out = append(out, rest[:end]...)
			i += end
		case bytes.HasPrefix(rest, []byte("Infinity")):
			out = append(out, "1e999"...)
			i += len("Infinity")
		case bytes.HasPrefix(rest, []byte("NaN")):
			out = append(out, "null"...)
			i += len("NaN")
		default:
			out = append(out, data[i])
			i++
		}
	}
	return out
}

// stringEnd is the length of the JSON string at the start of text; all of it where the string has no end.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
