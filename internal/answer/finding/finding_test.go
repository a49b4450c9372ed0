package finding

import (
	"flag"
	"os"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	release "github.com/plimsoll/plimsoll/internal/torch"
)

var update = flag.Bool("update", false, "write docs/findings.md")

func TestThePageOfFindingsIsCurrent(t *testing.T) {
	t.Parallel()
	const path = "../../../docs/findings.md"
	if *update {
		if err := os.WriteFile(path, []byte(Page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != Page() {
		t.Errorf("docs/findings.md is not what the catalogue says (%v): run go test ./internal/answer/finding -update", err)
	}
}

func TestEveryEntryIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range all {
		if e.ID == "" || seen[e.ID] || e.Title == "" || e.Evidence == "" || e.Refuted == "" || len(e.Remedies) == 0 {
			t.Errorf("the entry %q is there twice or lacks a title, evidence, what refutes it or a remedy", e.ID)
		}
		seen[e.ID] = true
		if e.Severity != report.Error && e.Severity != report.Warning && e.Severity != report.Remark {
			t.Errorf("%s has the severity %q", e.ID, e.Severity)
		}
		if e.Class&Lasting != 0 && e.Class&Waste == 0 {
			t.Errorf("%s is lasting waste and no waste", e.ID)
		}
	}
}

func TestAdviceIsForWhomItFits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		who  Asker
		to   report.Applies
		want bool
	}{
		{"everyone", Asker{}, anyone, true},
		{"unknown work gets no training advice", Asker{Stack: []string{PyTorch}}, training, false},
		{"training", Trainer, training, true},
		{"a server built on PyTorch", Asker{Stack: []string{"vllm", PyTorch}, Work: Serving}, torch, true},
		{"another framework", Asker{Stack: []string{"jax"}, Work: Training}, training, false},
		{"another backend", Asker{Stack: []string{PyTorch}, Backend: "hip"}, cuda, false},
		{"an unknown system", Trainer, expandable, true},
		{"Windows", Asker{Stack: []string{PyTorch}, Backend: "cuda", OS: "windows"}, expandable, false},
		{"an old release", Asker{Stack: []string{PyTorch}, Backend: "cuda", Torch: release.V2_0}, expandable, false},
		{"2.10 is after 2.1", Asker{Stack: []string{PyTorch}, Backend: "cuda", Torch: release.V2_10}, expandable, true},
	} {
		if got := c.who.fits(c.to); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Whoever asks is offered something by the findings that anyone can get.
func TestNobodyIsLeftWithoutARemedy(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"activations-dominate", "unknown", "model-load", "model-too-large", "kv-cache", "host-oom", "library-oom", "other-process", "one-large-tensor", "absurd-request", "free-but-fails"} {
		e, _ := ByID(id)
		for _, who := range []Asker{{}, Trainer, {Stack: []string{"jax"}, Backend: "tpu"}, {Stack: []string{"other"}, Work: Data}, {Stack: []string{"vllm", PyTorch}, Backend: "hip", Work: Serving}, {Stack: []string{PyTorch}, Backend: "mps", OS: "macos", Work: Diffusion}} {
			if len(e.remedies(who, 0)) == 0 {
				t.Errorf("%s offers %+v nothing", id, who)
			}
		}
	}
}
