package lintout_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/show/lintout"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

const program = `import torch
from torch.cuda.amp import autocast

def train(model, loader, optimizer, criterion):
	losses = []
	for i, (x, y) in enumerate(loader):
		optimizer.zero_grad()
		with autocast(): out = model(x)  # größer
		loss = criterion(out, y)
		loss.backward()
		if (i + 1) % 4 == 0:
			optimizer.step()
		losses.append(loss)
	return torch.load("a very long name of a checkpoint that does not fit on the screen of anybody at all.pt").cuda(), losses
`

func summary() lintout.Summary {
	return lintout.Summary{Findings: lint.Source("src/train.py", []byte(program), lint.Options{}), Files: 1}
}

func TestTextUnderlinesTheSource(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	lintout.Text(screen.New(&b, screen.Style{Width: 80}), summary())
	for line := range strings.SplitSeq(b.String(), "\n") {
		if screen.Columns(line) > 80 {
			t.Errorf("%d columns: %s", screen.Columns(line), line)
		}
	}
	goldentest.Check(t, filepath.Join("testdata", "text.golden"), b.Bytes())
}

func TestMachineFormats(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"json.golden":   func(b *bytes.Buffer) error { return lintout.JSON(b, summary()) },
		"github.golden": func(b *bytes.Buffer) error { return lintout.GitHub(b, summary()) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		goldentest.Check(t, filepath.Join("testdata", name), b.Bytes())
	}
}

func TestNoFindingsIsAnEmptyListNotNull(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := lintout.JSON(&b, lintout.Summary{}); err != nil || !strings.Contains(b.String(), `"findings": []`) {
		t.Errorf("%s %v", b.String(), err)
	}
}

// What the SARIF 2.1.0 schema and GitHub's code scanning ask for.
func TestSARIFIsComplete(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := lintout.SARIF(&b, summary(), "1.0"); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Version string `json:"version"`
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name  string                `json:"name"`
					Rules []struct{ ID string } `json:"rules"`
				} `json:"driver"`
			} `json:"tool"`
			Results []struct {
				RuleID    string                `json:"ruleId"`
				RuleIndex int                   `json:"ruleIndex"`
				Level     string                `json:"level"`
				Message   struct{ Text string } `json:"message"`
				Locations []struct {
					Physical struct {
						Artifact struct{ URI string } `json:"artifactLocation"`
						Region   struct {
							StartLine, StartColumn, EndLine, EndColumn int
						} `json:"region"`
					} `json:"physicalLocation"`
				} `json:"locations"`
			} `json:"results"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(b.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	if log.Version != "2.1.0" || run.Tool.Driver.Name != "plimsoll" || len(run.Results) == 0 {
		t.Fatalf("incomplete: %s", b.String())
	}
	for _, r := range run.Results {
		region := r.Locations[0].Physical.Region
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || r.Message.Text == "" || r.Locations[0].Physical.Artifact.URI != "src/train.py" ||
			region.StartLine < 1 || region.StartColumn < 1 || !strings.Contains("error warning note", r.Level) {
			t.Errorf("incomplete result %+v", r)
		}
	}
}

func TestAPageWritesThePointsOfAListBelowOneAnother(t *testing.T) {
	t.Parallel()
	r, _ := lint.RuleByID("LM020")
	var b strings.Builder
	lintout.Page(screen.New(&b, screen.Style{Width: 80}), r)
	if n := strings.Count(b.String(), "\n- "); n < 8 || strings.Contains(b.String(), ". - ") || !strings.Contains(b.String(), "before,\n  `python -m torch.distributed.launch`") {
		t.Errorf("%d points:\n%s", n, b.String())
	}
}

func TestAPageWrapsItsTextAndKeepsItsExamples(t *testing.T) {
	t.Parallel()
	r, _ := lint.RuleByID("LM010")
	var b bytes.Buffer
	lintout.Page(screen.New(&b, screen.Style{Width: 80}), r)
	goldentest.Check(t, filepath.Join("testdata", "page.golden"), b.Bytes())
}
