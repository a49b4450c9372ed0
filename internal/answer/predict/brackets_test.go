package predict

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// timmBracket is a batch that ran on an RTX 3090 in 2022, and the next larger one, which did not (timm's benchmark.py: amp, SGD, PyTorch 1.12).
type timmBracket struct {
	model, layout string
	image         int
	ran, failed   int
}

// TestPublicBrackets says of both batches of sampled brackets whether they fit: scripts/brackets.sh, which exports timm's models and names their folder in
// PLIMSOLL_BRACKETS. At least 95 % of the verdicts must be right.
func TestPublicBrackets(t *testing.T) {
	folder := os.Getenv("PLIMSOLL_BRACKETS")
	if folder == "" {
		t.Skip("scripts/brackets.sh runs it")
	}
	right, verdicts, refused := 0, 0, 0
	for _, b := range sampledBrackets(t, filepath.Join(folder, "sample-1.csv")) {
		g, err := bracketGraph(folder, b, b.ran)
		larger, failed := bracketGraph(folder, b, b.failed)
		if err = cmp.Or(err, failed); err != nil {
			t.Logf("| %s | %s | %d | not predicted: %v | |", b.model, b.layout, b.image, err)
			continue
		}
		low, high := b.judged(t, g, b.ran), b.judged(t, larger, b.failed)
		note := ""
		if !low.fits {
			refused++
			note = "refused, but it ran"
		}
		if high.fits {
			note += "said to fit, but it failed"
		}
		for _, ok := range []bool{low.fits, !high.fits} {
			verdicts++
			if ok {
				right++
			}
		}
		t.Logf("| %s | %s | %d | %d: %s | %d: %s | %s |", b.model, b.layout, b.image, b.ran, low.text, b.failed, high.text, note)
	}
	share := 100 * float64(right) / float64(max(verdicts, 1))
	t.Logf("%d of %d verdicts are right (%.1f %%); %d batches that ran are refused", right, verdicts, share, refused)
	if share < 95 {
		t.Errorf("fewer than 95 %% are right")
	}
}

func sampledBrackets(t *testing.T, name string) []timmBracket {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatal(err, len(rows))
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	var out []timmBracket
	for _, row := range rows[1:] {
		number := func(name string) int {
			n, err := strconv.Atoi(row[at[name]])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		out = append(out, timmBracket{row[at["model"]], row[at["layout"]], number("img_size"), number("batch_that_ran"), number("next_batch_tried")})
	}
	return out
}

// bracketGraph is the graph of a model, for any batch or for this one.
func bracketGraph(folder string, b timmBracket, batch int) (*exported.Graph, error) {
	stem := filepath.Join(folder, fmt.Sprintf("%s-%d", b.model, b.image))
	data, err := os.ReadFile(stem + ".json.gz")
	if err != nil {
		data, err = os.ReadFile(fmt.Sprintf("%s-%d.json.gz", stem, batch))
	}
	if err != nil {
		if why, other := os.ReadFile(stem + ".failed"); other == nil {
			return nil, fmt.Errorf("%s", why)
		}
		return nil, fmt.Errorf("not exported yet")
	}
	return exported.Parse(data)
}

type judgedBatch struct {
	fits bool
	text string
}

// judged predicts a batch as the benchmark ran it: zero_grad() of that release sets gradients to zero instead of None, so that they are there in forward and
// backward, as they are in the second of two micro-batches.
func (b *timmBracket) judged(t *testing.T, g *exported.Graph, batch int) judgedBatch {
	t.Helper()
	j := job.Job{
		Source: "graph", Graph: "graph", Loss: "cross-entropy", Batch: batch, Image: b.image, Accumulate: 2,
		ParamDType: torch.FP32, Autocast: torch.FP16, Optimizer: "sgdm", ChannelsLast: b.layout == "nhwc",
	}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	card, err := gpu.Find("rtx-3090")
	if err != nil {
		t.Fatal(err)
	}
	m := Machine{Card: card, Torch: torch.V1_12}
	r, err := Run(j, Source{Graph: g}, m)
	if err != nil {
		return judgedBatch{text: err.Error()}
	}
	need := Least(r, m)
	return judgedBatch{r.Report.Fits, fmt.Sprintf("%s (%.0f %%)", r.Report.Verdict, 100*float64(need)/float64(room(m)))}
}
