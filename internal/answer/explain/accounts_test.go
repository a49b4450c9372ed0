package explain_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Accounts add up to what PyTorch itself says was allocated, on every recording in the repository (those of testdata/bench where their causes are tested, in package cli): at the peak to its counter of the peak, at a failure to
// the blocks of the snapshot that was taken there.
func TestAccountsAddUpToTheByte(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("../../../testdata/*/*.pickle.gz")
	kept, _ := filepath.Glob("../../../testdata/enough/*/*.pickle.gz")
	files = append(files, kept...)
	for _, file := range files {
		if strings.Contains(file, "heldout") {
			continue
		}
		t.Run(strings.TrimPrefix(file, "../../../testdata/"), func(t *testing.T) {
			t.Parallel()
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s, err := snapshot.Read(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range explain.Build([]explain.Evidence{{Name: file, Snapshot: s}}).Devices {
				var sum units.Bytes
				for _, a := range d.Accounts.List {
					sum += a.Bytes
					if a.Bytes <= 0 {
						t.Errorf("device %d has an account of %s: %+v", d.Device, a.Bytes, a)
					}
				}
				if sum != d.Accounts.Allocated {
					t.Errorf("device %d: accounts make %d bytes of %d", d.Device, sum, d.Accounts.Allocated)
				}
				// Most requested and most allocated need not be at the same event: then the accounts are a little below the counter.
				if want := counted(t, file); want > 0 && d.Complete && !d.Accounts.Failure && (sum > want || sum != want && d.Peak.Allocated == sum || 100*(want-sum) > want) {
					t.Errorf("device %d: accounts make %d bytes, PyTorch counted %d", d.Device, sum, want)
				}
				if atEnd := d.Accounts.Event == d.Events-1; d.Accounts.Failure && atEnd && sum != d.End.Allocated {
					t.Errorf("device %d: accounts make %d bytes, the snapshot taken at the failure has %d", d.Device, sum, d.End.Allocated)
				}
				if d.Events > 0 && !d.Accounts.Exact {
					t.Errorf("device %d: blocks are not known exactly", d.Device)
				}
			}
		})
	}
}

// counted is PyTorch's own counter of the peak of allocated bytes, from the file beside a recording; 0 where there is none.
func counted(t *testing.T, file string) units.Bytes {
	t.Helper()
	b, err := os.ReadFile(strings.TrimSuffix(file, ".pickle.gz") + ".json")
	if err != nil {
		return 0
	}
	var beside struct {
		Stats map[string]any `json:"stats"`
	}
	if err := json.Unmarshal(b, &beside); err != nil {
		t.Fatal(err)
	}
	n, _ := beside.Stats["allocated_bytes.all.peak"].(float64)
	return units.Bytes(n)
}
