// Package document reads JSON documents that strangers wrote.
//
// It takes bytes and the kind of document they are meant to be and returns the text, as long as it stays within what such a document may have, and the decoded
// value. Errors say where: the byte, and the field where one has the wrong type. What reading a whole document may cost is decided here and
// nowhere else; recordings, which are read as a stream, have snapshot.Limits.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll/plimsoll/internal/units"
)

// ErrTooLarge is in the chain of the error for a document with more bytes than its kind may have.
var ErrTooLarge = errors.New("too large")

// Kind is a kind of document, with the most bytes it may have: far more than any real one, few enough to be held in memory.
type Kind struct {
	Name string
	Most units.Bytes
}

// Kinds of documents, plain: what was compressed counts with what comes out of it.
var (
	Config  = Kind{"config.json", 4 * units.MiB}    // the largest published one has 100 kB
	Job     = Kind{"job", 8 * units.MiB}            // a configuration may stand inside
	Notes   = Kind{"notes", 16 * units.MiB}         // the probe's own bounds keep them below one
	Trace   = Kind{"trace", 64 * units.MiB}         // the header of a followed script
	Answer  = Kind{"answer", 64 * units.MiB}        // of predict or fit, with as many instants as they give
	Holders = Kind{"holders file", 256 * units.MiB} // the probe's own bounds keep it far below
	Graph   = Kind{"graph", 512 * units.MiB}        // the largest exported one has 60 MB
)

// Read reads all of a document.
func Read(r io.Reader, k Kind) ([]byte, error) {
	var text bytes.Buffer // doubles as it grows, where io.ReadAll adds a quarter each time
	_, err := text.ReadFrom(io.LimitReader(r, int64(k.Most)+1))
	data := text.Bytes()
	if err != nil {
		return nil, fmt.Errorf("read the %s after byte %d: %w", k.Name, len(data), err)
	}
	return data, k.Check(len(data))
}

// Check refuses a document of so many bytes.
func (k Kind) Check(size int) error {
	if units.Bytes(size) > k.Most {
		return fmt.Errorf("%w: a %s has at most %s", ErrTooLarge, k.Name, k.Most)
	}
	return nil
}

// Decode decodes a document; its errors name the byte, and the field where there is one.
func Decode(data []byte, v any) error { return Where(json.Unmarshal(data, v), 0) }

// Where says where in a document an error of package json lies, which leaves it out; from is where the text began that it was given.
func Where(err error, from int64) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		if strings.HasPrefix(syntax.Error(), "unexpected end") {
			return fmt.Errorf("byte %d: it ends in the middle", from+syntax.Offset)
		}
		return fmt.Errorf("byte %d is not valid JSON", from+syntax.Offset)
	case errors.As(err, &wrong):
		field := fieldOf(wrong)
		return fmt.Errorf("byte %d: %s is %s and should be %s", from+wrong.Offset, Clip(field), found(wrong.Value), plain(wrong))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("it ends in the middle")
	}
	return err
}

// fieldOf is the path to what is wrong as the document has it: without the names of embedded structs, which encoding/json puts in.
func fieldOf(wrong *json.UnmarshalTypeError) string {
	var path []string
	for name := range strings.SplitSeq(wrong.Field, ".") {
		if name != "" && !unicode.IsUpper(rune(name[0])) {
			path = append(path, name)
		}
	}
	if len(path) == 0 {
		return "the document"
	}
	return strings.Join(path, ".")
}

// found is what stands in the document.
func found(value string) string {
	switch kind, number, _ := strings.Cut(value, " "); {
	case number != "":
		return "the number " + Clip(number)
	case kind == "bool":
		return "true or false"
	case kind == "array":
		return "a list"
	case kind == "object":
		return "an object"
	case kind == "string":
		return "text"
	}
	return "a " + Clip(value)
}

// plain is what a Go type is called where nobody knows Go.
func plain(wrong *json.UnmarshalTypeError) string {
	switch kind := wrong.Type.Kind().String(); kind {
	case "struct", "map":
		return "an object"
	case "slice", "array":
		return "a list"
	case "string":
		return "text"
	case "bool":
		return "true or false"
	case "float64":
		return "a number"
	default:
		if strings.HasPrefix(wrong.Value, "number ") { // too large, or with a fraction
			return fmt.Sprintf("a whole number of at most %d", int64(math.MaxInt64))
		}
		return "a whole number"
	}
}

// Clip is the beginning of a text from a document, fit for an error: whole characters, none of which steers a terminal.
func Clip(s string) string {
	const most = 60
	end := ""
	if len(s) > most {
		s, end = s[:most], "…"
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, s) + end
}
