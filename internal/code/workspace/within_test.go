package workspace

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFenceKeepsWhatIsOutsideOut(t *testing.T) {
	outside := t.TempDir()
	inside := filepath.Join(outside, "project")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(outside, "pyproject.toml"): "[tool.plimsoll.lint]\nignore = [\"ALL\"]\n",
		filepath.Join(outside, "secret.py"):      "",
		filepath.Join(inside, "here.py"):         "",
		filepath.Join(inside, "train.py"):        "import here\nimport secret\nimport linked\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "secret.py"), filepath.Join(inside, "linked.py")); err != nil {
		t.Skip("no links here:", err)
	}
	fence, err := NewFence([]string{inside})
	if err != nil {
		t.Fatal(err)
	}
	s, err := ReadSettings(inside, fence)
	if err != nil || len(s.Ignore) != 0 {
		t.Errorf("settings %+v, %v: pyproject.toml above the fence was read", s, err)
	}
	w := New(s)
	for _, name := range []string{"secret.py", "project/linked.py"} {
		if _, err := w.read(filepath.Join(outside, name)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if _, err := w.read(filepath.Join(inside, "here.py")); err != nil {
		t.Error(err)
	}
	if got := w.importsOf(filepath.Join(inside, "train.py")); len(got) == 0 || got[0] != filepath.Join(inside, "here.py") {
		t.Errorf("imports %v: what is inside is found", got)
	}
	for _, path := range w.importsOf(filepath.Join(inside, "train.py")) {
		if filepath.Base(path) == "secret.py" {
			t.Errorf("a module above the fence was found: %s", path)
		}
	}
	if open, err := ReadSettings(inside, nil); err != nil || len(open.Ignore) != 1 {
		t.Errorf("without a fence: %+v, %v", open, err)
	}
}
