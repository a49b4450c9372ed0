package schema

import (
	"reflect"
	"strings"
	"testing"
)

type part struct {
	Name string `json:"name"`
	Size *int64 `json:"size,omitempty"`
}

type document struct {
	Schema string         `json:"schema"`
	Parts  []part         `json:"parts"`
	Sizes  map[string]int `json:"sizes"`
	Share  float64        `json:"share,omitempty"`
}

func TestDocumentsAreHeldToTheirSchema(t *testing.T) {
	t.Parallel()
	s := Of(reflect.TypeFor[document](), "plimsoll.x/1", "x")
	if err := s.Valid([]byte(`{"schema":"plimsoll.x/1","parts":[{"name":"a","size":3},{"name":"b"}],"sizes":{"c":1},"share":0.25}`)); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		`{"schema":"plimsoll.x/2","parts":[],"sizes":{}}`:                        "$.schema is plimsoll.x/2",
		`{"schema":"plimsoll.x/1","parts":[]}`:                                   "$.sizes is missing",
		`{"schema":"plimsoll.x/1","parts":[{"name":7}],"sizes":{}}`:              "$.parts[0].name: 7 is not",
		`{"schema":"plimsoll.x/1","parts":[{"name":"a","size":1.5}],"sizes":{}}`: "$.parts[0].size",
		`{"schema":"plimsoll.x/1","parts":[],"sizes":{"c":"many"}}`:              "$.sizes.c",
		`{"schema":"plimsoll.x/1","parts":[],"sizes":{},"more":1}`:               "$.more is not in the schema",
		`[]`: "is not object",
	} {
		if err := s.Valid([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
