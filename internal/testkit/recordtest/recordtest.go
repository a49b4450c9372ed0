// Package recordtest opens recordings and measurements under testdata for tests.
//
// It takes a test and the name of a recording, without folder and ending and returns its snapshot, or what PyTorch itself counted while it was
// made; Lines reads files of measurements. A recording that is missing or unreadable fails the test. It is imported by tests only.
package recordtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/snapshot"
)

// folder is seen from a package under internal. The recordings were made with PyTorch 2.11.0 on an H200.
const (
	folder = "../../../testdata/snapshots"
	ending = ".pickle.gz"
)

// Snapshot reads a recording.
func Snapshot(t testing.TB, name string) *snapshot.Snapshot {
	t.Helper()
	f, err := os.Open(filepath.Join(folder, name+ending))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := snapshot.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Names lists the recordings whose names begin with a prefix, sorted; there is at least one.
func Names(t testing.TB, prefix string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, prefix+"*"+ending))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings %s* in %s: %v", prefix, folder, err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ending)
	}
	return files
}

// Measured is what PyTorch said of the recorded run.
type Measured struct {
	Cap   float64          `json:"cap_gib"` // limit set by the program, in GiB; 0 is none
	Stats map[string]int64 `json:"stats"`   // torch.cuda.memory_stats at the end
}

// MeasuredOf reads what stands beside a recording.
func MeasuredOf(t testing.TB, name string) Measured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var m Measured
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
