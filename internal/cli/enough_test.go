package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

// remedies explains a folder and gives what is said of the first finding's remedies.
func remedies(t *testing.T, folder string) []report.Remedy {
	t.Helper()
	var e report.Explain
	r := plimsoll(t, "", "explain", "--json", folder)
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil || len(e.Findings) == 0 {
		t.Fatalf("%v: %s", err, r.stderr)
	}
	return e.Findings[0].Remedies
}

// Both programs keep the results of the step before. Tried on an H200 under the same limit: p05 runs without them; u37 does not, since the optimizer's first step has put its state into a block of 352 MiB, and of
// the pieces that are free afterwards none is large enough. p05 meets a workspace of cuDNN's that does not fit, and does without.
func TestEnoughIsPlayedToTheEndOfTheStep(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{"p05": "yes", "u37": "with: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"} {
		first := remedies(t, filepath.Join("..", "..", "testdata", "enough", program))[0]
		if first.Enough != want || first.CheckedBy != report.ByReplay {
			t.Errorf("%s: %q is enough: %q, by %s; want %q", program, first.Action, first.Enough, first.CheckedBy, want)
		}
	}
}

func TestTheLargestBatchIsANumberWhereTheLoaderIsKnown(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	found, _ := filepath.Glob(filepath.Join("..", "..", "testdata", "bench", "unseen", "run", "v11", "*.pickle*"))
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	notes := `{"schema":"plimsoll.notes/1","loaders":[{"batch":6500,"sampler":"RandomSampler"},{"batch":64,"sampler":"SequentialSampler"}]}`
	for name, content := range map[string][]byte{"rank0-1.pickle.gz": data, "rank0-1.json": []byte(notes)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range remedies(t, folder) {
		if m := regexp.MustCompile(`^a batch of (\d+): the largest that fits \(you used 6500\)`).FindStringSubmatch(r.Action); m != nil {
			if r.Enough != "yes" || m[1] < "3250" || len(m[1]) != 4 { // half of it was tried on the card, and ran
				t.Errorf("%s: enough %q", r.Action, r.Enough)
			}
			t.Log(r.Action)
			return
		}
		if strings.Contains(r.Action, "halve") {
			t.Errorf("a fraction although the batch is known: %s", r.Action)
		}
	}
	t.Error("no remedy names a batch")
}
