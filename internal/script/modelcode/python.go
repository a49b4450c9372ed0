package modelcode

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// python is an interpreter and what it has installed.
type python struct {
	Path    string           `json:"path"`
	Torch   string           `json:"torch"`
	Library hfconfig.Library `json:"library"` // whose models are read with it
	Version string           `json:"version"` // of that library
	Site    string           `json:"site"`    // the folder it lies in
	Changed time.Time        `json:"changed"` // when something was last installed there
}

// ErrNoPython is in the chain of the error for a missing interpreter, torch or library.
var ErrNoPython = errors.New("no Python")

// lacking is the error for a Python that models of a library cannot be read with.
func lacking(lib hfconfig.Library, format string, args ...any) error {
	return fmt.Errorf("%w with torch and %s: %w", ErrNoPython, lib, fmt.Errorf(format, args...))
}

// Interpreter is the path of the Python that is used.
func (r *Reader) Interpreter() (string, error) {
	p, err := r.find(hfconfig.Transformers)
	if err != nil {
		return "", err
	}
	return p.Path, nil
}

// Bare is the same without a look at what is installed there.
func (r *Reader) Bare() (string, error) { return r.interpreter() }

// with finds the interpreter for models of a library, once.
func (r *Reader) with(lib hfconfig.Library) (*python, error) {
	if r.found == nil {
		r.found, r.missing = map[hfconfig.Library]*python{}, map[hfconfig.Library]error{}
	}
	if r.found[lib] == nil && r.missing[lib] == nil {
		r.found[lib], r.missing[lib] = r.find(lib)
	}
	return r.found[lib], r.missing[lib]
}

// find looks for the interpreter and the versions it has. What it found is remembered beside the graphs: starting Python takes longer than a prediction.
func (r *Reader) find(lib hfconfig.Library) (*python, error) {
	path, err := r.interpreterFor(lib)
	if err != nil {
		return nil, err
	}
	key := path + " " + string(lib)
	note := filepath.Join(r.cache(), "pythons.json")
	known := map[string]python{}
	if data, err := os.ReadFile(note); err == nil {
		// A broken note is as good as none.
		_ = json.Unmarshal(data, &known)
	}
	if p, ok := known[key]; ok && p.Version != "" && p.Library == lib && changed(p.Site).Equal(p.Changed) { // an older release keeps less of it
		return &p, nil
	}
	p, err := r.versions(path, lib)
	if err != nil {
		return nil, err
	}
	known[key] = *p
	if data, err := json.Marshal(known); err == nil {
		store(note, data)
	}
	return p, nil
}

// interpreter is the one that was named, that of an active or local virtual environment, or python3 on PATH.
func (r *Reader) interpreter() (string, error) { return r.interpreterFor(hfconfig.Transformers) }

// interpreterFor is the same; the error says what it would be needed for.
func (r *Reader) interpreterFor(lib hfconfig.Library) (string, error) {
	vars := map[string]string{}
	for _, entry := range r.Env {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	for _, name := range []string{r.Python, under(vars["VIRTUAL_ENV"]), under(vars["CONDA_PREFIX"]), under(".venv")} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				return path, nil
			}
		}
		if name == r.Python {
			return "", lacking(lib, "--python %s cannot be started", name)
		}
	}
	for _, dir := range filepath.SplitList(vars["PATH"]) {
		if path, err := exec.LookPath(filepath.Join(dir, "python3")); err == nil {
			return path, nil
		}
	}
	return "", lacking(lib, "there is no python3 on PATH; install one and run: pip install torch %s", lib)
}

func under(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "bin", "python")
}

const askVersions = `
import importlib.metadata as m, json, os, sys
try:
    d = m.distribution(sys.argv[1])
    print(json.dumps({"torch": m.version("torch"), "version": d.version, "site": os.path.abspath(str(d.locate_file("")))}))
except m.PackageNotFoundError as missing:
    sys.exit(str(missing.name or missing))
`

// versions asks an interpreter what it has, without importing any of it.
func (r *Reader) versions(path string, lib hfconfig.Library) (*python, error) {
	cmd := exec.Command(path, "-c", askVersions, string(lib))
	cmd.Env = r.Env
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 && len(exit.Stderr) < 60 {
		return nil, lacking(lib, "%s has no %s; run: %s -m pip install torch %s (or name another Python with --python)", path, strings.TrimSpace(string(exit.Stderr)), path, lib)
	}
	if err != nil {
		return nil, lacking(lib, "%s does not run: %w", path, err)
	}
	p := python{Path: path, Library: lib}
	if err := json.Unmarshal(out, &p); err != nil {
		return nil, lacking(lib, "%s did not name its packages: %w", path, err)
	}
	p.Changed = changed(p.Site)
	return &p, nil
}

// changed is when something was last installed into a folder; the zero time where there is none.
func changed(dir string) time.Time {
	info, err := os.Stat(dir)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime().UTC().Truncate(time.Microsecond)
}
