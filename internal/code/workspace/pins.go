package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// pinned finds the release of PyTorch that a file of requirements holds fast, or its upper bound: torch==1.8.1, pytorch=1.9, "torch<1.11".
var pinned = regexp.MustCompile(`(?m)^[^#\n]*?(?:^|[\s"'\[-])(?:py)?torch\s*(==|=|~=|<=|<)\s*["']?v?(\d+)\.(\d+)`)

// told finds releases of PyTorch in a page about the project: "PyTorch 1.8.0", "pytorch (tested on 1.7.1)", "torch==1.4". bound are words that
// make one the oldest of several.
var (
	told       = regexp.MustCompile(`(?i)\b(?:py)?torch[\]*_\x60:]*(?:\([^)\s]*\))?[*_\x60:]*(?:\s+version)?\s*(?:[=:(-]+|\(?tested (?:on|with)(?: pytorch)?)?\s*v?(\d)\.(\d+)`)
	oldestTold = regexp.MustCompile(`(?i)\b(?:py)?torch[\]*_\x60:]*(?:\([^)\s]*\))?[*_\x60:]*\s*\(?(?:version)?\s*(?:>=?|≥|,?\s*at least(?: version)?|minimum)\s*v?(\d)\.(\d+)`)
	bound      = regexp.MustCompile(`(?i)(?:>=?|≥|at least|minimum)[^.\n]{0,12}$|^[\d.]*\s*(?:\+|\(?(?:or|and)\s+(?:above|later|newer|higher|greater|up))`)
)

// maxPinFile bounds a file that is looked through for requirements, and maxPinFolders how far above a source they are looked for.
const (
	maxPinFile    = 256 << 10
	maxPinFolders = 6
)

// least finds the oldest release that a file of requirements asks for: torch>=1.7.
var least = regexp.MustCompile(`(?m)^[^#\n]*?(?:^|[\s"'\[-])(?:py)?torch\s*(?:\[[^\]]*\])?\s*>=?\s*["']?v?(\d+)\.(\d+)`)

// telling is how a release is read from requirements, and from a page.
type telling struct {
	requirements, page func([]byte) (major, minor int, ok bool)
}

var (
	newest = telling{pin, tellsOf}
	oldest = telling{atLeast, tellsOldest}
)

// pinning is what a folder says of PyTorch itself, and whether the folders above it have nothing to say: it is the top of a project, or cannot be read.
type pinning struct {
	major, minor int
	ok, top      bool
}

// pins gives the newest or oldest PyTorch that the requirements in the folder of a file, or closest above it, allow, as far as they say. Each folder is
// looked into once.
func (w *Workspace) pins(what telling) func(file string) (major, minor int, ok bool) {
	known := map[string]pinning{}
	return func(file string) (int, int, bool) {
		dir, err := filepath.Abs(filepath.Dir(file))
		for range maxPinFolders {
			if err != nil {
				break
			}
			p, seen := known[dir]
			if !seen {
				p = w.pinning(dir, what)
				known[dir] = p
			}
			if p.ok || p.top || filepath.Dir(dir) == dir {
				return p.major, p.minor, p.ok
			}
			dir = filepath.Dir(dir)
		}
		return 0, 0, false
	}
}

// pinning looks into one folder.
func (w *Workspace) pinning(dir string, what telling) pinning {
	if !w.settings.Fence.Allows(dir) {
		return pinning{top: true}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return pinning{top: true}
	}
	if major, minor, ok := fromFiles(dir, entries, requirements, what.requirements); ok {
		return pinning{major, minor, true, true}
	}
	if major, minor, ok := fromFiles(dir, entries, page, what.page); ok {
		return pinning{major, minor, true, true}
	}
	if major, minor, ok := w.fromDocs(dir, entries, what.page); ok {
		return pinning{major, minor, true, true}
	}
	_, err = os.Stat(filepath.Join(dir, ".git"))
	return pinning{top: err == nil}
}

