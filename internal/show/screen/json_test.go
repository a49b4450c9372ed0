package screen

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

func TestJSONNeverSteersATerminal(t *testing.T) {
	t.Parallel()
	want := map[string]string{"a": "x\u202e\u009b31m\x7f\u2066y", "b\u200f": "plain, é, 🙂, \x1b]0;owned\a"}
	var out bytes.Buffer
	if err := json.NewEncoder(JSON(&out)).Encode(want); err != nil {
		t.Fatal(err)
	}
	if err := hostile.CheckText(out.Bytes()); err != nil {
		t.Error(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != 2 || got["a"] != want["a"] || got["b\u200f"] != want["b\u200f"] {
		t.Errorf("%q, %v", got, err)
	}
}
