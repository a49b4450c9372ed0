package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// lintConfig is [tool.plimsoll.lint] of a pyproject.toml.
type lintConfig struct {
	Select  []string `toml:"select"`
	Ignore  []string `toml:"ignore"`
	Exclude []string `toml:"exclude"` // folders or glob patterns of paths
	FailOn  string   `toml:"fail-on"`
	Tests   bool     `toml:"tests"`
}

// under gives the options the command line leaves open.
func (c lintConfig) under(o lintOptions) lintOptions {
	if len(o.Select) == 0 {
		o.Select = c.Select
	}
	o.Ignore = append(o.Ignore, c.Ignore...)
	if o.FailOn == "" {
		o.FailOn = c.FailOn
	}
	o.Tests = o.Tests || c.Tests
	return o
}

// readLintConfig looks for the closest pyproject.toml at or above a path.
func readLintConfig(path string) (lintConfig, error) {
	dir, err := filepath.Abs(path)
	if err != nil {
		return lintConfig{}, err
	}
	for {
		file := filepath.Join(dir, "pyproject.toml")
		text, err := os.ReadFile(file)
		if err == nil {
			return decodeLintConfig(file, string(text))
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return lintConfig{}, nil
		}
		dir = parent
	}
}

func decodeLintConfig(file, text string) (lintConfig, error) {
	var project struct {
		Tool struct {
			Plimsoll struct {
				Lint lintConfig `toml:"lint"`
			} `toml:"plimsoll"`
		} `toml:"tool"`
	}
	meta, err := toml.Decode(text, &project)
	if err != nil {
		return lintConfig{}, fmt.Errorf("read %s: %w", file, err)
	}
	for _, key := range meta.Undecoded() {
		if strings.HasPrefix(key.String(), "tool.plimsoll.lint.") {
			return lintConfig{}, fmt.Errorf("%s: [tool.plimsoll.lint] has no setting %q; it has select, ignore, exclude, fail-on, tests", file, key[len(key)-1])
		}
	}
	return project.Tool.Plimsoll.Lint, nil
}

// skipped are folders that hold no code of the project's own.
var skipped = map[string]bool{
	"site-packages": true, "node_modules": true, "__pycache__": true, "build": true, "dist": true, "venv": true, "env": true,
}

// pythonFiles lists what to read: files named, and the .py and .ipynb files of folders named.
func pythonFiles(args, exclude []string, tests bool) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", arg, errors.Unwrap(err))
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil // a folder we may not read
			case d.IsDir() && path != arg && skipFolder(path, d.Name(), exclude, tests):
				return filepath.SkipDir
			case d.IsDir() || !d.Type().IsRegular() || excluded(path, exclude) || !tests && testFile(d.Name()):
				return nil
			}
			if ext := filepath.Ext(path); ext == ".py" || ext == ".ipynb" {
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func skipFolder(path, name string, exclude []string, tests bool) bool {
	return strings.HasPrefix(name, ".") || skipped[name] || excluded(path, exclude) || !tests && (name == "tests" || name == "test")
}

func testFile(name string) bool {
	return strings.HasPrefix(name, "test_") || strings.HasSuffix(name, "_test.py") || name == "conftest.py"
}

// excluded tells whether a path matches a pattern, as a whole, by its name, or as a folder at its start.
func excluded(path string, patterns []string) bool {
	slashed := filepath.ToSlash(filepath.Clean(path))
	for _, p := range patterns {
		p = strings.TrimSuffix(filepath.ToSlash(p), "/")
		whole, _ := filepath.Match(p, slashed)
		name, _ := filepath.Match(p, filepath.Base(slashed))
		if whole || name || strings.HasPrefix(slashed, p+"/") || strings.Contains("/"+slashed+"/", "/"+p+"/") {
			return true
		}
	}
	return false
}

// neighbours finds what imported local modules offer. Only the summaries are kept, not the trees, so that memory does not grow
// with the size of the project's source.
type neighbours struct {
	mu    sync.Mutex
	known map[string]*flow.Exports // by path; nil: looked for and not there
}

func newNeighbours() *neighbours { return &neighbours{known: map[string]*flow.Exports{}} }

// lookup resolves imports of one file: relative ones from its folder, absolute ones beside it and from the folder that holds
// its package.
func (n *neighbours) lookup(path string) flow.Lookup {
	dir := filepath.Dir(path)
	roots := []string{dir}
	if root := packageRoot(dir); root != dir {
		roots = append(roots, root)
	}
	return func(module string) *flow.Exports {
		name := strings.TrimLeft(module, ".")
		dots := len(module) - len(name)
		if name == "" || dots == 0 && foreign[strings.SplitN(name, ".", 2)[0]] {
			return nil
		}
		bases := roots
		if dots > 0 {
			bases = []string{filepath.Join(dir, strings.Repeat("../", dots-1))}
		}
		for _, base := range bases {
			target := filepath.Join(base, filepath.FromSlash(strings.ReplaceAll(name, ".", "/")))
			for _, candidate := range []string{target + ".py", filepath.Join(target, "__init__.py")} {
				if e := n.exports(candidate); e != nil {
					return e
				}
			}
		}
		return nil
	}
}

// packageRoot climbs out of a package: the first folder without __init__.py, which absolute imports start from.
func packageRoot(dir string) string {
	for range 12 {
		if _, err := os.Stat(filepath.Join(dir, "__init__.py")); err != nil {
			return dir
		}
		dir = filepath.Join(dir, "..")
	}
	return dir
}

// foreign are packages that are never a file of the project.
var foreign = map[string]bool{"torch": true, "numpy": true, "os": true, "sys": true, "typing": true, "math": true, "re": true, "json": true, "time": true}

func (n *neighbours) exports(path string) *flow.Exports {
	n.mu.Lock()
	e, seen := n.known[path]
	n.mu.Unlock()
	if seen {
		return e
	}
	if src, err := readSource(path); err == nil {
		e = lint.Exports(path, src)
	}
	n.mu.Lock()
	n.known[path] = e
	n.mu.Unlock()
	return e
}
