package repair_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/code/repair"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

// checked looks at a source with every rule and offers repairs.
func checked(src []byte) *lint.Report {
	report, module := lint.Look("t.py", src, nil, nil)
	repair.Offer(repair.Unit{Source: src, Module: module, Check: func(edits []pysource.Edit) *lint.Report {
		return lint.Check("t.py", pysource.Apply(src, edits), nil)
	}}, report)
	return report
}

// programs are small programs with a mistake, each below "### RULE title".
func programs(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "programs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split("\n"+string(text), "\n### ")[1:]
}

// Every repair of small programs, reviewed by eye.
func TestRepairs(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	repaired := map[string]bool{}
	for _, program := range programs(t) {
		title, code, _ := strings.Cut(program, "\n")
		id, _, _ := strings.Cut(title, " ")
		src := []byte(strings.TrimRight(code, "\n") + "\n")
		for _, f := range checked(src).Findings {
			if f.Rule != id || f.Repair == nil {
				continue
			}
			repaired[id] = true
			diff := udiff.Unified("", "", string(src), string(pysource.Apply(src, f.Repair.Edits)))
			_, diff, _ = strings.Cut(diff, "\n+++ \n")
			fmt.Fprintf(&b, "%s\n%s (%s)\n%s\n", title, f.Repair.Title, map[bool]string{true: "safe", false: "unsafe"}[f.Repair.Safe], diff)
		}
	}
	for _, id := range repair.Rules() {
		if !repaired[id] {
			t.Errorf("%s: none of its programs is repaired", id)
		}
	}
	goldentest.Check(t, filepath.Join("testdata", "repairs.golden"), []byte(b.String()))
}

// Whatever lint finds in the examples of its rules, a repair leaves Python with one finding less and none more.
func TestRepairsOfTheExamplesAreRight(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "lint", "testdata", "examples", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	tried := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split("\n"+string(text), "\n### ")[1:] {
			_, code, _ := strings.Cut(part, "\n")
			src := []byte("import torch\n" + code + "\n")
			before := checked(src)
			for _, f := range before.Findings {
				if f.Repair == nil {
					continue
				}
				tried++
				after := lint.Check("t.py", pysource.Apply(src, f.Repair.Edits), nil)
				if len(after.Findings) >= len(before.Findings) || repair.Worse(src, f.Repair.Edits, before.Findings, after.Findings) {
					t.Errorf("%s, %s:\n%s", f.Rule, f.Repair.Title, pysource.Apply(src, f.Repair.Edits))
				}
			}
		}
	}
	if tried < 60 {
		t.Errorf("only %d repairs were tried", tried)
	}
}

func TestTheDocumentationNamesTheRulesWithFixes(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "docs", "lint.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(page), "<!-- fixes -->")
	_, tail, closed := strings.Cut(rest, "<!-- end of fixes -->")
	if !found || !closed {
		t.Fatal("docs/lint.md has lost the marks around the rules with fixes")
	}
	goldentest.Check(t, path, []byte(head+"<!-- fixes -->"+strings.Join(repair.Rules(), ", ")+"<!-- end of fixes -->"+tail))
}

// A whole model stays where it is loaded to: on the CPU it would meet inputs that are on the GPU.
func TestAWholeModelIsNotLoadedOntoTheCPU(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]bool{"student.load_state_dict(teacher)": true, "student.load_state_dict(teacher.state_dict())\nprint(teacher(x.to(device)))": false} {
		found := false
		for _, f := range checked([]byte("import torch\ntorch.distributed.init_process_group('nccl')\nteacher = torch.load('teacher.pt')\nstudent.to(device)\n" + end + "\n")).Findings {
			if f.Rule == "LM024" {
				found = true
				if (f.Repair != nil) != want {
					t.Errorf("%s: %+v", end, f.Repair)
				}
			}
		}
		if !found {
			t.Errorf("%s: nothing found", end)
		}
	}
}

// In programs that the usual repair would break there is no safe one, but where the program says so.
func TestSafeRepairsBreakNoProgram(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "lint", "testdata", "hazards.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range strings.Split("\n"+string(text), "\n### ")[1:] {
		title, code, _ := strings.Cut(program, "\n")
		lines := strings.Split(code, "\n")
		for _, f := range checked([]byte(code)).Findings {
			rule, _, _ := strings.Cut(title, " ")
			if allowed := strings.Contains(lines[f.Line-1], f.Rule+" "+f.Severity.String()+" safe"); f.Rule == rule && allowed != (f.Repair != nil && f.Repair.Safe) {
				t.Errorf("%s: line %d, %s: a safe repair should be offered %v: %+v", title, f.Line, f.Rule, allowed, f.Repair)
			}
		}
	}
}

// A cell of a notebook is run again and again: what one run deletes the next does not find.
func TestNothingIsDeletedInACell(t *testing.T) {
	t.Parallel()
	src := []byte("import torch\nckpt = torch.load('a.pt')\nmodel.load_state_dict(ckpt['model'])\nfor x, y in loader:\n    optimizer.zero_grad()\n    criterion(model(x), y).backward()\n    optimizer.step()\n")
	report, module := lint.Look("a.ipynb", src, nil, nil)
	repair.Offer(repair.Unit{Source: src, Module: module, Check: func(edits []pysource.Edit) *lint.Report {
		return lint.Check("a.ipynb", pysource.Apply(src, edits), nil)
	}}, report)
	seen := false
	for _, f := range report.Findings {
		if f.Rule == "LM027" {
			seen = true
			if f.Repair != nil {
				t.Errorf("%+v", f.Repair)
			}
		}
	}
	if !seen {
		t.Error("the kept checkpoint is not reported")
	}
}
