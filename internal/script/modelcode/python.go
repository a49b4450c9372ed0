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
)

// python is an interpreter and what it has installed.
type python struct {
	Path         string    `json:"path"`
	Torch        string    `json:"torch"`
	Transformers string    `json:"transformers"`
	Site         string    `json:"site"`    // the folder they lie in
	Changed      time.Time `json:"changed"` // when something was last installed there
}

// ErrNoPython is in the chain of the error for a missing interpreter, torch or transformers.
var ErrNoPython = errors.New("no Python with torch and transformers")

// Interpreter is the path of the Python that is used.
func (r *Reader) Interpreter() (string, error) {
	p, err := r.find()
	if err != nil {
		return "", err
	}
	return p.Path, nil
}

// Bare is the same without a look at what is installed there.
func (r *Reader) Bare() (string, error) { return r.interpreter() }

// find looks for the interpreter and the versions it has. What it found is remembered beside the graphs: starting Python takes longer than a prediction.
func (r *Reader) find() (*python, error) {
	path, err := r.interpreter()
	if err != nil {
		return nil, err
	}
	note := filepath.Join(r.cache(), "pythons.json")
	known := map[string]python{}
	if data, err := os.ReadFile(note); err == nil {
		// A broken note is as good as none.
		_ = json.Unmarshal(data, &known)
	}
	if p, ok := known[path]; ok && changed(p.Site).Equal(p.Changed) {
		return &p, nil
	}
	p, err := r.versions(path)
	if err != nil {
		return nil, err
	}
	known[path] = *p
	if data, err := json.Marshal(known); err == nil {
		store(note, data)
	}
	return p, nil
}

// interpreter is the one that was named, that of an active or local virtual environment, or python3 on PATH.
func (r *Reader) interpreter() (string, error) {
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
			return "", fmt.Errorf("%w: --python %s cannot be started", ErrNoPython, name)
		}
	}
	for _, dir := range filepath.SplitList(vars["PATH"]) {
		if path, err := exec.LookPath(filepath.Join(dir, "python3")); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: there is no python3 on PATH; install one and run: pip install torch transformers", ErrNoPython)
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
    d = m.distribution("transformers")
    print(json.dumps({"torch": m.version("torch"), "transformers": d.version, "site": os.path.abspath(str(d.locate_file("")))}))
except m.PackageNotFoundError as missing:
    sys.exit(str(missing.name or missing))
`

// versions asks an interpreter what it has, without importing any of it.
func (r *Reader) versions(path string) (*python, error) {
	cmd := exec.Command(path, "-c", askVersions)
	cmd.Env = r.Env
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 && len(exit.Stderr) < 60 {
		return nil, fmt.Errorf("%w: %s has no %s; run: %s -m pip install torch transformers (or name another Python with --python)", ErrNoPython, path, strings.TrimSpace(string(exit.Stderr)), path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s does not run: %w", ErrNoPython, path, err)
	}
	p := python{Path: path}
	if err := json.Unmarshal(out, &p); err != nil {
		return nil, fmt.Errorf("%w: %s did not name its packages: %w", ErrNoPython, path, err)
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
