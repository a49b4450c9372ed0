package cudnn

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
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

// TestConvolutionWorkspaces holds a table grown from four fifths of the rows to the fifth it never saw, or the embedded one to the rows of PLIMSOLL_ROWS.
func TestConvolutionWorkspaces(t *testing.T) {
	t.Parallel()
	data, other := measuredFile(t, "conv.jsonl.gz", `"cl"`)
	rows, err := ReadRows(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if other {
		t.Logf("%d rows\n%s", len(rows), Judge(For(9, 0), rows))
		return
	}
	var kept, aside []Row
	for _, r := range rows {
		if r.Aside() {
			aside = append(aside, r)
		} else {
			kept = append(kept, r)
		}
	}
	v := Judge(Grow(kept, Growth{SMs: 132, Trees: 5, Tries: 20, Seed: 1}), aside)
	t.Logf("%d of %d rows kept aside\n%s", len(aside), len(rows), v)
	if v.All.Share() < 0.83 || v.All.Off() < -0.06 || v.All.Off() > 0.06 {
		t.Error("a table of a few trees does worse on rows kept aside than it did")
	}
	if right := float64(v.All.SureRight) / float64(max(1, v.All.Sure)); right < 0.95 {
		t.Errorf("where trees agree they are right in %.1f %% of passes only", 100*right)
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
	n := For(8, 6).Need(c, Forward)
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
		table.Need(Conv{N: 1, C: 8, H: 8, W: 8, K: 8, P: 8, Q: 8, R: 3, S: 3, Stride: 1, Groups: 1, Width: 4}, WeightGrad)
	})
}
