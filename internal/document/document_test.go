package document

import (
	"errors"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/units"
)

type Inside struct {
	Depth int `json:"depth"`
}

func TestErrorsSayWhere(t *testing.T) {
	t.Parallel()
	var v struct {
		Model struct {
			Layers int `json:"layers"`
		} `json:"model"`
		Names []string `json:"names"`
		Inside
	}
	for text, want := range map[string]string{
		`{"model":{"layers":"many"}}`: `byte 25: model.layers is text and should be a whole number`,
		`{"names":7}`:                 `byte 10: names is a number and should be a list`,
		`{"depth":"x"}`:               `byte 12: depth is text and should be a whole number`,
		`[1]`:                         `byte 1: the document is a list and should be an object`,
		`{"model":nonsense}`:          `byte 11 is not valid JSON`,
		`{"model":`:                   `byte 9: it ends in the middle`,
		``:                            `byte 0: it ends in the middle`,
	} {
		if err := Decode([]byte(text), &v); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := Decode([]byte(`{"model":{"layers":3}}`), &v); err != nil || v.Model.Layers != 3 {
		t.Errorf("%v %+v", err, v)
	}
}

func TestAClippedTextCanBePrinted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"a\xff\x1b[2J\u202eb": "a??[2J?b", strings.Repeat("é", 40): strings.Repeat("é", 30) + "…", "x" + strings.Repeat("é", 40): "x" + strings.Repeat("é", 29) + "?…"} {
		if got := Clip(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestADocumentOfTooManyBytesIsRefused(t *testing.T) {
	t.Parallel()
	small := Kind{"note", 8 * units.Bytes(1)}
	if _, err := Read(strings.NewReader("12345678"), small); err != nil {
		t.Error(err)
	}
	if _, err := Read(strings.NewReader("123456789"), small); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "a note has at most 8 B") {
		t.Error(err)
	}
}
