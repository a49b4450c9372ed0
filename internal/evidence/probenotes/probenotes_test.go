package probenotes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
	"github.com/plimsoll/plimsoll/internal/units"
)

// trained makes a process that trained on GPU 0 of 24 GiB and held these bytes after its steps.
func trained(rank int, peak units.Bytes, held ...units.Bytes) Process {
	device := 0
	p := Process{Schema: schema, Rank: rank, Device: &device, Cards: []Card{{0, "RTX 4090", 24 * units.GiB}}, Step: len(held), Ended: true,
		Peak: Peak{Allocated: peak, Step: 2, Phase: "backward"}}
	for i, h := range held {
		p.History = append(p.History, []json.Number{json.Number(fmt.Sprint(i)), "0.5", json.Number(fmt.Sprint(int64(h))), "0", "0"})
	}
	return p
}

func repeated(b units.Bytes, n int) []units.Bytes {
	all := make([]units.Bytes, n)
	for i := range all {
		all[i] = b
	}
	return all
}

func TestClosingLinesReadAsWritten(t *testing.T) {
	t.Parallel()
	steady := trained(0, 18*units.GiB, repeated(2*units.GiB, 20)...)
	batch := 32
	withBatch := steady
	withBatch.Loaders = []Loader{{Batch: &batch, Sampler: "RandomSampler"}}
	var growing []units.Bytes
	for i := range 20 {
		growing = append(growing, 2*units.GiB+units.Bytes(i)*64*units.MiB)
	}
	survived := steady
	survived.OOMCount = 3
	half := 0.5
	capped := trained(0, 10*units.GiB, repeated(2*units.GiB, 20)...)
	capped.CapFraction = &half
	context, crowd := 600*units.MiB, 134*units.GiB
	alone, crowded := withBatch, withBatch
	alone.Outside = &context
	crowded.Outside, crowded.Cards, crowded.Peak.Allocated = &crowd, []Card{{0, "H200", 140 * units.GiB}}, 5*units.GiB
	full := crowded
	full.Peak.Allocated = 7 * units.GiB
	cases := []struct {
		name      string
		processes []Process
	}{
		{"alone on the card", []Process{alone}},
		{"others hold 134 of 140 GiB", []Process{crowded}},
		{"others came after its peak", []Process{full}},
		{"steady", []Process{steady}},
		{"steady, batch known", []Process{withBatch}},
		{"growing", []Process{trained(0, 8*units.GiB, growing...)}},
		{"two steps only", []Process{trained(0, 3*units.GiB, units.GiB, units.GiB)}},
		{"capped", []Process{capped}},
		{"survived failures", []Process{survived}},
		{"four ranks, one apart", []Process{trained(0, 20*units.GiB, repeated(units.GiB, 9)...), trained(1, 9*units.GiB), trained(2, 9*units.GiB), trained(3, 9*units.GiB)}},
		{"four even ranks", []Process{trained(0, 9*units.GiB), trained(1, 9*units.GiB), trained(2, 9*units.GiB), trained(3, 9*units.GiB)}},
		{"no GPU", []Process{{Schema: schema}}},
		{"nothing", nil},
	}
	var out bytes.Buffer
	for _, c := range cases {
		fmt.Fprintf(&out, "# %s\n%s\n\n", c.name, strings.Join(Healthy(c.processes), "\n"))
	}
	goldentest.Check(t, filepath.Join("testdata", "healthy.golden"), out.Bytes())
}

func TestOnlyProcessesThatMemoryEndedCountAsDead(t *testing.T) {
	t.Parallel()
	oom, other := &Failure{Type: "OutOfMemoryError", OutOfMemory: true}, &Failure{Type: "ValueError"}
	for _, c := range []struct {
		name string
		p    Process
		dead bool
	}{
		{"uncaught", Process{Error: oom}, true},
		{"killed after a failed request", Process{OOMs: []OOM{{Requested: 1}}}, true},
		{"survived a failed request, then another error", Process{OOMs: []OOM{{Requested: 1}}, Error: other, Ended: true}, false},
		{"another error", Process{Error: other, Ended: true}, false},
		{"terminated by the launcher", Process{}, false},
	} {
		if got := len(Died([]Process{c.p})) == 1; got != c.dead {
			t.Errorf("%s: dead %v, want %v", c.name, got, c.dead)
		}
	}
	line := WhoDied([]Process{trained(1, 9*units.GiB)}, []Process{trained(0, 4*units.GiB), trained(1, 9*units.GiB), trained(2, 4*units.GiB)})
	if want := "out of memory on rank 1 of 3. Rank 1 stands out: 9.0 GiB, the median rank holds 4.0 GiB."; line != want {
		t.Errorf("got %q", line)
	}
}

func TestNotesOfAnotherSchemaAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"schema":"plimsoll.notes/2"}`, `{}`, `[]`, `{"schema":`, ""} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func FuzzRead(f *testing.F) {
	seeds, _ := filepath.Glob(filepath.Join("testdata", "*.json"))
	for _, path := range seeds {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema":"plimsoll.notes/1","device":0,"history":[[1e400,0,"x"],[],[1,2,-9223372036854775808]],"cards":[{"capacity":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		Healthy([]Process{p, p})
		WhoDied(Died([]Process{p}), []Process{p, p})
	})
}
