package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

const leakyLoop = "import torch\ntotal = 0\nfor x, y in loader:\n    total += criterion(model(x), y)\nprint(total)\n"

// project writes files into a folder of the test's own.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLintExitsWithThreeForErrorsAlone(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{
		"error.py":   leakyLoop,
		"warning.py": "import torch\nmodel = torch.nn.DataParallel(model)\nfor x, y in loader:\n    criterion(model(x), y).backward()\n    optimizer.step()\n    optimizer.zero_grad()\n",
		"clean.py":   "import torch\n",
	})
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"error.py"}, exitFinding},
		{[]string{"warning.py"}, exitOK},
		{[]string{"clean.py"}, exitOK},
		{[]string{"--fail-on", "warning", "warning.py"}, exitFinding},
		{[]string{"--fail-on", "never", "error.py"}, exitOK},
		{[]string{"--ignore", "LM001", "error.py"}, exitOK},
		{[]string{"--fail-on", "sometimes", "error.py"}, exitUsage},
		{[]string{"--select", "LM999", "error.py"}, exitUsage},
		{[]string{"--json", "--sarif", "clean.py"}, exitUsage},
		{[]string{"missing.py"}, exitUnreadable},
	} {
		args := append([]string{"lint"}, c.args...)
		args[len(args)-1] = filepath.Join(dir, args[len(args)-1])
		if r := plimsoll(t, "", args...); r.code != c.code {
			t.Errorf("plimsoll %v: exit %d, not %d\n%s%s", args, r.code, c.code, r.stdout, r.stderr)
		}
	}
}

func TestLintReadsFoldersWithoutTestsAndStrangers(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{
		"train.py": leakyLoop, "tests/test_train.py": leakyLoop, "test_other.py": leakyLoop, "test_unit.py": "import pytest\n" + leakyLoop, ".hidden/x.py": leakyLoop,
		"venv/lib/site-packages/y.py": leakyLoop, "old/legacy.py": leakyLoop, "notes.txt": leakyLoop,
		"nb.ipynb":       `{"cells":[{"cell_type":"code","source":["import torch\n","torch.nn.DataParallel(model)"]}]}`,
		"pyproject.toml": "[tool.other]\nx = 1\n[tool.plimsoll.lint]\nexclude = [\"old\"]\n",
	})
	files := func(args ...string) string {
		var report struct {
			Schema   string
			Findings []struct{ File string }
		}
		r := plimsoll(t, "", append([]string{"lint", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || report.Schema != "plimsoll.lint/1" {
			t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
		}
		var names []string
		for _, f := range report.Findings {
			rel, _ := filepath.Rel(dir, f.File)
			names = append(names, filepath.ToSlash(rel))
		}
		return strings.Join(names, " ")
	}
	if got := files(dir); got != "nb.ipynb test_other.py train.py" {
		t.Errorf("read %s", got)
	}
	if got := files("--tests", dir); got != "nb.ipynb test_other.py test_unit.py tests/test_train.py train.py" {
		t.Errorf("with tests: read %s", got)
	}
	if got := files(filepath.Join(dir, "test_unit.py")); got != "test_unit.py" {
		t.Errorf("a file named was not read: %s", got)
	}
}

func TestLintRefusesAnUnknownSetting(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{"a.py": "x = 1\n", "pyproject.toml": "[tool.plimsoll.lint]\nignroe = [\"LM001\"]\n"})
	if r := plimsoll(t, "", "lint", dir); r.code != exitUnreadable || !strings.Contains(r.stderr, "ignroe") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

func TestLintFollowsLocalImports(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{
		"pkg/__init__.py":     "",
		"pkg/engine.py":       "def loss_of(model, x):\n    return model(x).mean()\ndef number_of(model, x):\n    return model(x).mean().item()\n",
		"pkg/train.py":        "import torch\nfrom .engine import loss_of, number_of\na = b = 0\nfor x in loader:\n    a += loss_of(model, x)\n    b += number_of(model, x)\nprint(a, b)\n",
		"pkg/sub/__init__.py": "",
		"pkg/sub/absolute.py": "import torch\nfrom pkg.engine import loss_of\na = 0\nfor x in loader:\n    a += loss_of(model, x)\nprint(a)\n",
	})
	r := plimsoll(t, "", "lint", dir)
	if !strings.Contains(r.stdout, "train.py:5:5") || strings.Contains(r.stdout, "train.py:6") || !strings.Contains(r.stdout, "absolute.py:5:5") {
		t.Errorf("%s", r.stdout)
	}
}

func TestLintFixRewritesTheFile(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{"a.py": "import torch\nwith torch.cuda.amp.autocast():\n    model(x)\n", "requirements.txt": "torch>=2.1\n"})
	r := plimsoll(t, "", "lint", "--fix", dir)
	text, err := os.ReadFile(filepath.Join(dir, "a.py"))
	if err != nil || !strings.Contains(string(text), `torch.amp.autocast("cuda")`) || !strings.Contains(r.stdout, "1 finding fixed") {
		t.Errorf("%s\n%s %v", text, r.stdout, err)
	}
}

