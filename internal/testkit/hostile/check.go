package hostile

import (
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// CheckText says what is wrong with text for a terminal: broken UTF-8, or anything that could steer it or change the order of what is read.
func CheckText(text []byte) error {
	if !utf8.Valid(text) {
		return fmt.Errorf("broken UTF-8: %q", text)
	}
	for at, r := range string(text) {
		if r == '\n' || r == '\t' {
			continue
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return fmt.Errorf("%U reaches the terminal at byte %d: %q", r, at, text)
		}
	}
	return nil
}

// CheckJSON says what is wrong with an answer as JSON: it cannot be written, or is not UTF-8.
func CheckJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if !utf8.Valid(b) {
		return fmt.Errorf("broken UTF-8: %q", b)
	}
	return nil
}
