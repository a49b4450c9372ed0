package snapshot

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadAll(t *testing.T) {
	files, _ := filepath.Glob("../testdata/snapshots/*.pickle.gz")
	for _, f := range files {
		r, err := os.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Read(r)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		t.Log(filepath.Base(f), len(s.Segments), s.Traces[0].Len(), s.Stacks.Len(), len(s.Stacks.Frames), len(s.Annotations), s.Settings.Conf, s.Warnings)
	}
}

func BenchmarkBig(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		r, _ := os.Open("/tmp/big.pickle")
		s, err := Read(r)
		if err != nil {
			b.Fatal(err)
		}
		b.Log(s.Traces[0].Len(), s.Stacks.Len(), len(s.Stacks.Frames))
	}
}
