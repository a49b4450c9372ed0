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
	told  = regexp.MustCompile(`(?i)\b(?:py)?torch[\]*_\x60:]*(?:\s+version)?\s*(?:[=:(]+|\(?tested (?:on|with)(?: pytorch)?)?\s*v?(\d)\.(\d+)`)
	bound = regexp.MustCompile(`(?i)(?:>=?|≥|at least|minimum)[^.\n]{0,12}$|^[\d.]*\s*(?:\+|\(?(?:or|and)\s+(?:above|later|newer|higher|greater|up))`)
)

// maxPinFile bounds a file that is looked through for requirements, and maxPinFolders how far above a source they are looked for.
const (
	maxPinFile    = 256 << 10
	maxPinFolders = 6
)

// pins says of a file what torch says of its folder, which is looked up once.
func (w *Workspace) pins() func(file string) (major, minor int, ok bool) {
	type release struct {
		major, minor int
		ok           bool
	}
	known := map[string]release{}
	return func(file string) (int, int, bool) {
		dir := filepath.Dir(file)
		r, seen := known[dir]
		if !seen {
			r.major, r.minor, r.ok = w.torch(dir)
			known[dir] = r
		}
		return r.major, r.minor, r.ok
	}
}

// torch is the newest PyTorch that the requirements in a folder, or closest above it, allow, as far as they say.
func (w *Workspace) torch(dir string) (major, minor int, ok bool) {
	dir, err := filepath.Abs(dir)
	for range maxPinFolders {
		if err != nil || !w.settings.Fence.Allows(dir) {
			return 0, 0, false
		}
		entries, readErr := os.ReadDir(dir)
		if readErr != nil {
			return 0, 0, false
		}
		if major, minor, ok := fromFiles(dir, entries, requirements, pin); ok {
			return major, minor, true
		}
		if major, minor, ok := fromFiles(dir, entries, page, tellsOf); ok {
			return major, minor, true
		}
		_, gitErr := os.Stat(filepath.Join(dir, ".git"))
		if parent := filepath.Dir(dir); gitErr != nil && parent != dir {
			dir = parent
			continue
		}
		break
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
	n := strings.ToLower(name)
	return strings.HasPrefix(n, "readme") || strings.HasPrefix(n, "install") && strings.HasSuffix(n, ".md")
}

// tellsOf reads the newest PyTorch that a page names; one that names a release as the oldest of several tells nothing.
func tellsOf(text []byte) (major, minor int, ok bool) {
	for line := range bytes.Lines(text) {
		for _, m := range told.FindAllSubmatchIndex(line, -1) {
			if bound.Match(line[:m[0]]) || bound.Match(line[m[1]:]) {
				return 0, 0, false
			}
			a, _ := strconv.Atoi(string(line[m[2]:m[3]]))
			b, _ := strconv.Atoi(string(line[m[4]:m[5]]))
			if !ok || a > major || a == major && b > minor {
				major, minor, ok = a, b, true
			}
		}
	}
	return major, minor, ok
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
	return n == "setup.py" || n == "setup.cfg" || n == "pyproject.toml" || n == "pipfile"
}

// pin reads the newest PyTorch that a text allows.
func pin(text []byte) (major, minor int, ok bool) {
	m := pinned.FindSubmatch(text)
	if m == nil {
		return 0, 0, false
	}
	major, _ = strconv.Atoi(string(m[2]))
	minor, _ = strconv.Atoi(string(m[3]))
	if string(m[1]) == "<" {
		if minor--; minor < 0 {
			return 0, 0, false
		}
	}
	return major, minor, true
}