// fromDocs reads what the pages about the installation in a folder of documentation tell. Requirements there are those of the documentation itself.
func (w *Workspace) fromDocs(dir string, entries []os.DirEntry, read func([]byte) (int, int, bool)) (major, minor int, ok bool) {
	for _, e := range entries {
		if docs := filepath.Join(dir, e.Name()); e.IsDir() && (strings.EqualFold(e.Name(), "docs") || strings.EqualFold(e.Name(), "doc")) && w.settings.Fence.Allows(docs) {
			inside, _ := os.ReadDir(docs)
			if major, minor, ok = fromFiles(docs, inside, installation, read); ok {
				return major, minor, true
			}
		}
	}
	return 0, 0, false
}

// fromFiles reads the first release that a file of a folder with such a name tells.
func fromFiles(dir string, entries []os.DirEntry, wanted func(string) bool, read func([]byte) (int, int, bool)) (major, minor int, ok bool) {
	for _, e := range entries {
		if !wanted(e.Name()) || e.IsDir() {
			continue
		}
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > maxPinFile {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		if major, minor, ok := read(text); ok {
			return major, minor, true
		}
	}
	return 0, 0, false
}

// page knows the names of files that say what a project is.
func page(name string) bool {
	return strings.HasPrefix(strings.ToLower(name), "readme") || installation(name)
}

// installation knows the names of pages that say how a project is installed: INSTALL.md, getting_started.rst.
func installation(name string) bool {
	n := strings.ToLower(name)
	text := strings.HasSuffix(n, ".md") || strings.HasSuffix(n, ".rst") || strings.HasSuffix(n, ".txt")
	return text && (strings.HasPrefix(n, "install") || strings.HasPrefix(n, "getting") || strings.HasPrefix(n, "get_started") || strings.HasPrefix(n, "setup"))
}

// tellsOf reads the newest PyTorch that a page names; one that names a release as the oldest of several tells nothing.
func tellsOf(text []byte) (major, minor int, ok bool) {
	for line := range bytes.Lines(text) {
		for _, m := range told.FindAllSubmatchIndex(line, -1) {
			if bound.Match(line[:m[0]]) || bound.Match(line[m[1]:]) {
				return 0, 0, false
			}
			a, b, _ := release(line[m[2]:m[3]], line[m[4]:m[5]])
			if !ok || a > major || a == major && b > minor {
				major, minor, ok = a, b, true
			}
		}
	}
	return major, minor, ok
}

// tellsOldest reads the PyTorch that a page names as the oldest of several.
func tellsOldest(text []byte) (major, minor int, ok bool) {
	for line := range bytes.Lines(text) {
		for _, m := range oldestTold.FindAllSubmatch(line, -1) {
			if major, minor, ok = release(m[len(m)-2], m[len(m)-1]); ok {
				return major, minor, true
			}
		}
		for _, m := range told.FindAllSubmatchIndex(line, -1) {
			if bound.Match(line[:m[0]]) || bound.Match(line[m[1]:]) {
				return release(line[m[2]:m[3]], line[m[4]:m[5]])
			}
		}
	}
	return 0, 0, false
}

func release(a, b []byte) (major, minor int, ok bool) {
	major, err := strconv.Atoi(string(a))
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(string(b))
	return major, minor, err == nil
}

// atLeast reads the oldest PyTorch that a text allows.
func atLeast(text []byte) (major, minor int, ok bool) {
	m := least.FindSubmatch(text)
	if m == nil {
		return 0, 0, false
	}
	return release(m[1], m[2])
}

// requirements knows the names of files that say what a project is installed with.
func requirements(name string) bool {
	n := strings.ToLower(name)
	switch filepath.Ext(n) {
	case ".txt":
		return strings.Contains(n, "require")
	case ".yml", ".yaml":
		return strings.Contains(n, "env") || strings.Contains(n, "conda")
	}
	if filepath.Ext(n) == ".sh" {
		return strings.Contains(n, "install") || strings.Contains(n, "setup") || strings.Contains(n, "env") || strings.Contains(n, "require")
	}
	return strings.HasPrefix(n, "dockerfile") || n == "setup.py" || n == "setup.cfg" || n == "pyproject.toml" || n == "pipfile"
}

// pin reads the newest PyTorch that a text allows.
func pin(text []byte) (major, minor int, ok bool) {
	m := pinned.FindSubmatch(text)
	if m == nil {
		return 0, 0, false
	}
	major, minor, _ = release(m[2], m[3])
	if string(m[1]) == "<" {
		if minor--; minor < 0 {
			return 0, 0, false
		}
	}
	return major, minor, true
}
