package workspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/code/workspace"
)

// pieces are the parts that files of a random project are made of: some offer functions that others use, in circles too.
var pieces = []string{
	"import torch\n",
	"from a import step\n", "from b import step as other\n", "from c import *\nimport c\n", "from .d import Meter\n", "import missing\n",
	"def step(model, x):\n    return model(x).mean()\n",
	"def step(model, x):\n    return model(x).mean().item()\n",
	"@torch.no_grad()\ndef step(model, x):\n    return model(x)\n",
	"class Meter:\n    def __init__(self):\n        self.sum = 0\n    def update(self, v):\n        self.sum += v\n",
	"class Meter:\n    def __init__(self):\n        self.sum = 0\n    def update(self, v):\n        self.sum += v.item()\n",
	"total = 0\nfor x in loader:\n    total += step(model, x)\nprint(total)\n",
	"meter = Meter()\nfor x in loader:\n    meter.update(model(x).mean())\n",
	"def validate(model, loader):\n    model.eval()\n    for x in loader:\n        print(step(model, x))\n",
	"with torch.no_grad():\n    validate(model, loader)\n",
	"validate(model, loader)\n",
	"x = torch.load('a.pt')  # noqa: LM024\n",
	"def broken(:\n",
	"# plimsoll: ignore-file[LM001]\n",
	"class Child(Meter):\n    pass\n", "from b import Child\n", "from a import Child\nchild = Child()\nfor x in loader:\n    child.update(model(x).mean())\n",
}

var names = []string{"a.py", "b.py", "c.py", "d.py", "train.py", "nb.ipynb"}

func write(t interface{ Fatal(...any) }, dir, name, text string) {
	if strings.HasSuffix(name, ".ipynb") {
		nb, err := json.Marshal(map[string]any{"cells": []any{map[string]any{"cell_type": "code", "source": text}}})
		if err != nil {
			t.Fatal(err)
		}
		text = string(nb)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// answer is everything a check says, as text.
func answer(t interface{ Fatal(...any) }, dir string, c *workspace.Cache) string {
	var s workspace.Settings
	files, err := s.Files([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	results, err := workspace.New(s).Caching(c).Check(context.Background(), files, 2)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range results {
		found, err := json.Marshal(r.Findings)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, r.Path, r.Err, string(found))
	}
	return b.String()
}

// Whatever was written, changed, removed and checked before, a cache never changes the answer.
func TestACacheNeverChangesTheAnswer(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "project-")
		if err != nil {
			t.Fatal(err)
		}
		kept := filepath.Join(dir, ".cache")
		for step := range rapid.IntRange(2, 4).Draw(t, "steps") {
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID[string]).Draw(t, fmt.Sprint("files ", step)) {
				if step > 0 && rapid.IntRange(0, 5).Draw(t, "fate") == 0 {
					os.Remove(filepath.Join(dir, name))
					continue
				}
				write(t, dir, name, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6).Draw(t, name), ""))
			}
			c := workspace.OpenCache(kept, "test")
			got, want := answer(t, dir, c), answer(t, dir, nil)
			if got != want {
				t.Fatalf("with a cache:\n%s\nwithout:\n%s", got, want)
			}
			if err := c.Save(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestOnlyWhatChangedIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.py", pieces[6])
	write(t, dir, "b.py", pieces[0]+pieces[1]+pieces[11])
	write(t, dir, "c.py", pieces[0])
	c := workspace.MemoryCache()
	looked := func() int {
		t.Helper()
		var s workspace.Settings
		files, err := s.Files([]string{dir})
		if err != nil {
			t.Fatal(err)
		}
		w := workspace.New(s).Caching(c)
		if _, err := w.Check(context.Background(), files, 2); err != nil {
			t.Fatal(err)
		}
		return w.Looked()
	}
	if n := looked(); n != 3 {
		t.Errorf("%d files looked at the first time", n)
	}
	if n := looked(); n != 0 {
		t.Errorf("%d files looked at though nothing changed", n)
	}
	write(t, dir, "c.py", pieces[0]+"x = 1\n")
	if n := looked(); n != 1 {
		t.Errorf("%d files looked at after a change of one", n)
	}
	write(t, dir, "a.py", "# a comment\n"+pieces[6])
	if n := looked(); n != 1 {
		t.Errorf("%d files looked at after a change that offers the same", n)
	}
	write(t, dir, "a.py", pieces[7])
	if n := looked(); n != 2 {
		t.Errorf("%d files looked at after a change that another file sees", n)
	}
}

func TestADamagedCacheIsAnEmptyOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "train.py", pieces[0]+pieces[6]+pieces[11])
	kept := filepath.Join(dir, ".cache")
	want := answer(t, dir, nil)
	c := workspace.OpenCache(kept, "test")
	answer(t, dir, c)
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(kept)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	file := filepath.Join(kept, files[0].Name())
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{nil, good[:10], good[:len(good)-1], append(append([]byte{}, good[:60]...), make([]byte, len(good)-60)...), []byte("something else")} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := answer(t, dir, workspace.OpenCache(kept, "test")); got != want {
			t.Errorf("with %d bytes of damage: %s", len(bad), got)
		}
	}
}

func TestCachesAreUsedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.py", pieces[0]+pieces[6])
	write(t, dir, "train.py", pieces[0]+pieces[1]+pieces[11])
	want := answer(t, dir, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c := workspace.OpenCache(filepath.Join(dir, ".cache"), "test")
			if got := answer(panics{}, dir, c); got != want {
				t.Errorf("got %s", got)
			}
			if err := c.Save(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

type panics struct{}

func (panics) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// A file that is as large and as old as when it was read is taken as it was; one with another time or size is read.
func TestAFileIsReadAgainWhenItsTimeOrSizeChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.py")
	old := time.Now().Add(-time.Hour)
	say := func(text string, at time.Time) string {
		t.Helper()
		write(t, dir, "a.py", text)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return text
	}
	c := workspace.MemoryCache()
	bad, good := "import torch\nmodel = torch.nn.DataParallel(model)\n", "import torch\nmodel = torch.nn.DataParallels(mode)\n"
	say(bad, old)
	first := answer(t, dir, c)
	if say(good, old); answer(t, dir, c) != first {
		t.Error("a file of the same size and time was read again")
	}
	if say(good, old.Add(time.Minute)); answer(t, dir, c) == first {
		t.Error("a file with another time was not read again")
	}
	say(bad+"x = 1\n", old.Add(time.Minute))
	if got := answer(t, dir, c); got != answer(t, dir, nil) {
		t.Errorf("a file of another size was not read again: %s", got)
	}
}
