package holders

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/snapshot"
)

// packed compresses a document as the probe does.
func packed(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zlib.NewWriterLevelDict(&b, 6, dictionary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// plain is a file of the repository without its compression.
func plain(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := snapshot.Decompress(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheDictionaryNeverChanges(t *testing.T) {
	t.Parallel()
	if got := adler32.Checksum(dictionary); got != 0x528dad40 {
		t.Errorf("the dictionary's checksum is %#x: files written with another cannot be read any more", got)
	}
}

func TestAFileWithADictionaryIsReadAsItsTextIs(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(file(Holder{Role: Variable, Name: Name{Name: "feats[*]"}, Count: 1, Bytes: 512, Addresses: []int64{0x1000}, Sizes: []int64{512}}))
	if err != nil {
		t.Fatal(err)
	}
	whole := packed(t, text)
	read, err := Read(bytes.NewReader(whole))
	if err != nil || len(read.Holders) != 1 || read.Holders[0].Name.Name != "feats[*]" {
		t.Errorf("read %+v: %v", read, err)
	}
	other := bytes.Clone(whole)
	other[2] ^= 1 // the checksum of another dictionary
	if _, err := Read(bytes.NewReader(other)); err == nil || !strings.Contains(err.Error(), "update plimsoll") {
		t.Errorf("another dictionary: %v", err)
	}
	for n := range len(whole) {
		if _, err := Read(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("the first %d of %d bytes were read", n, len(whole))
		}
	}
}

// Recordings are plain pickles on a user's disk; holders were compressed with gzip when these were made, and are compressed again here. Small recordings are the hard
// ones: what they have in common with larger ones, a name, an address and a place, weighs more.
func TestAHoldersFileIsATwentiethOfASmallRecording(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob("../../../testdata/bench/*/run/*/*.holders.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, path := range found {
		recordings, err := filepath.Glob(strings.TrimSuffix(path, ".holders.json.gz") + ".pickle.xz")
		if err != nil || len(recordings) != 1 {
			t.Fatalf("%s: recordings %v: %v", path, recordings, err)
		}
		if info, err := os.Stat(recordings[0]); err != nil || info.Size() > 8<<10 {
			continue
		}
		compared++
		recording, own := len(plain(t, recordings[0])), len(packed(t, plain(t, path)))
		most := 400
		switch {
		case recording >= 16<<10:
			most = recording / 20
		case recording >= 10<<10:
			most = recording / 15 // one of five has 24 holders
		}
		if own > most {
			t.Errorf("%s: %d bytes beside a recording of %d, want at most %d", path, own, recording, most)
		}
	}
	if compared < 20 {
		t.Errorf("%d small recordings, want at least 20", compared)
	}
}
