package explain

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/plimsoll/plimsoll/snapshot"
)

// big is one million events with stacks, 98 MB unpacked.
func big(b *testing.B) []byte {
	b.Helper()
	f, err := os.Open("../../../testdata/big.pickle.gz")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func BenchmarkReadBig(b *testing.B) {
	data := big(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := snapshot.Read(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExplainBig(b *testing.B) {
	s, err := snapshot.Read(bytes.NewReader(big(b)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Build([]Evidence{{Name: "big", Snapshot: s}})
	}
}