// A repair is what the report offers, with all that the project shows: where another file says that the project runs on PyTorch 0.3, nothing is written that 0.3 does
// not take, and what has no repair is left alone.
func TestLintFixesWhatTheReportOffers(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{
		"load.py":  "import torch\nmodel.cuda()\nmodel.load_state_dict(torch.load(\"checkpoint.pt\"))\ntorch.save(model.state_dict(), \"checkpoint.pt\")\n",
		"test.py":  "import torch\nmodel.eval()\nfor x, y in test_loader:\n    print(model(x))\n",
		"train.py": "from torch.autograd import Variable\nx = Variable(x, volatile=True)\n",
	})
	r := plimsoll(t, "", "lint", "--diff", "--unsafe-fixes", dir)
	if !strings.Contains(r.stdout, "lambda storage, loc: storage") || strings.Contains(r.stdout, `"cpu"`) || strings.Contains(r.stdout, "no_grad") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
}

func TestLintExplainsItsRules(t *testing.T) {
	t.Parallel()
	if r := plimsoll(t, "", "lint", "--explain", "lm017"); r.code != exitOK || !strings.Contains(r.stdout, "made in place") {
		t.Errorf("exit %d: %s", r.code, r.stdout)
	}
	if r := plimsoll(t, "", "lint", "--explain", "LM999"); r.code != exitUsage {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if r := plimsoll(t, "", "lint"); r.code != exitUsage {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

func TestLintFindingsServeOtherCommands(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{"train.py": leakyLoop})
	found := LintFindings([]string{filepath.Join(dir, "train.py"), filepath.Join(dir, "gone.py")})
	if len(found) != 1 || found[0].Rule != "LM001" || found[0].Line != 4 {
		t.Errorf("%+v", found)
	}
}

func TestExplainNamesTheLintFindingOnTheGuiltyLine(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{"train.py": leakyLoop, "other.py": leakyLoop})
	findings := []report.Finding{
		{ID: "growth", Confidence: 0.8, Where: []report.Place{{File: "/home/me/run/train.py", Line: 4}}},
		{ID: "fragmentation", Confidence: 0.8, Where: []report.Place{{File: "/home/me/run/train.py", Line: 40}}},
	}
	if err := nameInSource(findings, filepath.Join(dir, "train.py")); err != nil {
		t.Fatal(err)
	}
	f := findings[0]
	if len(f.Lint) != 1 || f.Lint[0] != "LM001" || f.Confidence < 0.89 || len(f.Remedies) != 1 || !strings.Contains(f.Evidence[0], "train.py:4") {
		t.Errorf("%+v", f)
	}
	if len(findings[1].Lint) != 0 {
		t.Errorf("a finding elsewhere was raised: %+v", findings[1])
	}
}

func TestLintSaysWhereItFoundNothingToRead(t *testing.T) {
	t.Parallel()
	if r := plimsoll(t, "", "lint", t.TempDir()); r.code != exitOK || !strings.Contains(r.stderr, "no Python files") {
		t.Errorf("exit %d, stderr %q", r.code, r.stderr)
	}
}

func TestLintFixesNotebooksAndKeepsTheirFormatting(t *testing.T) {
	t.Parallel()
	nb := "{\n \"cells\": [\n  {\"cell_type\": \"code\", \"source\": [\n   \"import torch\\n\",\n   \"with torch.cuda.amp.autocast():\\n\",\n   \"    model(x)\"]}],\n \"nbformat\": 4}\n"
	dir := project(t, map[string]string{"a.ipynb": nb, "requirements.txt": "torch>=2.1\n"})
	plimsoll(t, "", "lint", "--fix", dir)
	text, err := os.ReadFile(filepath.Join(dir, "a.ipynb"))
	if want := strings.Replace(nb, "torch.cuda.amp.autocast()", `torch.amp.autocast(\"cuda\")`, 1); err != nil || string(text) != want {
		t.Errorf("%s %v", text, err)
	}
}

func TestLintShowsADiffAndChangesNothing(t *testing.T) {
	t.Parallel()
	const program = "import torch\nwith torch.cuda.amp.autocast():\n    model(x)\nfor x, y in loader:\n    loss = criterion(model(x), y)\n    loss.backward(retain_graph=True)\n    optimizer.step()\n    optimizer.zero_grad()\n"
	dir := project(t, map[string]string{"a.py": program, "requirements.txt": "torch>=2.1\n"})
	safe := plimsoll(t, "", "lint", "--diff", dir)
	if safe.code != exitFinding || !strings.Contains(safe.stdout, "+with torch.amp.autocast(\"cuda\"):") || strings.Contains(safe.stdout, "+    loss.backward()") {
		t.Errorf("exit %d\n%s", safe.code, safe.stdout)
	}
	all := plimsoll(t, "", "lint", "--diff", "--unsafe-fixes", dir)
	if !strings.Contains(all.stdout, "+    loss.backward()") {
		t.Errorf("%s", all.stdout)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "a.py")); string(text) != program {
		t.Errorf("the file was changed:\n%s", text)
	}
	plimsoll(t, "", "lint", "--fix", "--unsafe-fixes", dir)
	if r := plimsoll(t, "", "lint", "--diff", "--unsafe-fixes", dir); r.code != exitOK || r.stdout != "" {
		t.Errorf("fixed, and still a diff:\n%s", r.stdout)
	}
}

