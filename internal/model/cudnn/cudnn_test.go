package cudnn

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/units"
)

// measuredFile is a file of rows: the one PLIMSOLL_ROWS names where it holds rows of this kind, or the one kept with the test.
func measuredFile(t *testing.T, name, field string) (data []byte, other bool) {
	t.Helper()
	paths := []string{os.Getenv("PLIMSOLL_ROWS"), filepath.Join("testdata", name)}
	for i, path := range paths {
		if path == "" {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var buf bytes.Buffer
		if strings.HasSuffix(path, ".gz") {
			z, err := gzip.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			_, err = buf.ReadFrom(z)
			if err != nil {
				t.Fatal(err)
			}
		} else if _, err := buf.ReadFrom(f); err != nil {
			t.Fatal(err)
		}
		first, _, _ := bytes.Cut(buf.Bytes(), []byte("\n"))
		if bytes.Contains(first, []byte(field)) {
			return buf.Bytes(), i == 0
		}
	}
	t.Skip("no such rows")
	return nil, false
}

// TestConvolutionWorkspaces holds the embedded table to the fifth of the rows it was not grown from, or to all rows of PLIMSOLL_ROWS.
func TestConvolutionWorkspaces(t *testing.T) {
	t.Parallel()
	data, other := measuredFile(t, "conv.jsonl.gz", `"cl"`)
	card, rows, err := ReadRows(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	table := For(card.Capability[0], card.Capability[1])
	if table == nil {
		t.Skipf("no table for %s", card.Name)
	}
	if !other {
		rows = slices.DeleteFunc(rows, func(r Row) bool { return !r.Aside() })
	}
	for m, name := range []string{"heuristic", "benchmark, first call", "benchmark, later calls"} {
		if v := Judge(table, rows, Mode(m)); v.All.Passes > 0 {
			t.Logf("%s, %d rows\n%s", name, len(rows), v)
		}
	}
	if other {
		return
	}
	v := Judge(table, rows, Heuristic)
	if v.All.Share() < 0.87 || v.All.Off() < -0.04 || v.All.Off() > 0.04 {
		t.Error("the table does worse than promised on rows it was not grown from")
	}
	if right := float64(v.All.SureRight) / float64(max(1, v.All.Sure)); right < 0.95 {
		t.Errorf("where trees agree they are right in %.1f %% of passes only", 100*right)
	}
}

// TestATableIsGrownFromRows grows a small table twice and reads it back.
func TestATableIsGrownFromRows(t *testing.T) {
	t.Parallel()
	data, _ := measuredFile(t, "conv.jsonl.gz", `"cl"`)
	_, rows, err := ReadRows(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	rows = rows[:min(len(rows), 150)]
	g := Growth{Card: Card{SMs: 132}, Trees: 2, Tries: 20, Seed: 1}
	grown := Grow(rows, g).Encode()
	if again := Grow(rows, g).Encode(); !bytes.Equal(grown, again) {
		t.Error("the same rows give another table")
	}
	table, err := Decode(grown)
	if err != nil {
		t.Fatal(err)
	}
	if v := Judge(table, rows, Heuristic); v.All.Share() < 0.88 {
		t.Errorf("a table knows only %.1f %% of the passes it was grown from", 100*v.All.Share())
	}
}

// recurrentRow is one measured layer.
type recurrentRow struct {
	Kind          string
	In, H, Layers int
	Bi, Bf        bool
	Drop          float64
	N, Len        int
	DType         string
	Params, Out   units.Bytes
	M             struct {
		Forward  units.Bytes `json:"fwd_peak"`
		Keep     units.Bytes `json:"fwd_keep"`
		Backward units.Bytes `json:"bwd_peak"`
	}
}

func (r recurrentRow) layer() Recurrent {
	l := Recurrent{
		Gates: map[string]Gates{"LSTM": LSTM, "GRU": GRU, "RNN": RNN}[r.Kind], Input: r.In, Hidden: r.H, Layers: r.Layers, Bidirectional: r.Bi, Dropout: r.Drop > 0,
		Batch: r.N, Steps: r.Len, Width: 2, BF16: r.DType == "bf16", Weights: r.Params,
	}
	if r.DType == "fp32" {
		l.Width = 4
	}
	return l
}

// predicted are the peak of forward, what it keeps, and the peak of backward.
func (r recurrentRow) predicted() (forward, keep, backward units.Bytes) {
	l := r.layer()
	states := l.state() * 2 // first and last
	if l.Gates == LSTM {
		states *= 2
	}
	keep = r.Out + l.Reserve() + states
	if l.BF16 {
		keep += l.Weights
	}
	forward, backward = keep+l.Workspace(), l.BackwardWorkspace()+l.x()+l.Weights+states
	if r.Bf { // the input is copied to [steps, batch, features]
		forward, backward = forward+l.x(), backward+l.x()
	}
	return forward, keep, backward
}

func TestRecurrentWorkspaces(t *testing.T) {
	t.Parallel()
	data, _ := measuredFile(t, "rnn.jsonl.gz", `"layers"`)
	var n, peaks, back, kept int
	near := func(a, b units.Bytes, share float64) bool { return float64(max(a-b, b-a)) <= share*float64(b) }
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var r recurrentRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		forward, keep, backward := r.predicted()
		n++
		if near(forward, r.M.Forward, 0.01) {
			peaks++
		}
		if near(backward, r.M.Backward, 0.01) {
			back++
		}
		if max(keep-r.M.Keep, r.M.Keep-keep) <= 512 {
			kept++
		}
	}
	t.Logf("%d layers: peaks within 1 %% in %.1f %% forward, %.1f %% backward; what is kept within 512 bytes in %.1f %%", n, 100*float64(peaks)/float64(n), 100*float64(back)/float64(n), 100*float64(kept)/float64(n))
	if peaks*100 < n*95 || back*100 < n*95 || kept < n {
		t.Error("recurrent layers are less exact than measured")
	}
}

func TestACardWithoutMeasurementsGetsBothEnds(t *testing.T) {
	t.Parallel()
	c := Conv{N: 8, C: 64, H: 56, W: 56, K: 64, P: 56, Q: 56, R: 3, S: 3, Stride: 1, Pad: 1, Dilation: 1, Groups: 1, Width: 4}
	n := For(8, 6).Need(c, Forward, Heuristic)
	if n.Takes != 0 || n.Sure != 0 || n.High < 12*units.MiB {
		t.Errorf("a card that was not measured is answered with %+v", n)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sm90)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Decode(data)
		if err != nil {
			return
		}
		table.Need(Conv{N: 1, C: 8, H: 8, W: 8, K: 8, P: 8, Q: 8, R: 3, S: 3, Stride: 1, Groups: 1, Width: 4}, WeightGrad, Trial)
	})
}
