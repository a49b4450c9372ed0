package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/recorded"
	"github.com/plimsoll/plimsoll/snapshot"
)

const recordings = "../../testdata/snapshots"

func load(t testing.TB, name string) *recorded.Recording {
	t.Helper()
	f, err := os.Open(filepath.Join(recordings, name+".pickle.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := snapshot.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return recorded.New(s, 0)
}

func names(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recordings, "*.pickle.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings under %s: %v", recordings, err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".pickle.gz")
	}
	return files
}

func TestEveryRecordingIsReproducedExactly(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Open(load(t, name), Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("torch %s cap %v [%v, %v) calls %d start %d %+v", c.Torch, c.Limit.Cap, c.Limit.AtLeast, c.Limit.Below, c.EmptyCaches, len(c.start), c.Fidelity)
			if !c.Fidelity.Exact() {
				t.Errorf("%+v", c.Fidelity)
			}
		})
	}
}
