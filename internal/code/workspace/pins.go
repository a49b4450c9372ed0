package workspace

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// pinned finds the release of PyTorch that a file of requirements holds fast, or its upper bound: torch==1.8.1, pytorch=1.9, "torch<1.11".
var pinned = regexp.MustCompile(`(?m)^[^#\n]*?(?:^|[\s"'\[-])(?:py)?torch\s*(==|=|~=|<=|<)\s*["']?v?(\d+)\.(\d+)`)

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
		for _, e := range entries {
			if !requirements(e.Name()) || e.IsDir() {
				continue
			}
			if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > maxPinFile {
				continue
			}
			text, _ := os.ReadFile(filepath.Join(dir, e.Name()))
			if major, minor, ok := pin(text); ok {
				return major, minor, true
			}
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
