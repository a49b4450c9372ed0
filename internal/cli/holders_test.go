package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// lookedInto copies a recording into a folder of its own with the holders a walk would have found: what stays from step to step lies in
// the list losses, parameters and state belong to model; the first so many losses are left out.
func lookedInto(t *testing.T, name string, without int) string {
	t.Helper()
	data, err := os.ReadFile(recordings + name + ".pickle.gz")
	if err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	line := timeline.New(recording.New(s, 0), callsite.NewTable(&s.Stacks))
	losses := holders.Holder{Role: holders.Saved, Name: holders.Name{Name: "losses[*]", In: &holders.Place{File: "/home/me/train.py", Line: 101, Function: "train"}},
		Type: "list", Op: "AddmmBackward0", Also: []holders.Name{{Name: "self.history[*]"}}}
	model := holders.Holder{Role: holders.Parameter, Name: holders.Name{Name: "model", In: &holders.Place{File: "/home/me/train.py", Line: 61, Function: "main"}}, Type: "MLP"}
	last := map[*holders.Holder]uint64{}
	add := func(h *holders.Holder, id int, own string) {
		h.Addresses = append(h.Addresses, int64(line.Addr[id]-last[h]))
		h.Sizes = append(h.Sizes, int64(line.Size(id)))
		last[h] = line.Addr[id]
		h.Bytes += line.Size(id)
		h.Count++
		if own != "" {
			h.Names = append(h.Names, own)
		}
	}
	for id, died := range line.Died {
		switch {
		case died != recording.NeverFreed:
		case line.Category[id] == tape.Parameters:
			add(&model, id, "layers."+string(rune('a'+model.Count%26))+".weight")
		case line.Category[id] == tape.Activations:
			if without--; without < 0 {
				add(&losses, id, "")
			}
		}
	}
	file := holders.File{Schema: holders.Schema, When: holders.AtOOM, Walk: holders.Walk{Seconds: 0.3, Complete: true}, Holders: []holders.Holder{losses, model}}
	folder := t.TempDir()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if err := json.NewEncoder(w).Encode(file); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for ending, content := range map[string][]byte{".pickle.gz": data, ".holders.json.gz": z.Bytes()} {
		if err := os.WriteFile(filepath.Join(folder, name+ending), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, name+".pickle.gz")
}

func TestHoldersAreToldWhereARecordingHasThem(t *testing.T) {
	t.Parallel()
	path := lookedInto(t, "leak-oom", 0)
	got := plimsoll(t, "", "explain", path)
	goldentest.Check(t, filepath.Join("testdata", "explain", "leak-oom-holders.golden"), []byte(strings.ReplaceAll(got.stdout, filepath.Dir(path), "DIR")))

	e := explained(t, filepath.Dir(path)) // the folder has one recording, not two inputs
	if len(e.Inputs) != 1 {
		t.Errorf("inputs %v", e.Inputs)
	}
	d := e.Devices[0]
	var sum units.Bytes
	for _, h := range d.Holders {
		sum += h.Bytes
	}
	if sum != d.End.Requested {
		t.Errorf("holders add up to %d, in use at the end are %d", sum, d.End.Requested)
	}
	if h := d.Holders[0]; h.Name != "saved for backward in the graph of losses[*] in train.py:101 train" || h.PerStep <= 0 || h.Also[0] != "self.history[*]" {
		t.Errorf("largest holder %+v", h)
	}
	if again := explained(t, strings.TrimSuffix(path, ".pickle.gz")+".holders.json.gz"); len(again.Devices) != 1 || again.Devices[0].Walk == nil {
		t.Error("a holders file does not lead to its recording")
	}
}

func TestHoldersAreExported(t *testing.T) {
	t.Parallel()
	path := lookedInto(t, "leak-oom", 0)
	folded := plimsoll(t, "", "explain", "--folded-holders", path).stdout
	if !strings.HasPrefix(folded, "saved for backward in the graph of losses[*] in train.py:101 train;AddmmBackward0 ") || !strings.Contains(folded, ";layers.a.weight ") {
		t.Errorf("folded lines:\n%s", folded)
	}
	out := filepath.Join(t.TempDir(), "held.pb.gz")
	if r := plimsoll(t, "", "explain", "--pprof-holders", out, path); r.code != 0 {
		t.Fatalf("code %d: %s", r.code, r.stderr)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil || len(p.Sample) < 3 {
		t.Errorf("profile %v: %v", p, err)
	}
	if r := plimsoll(t, "", "explain", "--folded-holders", recordings+"leak-oom.pickle.gz"); r.code == 0 || !strings.Contains(r.stderr, "has no holders") {
		t.Errorf("code %d: %s", r.code, r.stderr)
	}
}

func TestDiffTellsWhichHolderGrew(t *testing.T) {
	t.Parallel()
	r := plimsoll(t, "", "diff", "--json", lookedInto(t, "leak-oom", 40), lookedInto(t, "leak-oom", 0))
	var d report.Diff
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil {
		t.Fatalf("%v: %s", err, r.stderr)
	}
	grew := 0
	for _, c := range d.ByHolder {
		if strings.Contains(c.Name, "losses[*]") && c.After > c.Before && c.CountAfter == c.CountBefore+40 {
			grew++
		}
	}
	if grew != 1 {
		t.Errorf("changes %+v", d.ByHolder)
	}
	text := plimsoll(t, "", "diff", lookedInto(t, "leak-oom", 40), lookedInto(t, "leak-oom", 0)).stdout
	if !strings.Contains(text, "By who holds it") {
		t.Errorf("%s", text)
	}
}

func TestAPageStacksByHolderAndModule(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "page.html")
	if r := plimsoll(t, "", "view", "--html", out, lookedInto(t, "leak-oom", 0)); r.code != 0 {
		t.Fatalf("code %d: %s", r.code, r.stderr)
	}
	page := carriedPage(t, out)
	for _, want := range []string{`"holder event"`, `"module event"`, `"groups":["category","line","phase","holder","module"]`, `losses[*] in train.py:101 train`, `"layers.a"`} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page does not have %s", want)
		}
	}
}
