package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// Settings is [tool.plimsoll.lint] of a pyproject.toml, with what the command line adds.
type Settings struct {
	Select         []string            `toml:"select"`
	Ignore         []string            `toml:"ignore"`
	Exclude        []string            `toml:"exclude"` // folders or glob patterns of paths
	PerFileIgnores map[string][]string `toml:"per-file-ignores"`
	Severity       map[string]string   `toml:"severity"` // rule → error, warning, note or off
	FailOn         string              `toml:"fail-on"`
	Baseline       string              `toml:"baseline"`
	Tests          bool                `toml:"tests"`

	Root  string `toml:"-"` // the folder of the pyproject.toml; patterns and the baseline start there
	Fence Fence  `toml:"-"` // nothing outside of it is read
}

// ReadSettings looks for the closest pyproject.toml at or above a path, within the fence.
func ReadSettings(path string, fence Fence) (Settings, error) {
	dir, err := filepath.Abs(path)
	if err != nil {
		return Settings{}, err
	}
	for ; ; dir = filepath.Dir(dir) {
		if file := filepath.Join(dir, "pyproject.toml"); fence.Allows(file) {
			if text, err := os.ReadFile(file); err == nil {
				s, err := decodeSettings(file, string(text))
				s.Root, s.Fence = dir, fence
				return s, err
			}
		}
		if dir == filepath.Dir(dir) {
			return Settings{Fence: fence}, nil
		}
	}
}

func decodeSettings(file, text string) (Settings, error) {
	var project struct {
		Tool struct {
			Plimsoll struct {
				Lint Settings `toml:"lint"`
			} `toml:"plimsoll"`
		} `toml:"tool"`
	}
	meta, err := toml.Decode(text, &project)
	if err != nil {
		return Settings{}, fmt.Errorf("read %s: %w", file, err)
	}
	for _, key := range meta.Undecoded() {
		if strings.HasPrefix(key.String(), "tool.plimsoll.lint.") {
			return Settings{}, fmt.Errorf("%s: [tool.plimsoll.lint] has no setting %q; it has select, ignore, per-file-ignores, severity, exclude, fail-on, baseline, tests", file, key[len(key)-1])
		}
	}
	s := project.Tool.Plimsoll.Lint
	if err := s.Validate(); err != nil {
		return Settings{}, fmt.Errorf("%s: %w", file, err)
	}
	if s.Baseline != "" && !filepath.IsAbs(s.Baseline) {
		s.Baseline = filepath.Join(filepath.Dir(file), s.Baseline)
	}
	return s, nil
}

// Validate refuses a rule that does not exist, which would otherwise do nothing without a word.
func (s Settings) Validate() error {
	ids := slices.Concat(s.Select, s.Ignore)
	for _, list := range s.PerFileIgnores {
		ids = append(ids, list...)
	}
	for id, word := range s.Severity {
		ids = append(ids, id)
		if _, err := lint.ParseSeverity(word); err != nil && word != off {
			return fmt.Errorf("severity of %s: error, warning, note or off, not %q", id, word)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if !lint.Known(id) {
			return fmt.Errorf("there is no rule %q; name ids (LM010), prefixes (LM01), rule names, or ALL", id)
		}
	}
	switch s.FailOn {
	case "", "error", "warning", "note", "never":
		return nil
	}
	return fmt.Errorf("fail-on takes error, warning, note or never, not %q", s.FailOn)
}

// off is the severity of a rule that is not reported.
const off = "off"

// For gives the rules of one file.
func (s Settings) For(path string) lint.Options {
	o := lint.Options{Select: s.Select, Ignore: slices.Clone(s.Ignore), Severity: map[string]lint.Severity{}}
	relative := s.relative(path)
	for pattern, ids := range s.PerFileIgnores {
		if matchPath(pattern, relative) {
			o.Ignore = append(o.Ignore, ids...)
		}
	}
	for id, word := range s.Severity {
		if word == off {
			o.Ignore = append(o.Ignore, id)
			continue
		}
		if severity, err := lint.ParseSeverity(word); err == nil {
			o.Severity[id] = severity
		}
	}
	return o
}

// relative writes a path from the root on, with slashes.
func (s Settings) relative(path string) string {
	if abs, err := filepath.Abs(path); err == nil && s.Root != "" {
		if rel, err := filepath.Rel(s.Root, abs); err == nil {
			path = rel
		}
	}
	return filepath.ToSlash(filepath.Clean(path))
}

// skipped are folders that hold no code of the project's own.
var skipped = map[string]bool{
	"site-packages": true, "node_modules": true, "__pycache__": true, "build": true, "dist": true, "venv": true, "env": true,
}

// Files lists what to read: files named, and the .py and .ipynb files of folders named, without those that macOS leaves beside them (._train.py).
func (s Settings) Files(args []string) ([]string, error) {
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
			case d.IsDir() && path != arg && s.skips(path, d.Name()):
				return filepath.SkipDir
			case d.IsDir() || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), "._") || s.excluded(path) || !s.Tests && testFile(path, d.Name()):
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

func (s Settings) skips(path, name string) bool {
	return strings.HasPrefix(name, ".") || skipped[name] || s.excluded(path) || !s.Tests && (name == "tests" || name == "test")
}

// testFile tells whether a file holds unit tests. test_net.py may as well be a script that evaluates a network: a file that names no
// test runner and defines no test functions without arguments is one.
func testFile(path, name string) bool {
	if name == "conftest.py" {
		return true
	}
	if !strings.HasPrefix(name, "test_") && !strings.HasSuffix(name, "_test.py") {
		return false
	}
	src, err := os.ReadFile(path)
	return err != nil || unitTests.Match(src)
}

var unitTests = regexp.MustCompile(`\b(unittest|pytest|parameterized|absltest|TestCase)\b|(?m)^\s*def test_\w*\((self)?\)`)

func (s Settings) excluded(path string) bool {
	if len(s.Exclude) == 0 {
		return false
	}
	relative := s.relative(path)
	return slices.ContainsFunc(s.Exclude, func(pattern string) bool { return matchPath(pattern, relative) })
}