func TestLintHidesWhatTheBaselineKnows(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{"a.py": leakyLoop, "pyproject.toml": "[tool.plimsoll.lint]\nbaseline = \"old.json\"\n"})
	file := filepath.Join(dir, "old.json")
	if r := plimsoll(t, "", "lint", dir); r.code != exitUnreadable || !strings.Contains(r.stderr, "baseline") {
		t.Errorf("exit %d without the baseline that is named: %s", r.code, r.stderr)
	}
	if r := plimsoll(t, "", "lint", "--write-baseline", file, dir); r.code != exitOK {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if r := plimsoll(t, "", "lint", dir); r.code != exitOK || !strings.Contains(r.stdout, "1 finding in the baseline not shown") {
		t.Errorf("exit %d: %s", r.code, r.stdout)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.py"), []byte("# a line above\n"+leakyLoop+strings.Replace(leakyLoop, "total", "other", -1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := plimsoll(t, "", "lint", dir); r.code != exitFinding || !strings.Contains(r.stdout, "other += criterion") || strings.Contains(r.stdout, "total += criterion") {
		t.Errorf("exit %d: %s", r.code, r.stdout)
	}
	if r := plimsoll(t, "", "lint", "--ignore", "LM0", dir); !strings.Contains(r.stdout, "1 finding of the baseline no longer in the code") {
		t.Errorf("%s", r.stdout)
	}
}

func TestLintSettingsForSomeFiles(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{
		"a.py": leakyLoop, "scripts/deep/b.py": leakyLoop, "c.py": leakyLoop,
		"pyproject.toml": "[tool.plimsoll.lint]\nper-file-ignores = {\"scripts/**/*.py\" = [\"LM001\"], \"c.py\" = [\"ALL\"]}\nseverity = {LM001 = \"warning\"}\n",
	})
	r := plimsoll(t, "", "lint", dir)
	if r.code != exitOK || strings.Count(r.stdout, "warning LM001") != 1 || !strings.Contains(r.stdout, "a.py:4") {
		t.Errorf("exit %d: %s", r.code, r.stdout)
	}
	for setting, word := range map[string]string{
		`severity = {LM001 = "loud"}`: "loud", `severity = {LM777 = "off"}`: "LM777", `per-file-ignores = {"a.py" = ["LM777"]}`: "LM777",
	} {
		dir := project(t, map[string]string{"a.py": leakyLoop, "pyproject.toml": "[tool.plimsoll.lint]\n" + setting + "\n"})
		if r := plimsoll(t, "", "lint", dir); r.code != exitUnreadable || !strings.Contains(r.stderr, word) {
			t.Errorf("%s: exit %d: %s", setting, r.code, r.stderr)
		}
	}
	off := project(t, map[string]string{"a.py": leakyLoop, "pyproject.toml": "[tool.plimsoll.lint]\nseverity = {LM001 = \"off\"}\n"})
	if r := plimsoll(t, "", "lint", off); r.code != exitOK || strings.Contains(r.stdout, "LM001") {
		t.Errorf("exit %d: %s", r.code, r.stdout)
	}
}
