package workspace

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/flow"
)

// A pool that was damaged behind a right checksum gives an error, not a crash.
func FuzzPool(f *testing.F) {
	value := packValue(nil, flow.Value{Kind: flow.Tensor, Roots: []int{1}, Items: []flow.Value{{Class: "A", Num: -3}}, Keys: []string{"loss"}, From: 5}, 0)
	function := packFunction(nil, &flow.FunctionFacts{ID: "f.py", Params: []string{"x"}, Keeps: []flow.Keep{{Into: "self.sum", From: 1}}})
	f.Add([]byte{2, 0, 0, 2, 0, 0}, []byte{1, 0, 0, 2, 0, 0, 2, 0, 0}, value, function)
	f.Add([]byte{255, 255, 255, 255, 255, 1}, []byte{0}, []byte{255, 255, 255}, []byte{1})
	f.Fuzz(func(t *testing.T, packed, class, value, function []byte) {
		p := newPool()
		p.names, p.functions, p.values, p.classes = []string{"f"}, []string{string(function)}, []string{string(value)}, []string{string(class)}
		if e, err := p.get("a.py", string(packed)); err == nil && e == nil {
			t.Fatal("neither an offer nor an error")
		}
		if uses, err := p.uses(string(packed)); err == nil && len(uses) > len(packed) {
			t.Fatal("more calls than bytes")
		}
	})
}
