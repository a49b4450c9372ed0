package workspace

import "testing"

// A pool that was damaged behind a right checksum gives an error, not a crash.
func FuzzPool(f *testing.F) {
	f.Add([]byte{2, 0, 0, 2, 0, 0}, []byte{1, 2, '[', ']', 2, 0, 0, 2, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 255, 1}, []byte{0})
	f.Fuzz(func(t *testing.T, packed, class []byte) {
		p := newPool()
		p.Names, p.Functions, p.Values, p.Classes = []string{"f"}, [][]byte{[]byte("{}")}, [][]byte{[]byte("{}")}, [][]byte{class}
		if e, err := p.get("a.py", packed); err == nil && e == nil {
			t.Fatal("neither an offer nor an error")
		}
	})
}
