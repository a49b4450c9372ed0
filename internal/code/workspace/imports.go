package workspace

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// foreign are packages that are never a file of the project.
var foreign = map[string]bool{"torch": true, "numpy": true, "os": true, "sys": true, "typing": true, "math": true, "re": true, "json": true, "time": true, "__future__": true}

// topImports lists the modules that a file imports in lines that start at the margin, as written: "utils", ".engine". Imports
// inside functions are there to break circles; following them would bring the circles back. A name that is imported from a package
// may be a module itself.
func topImports(src []byte) []string {
	var out []string
	for len(src) > 0 {
		line := src
		if i := bytes.IndexByte(src, '\n'); i >= 0 {
			line, src = src[:i], src[i+1:]
		} else {
			src = nil
		}
		switch {
		case bytes.HasPrefix(line, []byte("import ")):
			for _, part := range strings.Split(string(line[7:]), ",") {
				if fields := strings.Fields(part); len(fields) > 0 {
					out = append(out, fields[0])
				}
			}
		case bytes.HasPrefix(line, []byte("from ")):
			module, names, ok := strings.Cut(string(line[5:]), " import ")
			if module = strings.TrimSpace(module); !ok || module == "" {
				continue
			}
			if strings.Trim(module, ".") != "" {
				out = append(out, module)
			}
			names, _, _ = strings.Cut(names, "#")
			if strings.Contains(names, "(") && !strings.Contains(names, ")") {
				rest, _, _ := bytes.Cut(src, []byte(")"))
				names += string(rest[:min(len(rest), 4096)])
			}
			for _, part := range strings.Split(strings.Trim(names, "() \t\r\n"), ",") {
				if fields := strings.Fields(part); len(fields) > 0 && fields[0] != "*" {
					out = append(out, joinModule(module, fields[0]))
				}
			}
		}
	}
	return out
}

func joinModule(module, name string) string {
	if strings.Trim(module, ".") == "" {
		return module + name
	}
	return module + "." + name
}

// resolver finds the files that imports of the files of one folder mean: relative ones from the folder, absolute ones beside it, from the folder
// that holds its package, and from the folders that people put on the path.
type resolver struct {
	w     *Workspace
	dir   string
	roots []string
	ups   map[int]string // the folder that so many dots mean

	mu    sync.Mutex
	known map[string]string // by module
}

func (w *Workspace) resolver(path string) *resolver {
	dir := filepath.Dir(path)
	w.mu.Lock()
	r := w.resolvers[dir]
	w.mu.Unlock()
	if r != nil {
		return r
	}
	roots := []string{dir}
	if root := w.packageRoot(dir); root != dir {
		roots = append(roots, root)
	}
	r = &resolver{w: w, dir: dir, roots: append(roots, filepath.Join(roots[len(roots)-1], "..")), ups: map[int]string{}, known: map[string]string{}}
	w.mu.Lock()
	w.resolvers[dir] = r
	w.mu.Unlock()
	return r
}

// find gives the path of the file that a module name means, or "".
func (r *resolver) find(module string) string {
	if path, ok := strings.CutPrefix(module, "@"); ok {
		return path
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	found, known := r.known[module]
	if !known {
		found = r.look(module)
		r.known[module] = found
	}
	return found
}

func (r *resolver) look(module string) string {
	name := strings.TrimLeft(module, ".")
	dots := len(module) - len(name)
	if name == "" || dots == 0 && foreign[strings.SplitN(name, ".", 2)[0]] {
		return ""
	}
	bases := r.roots
	if dots > 0 {
		if r.ups[dots] == "" {
			r.ups[dots] = filepath.Join(r.dir, strings.Repeat("../", dots-1))
		}
		bases = []string{r.ups[dots]}
	}
	for _, base := range bases {
		if found := r.w.module(base, name); found != "" {
			return found
		}
	}
	return ""
}

// module finds the file of a dotted name below a folder. Folders are entered one by one: most names lead nowhere at the first of them.
func (w *Workspace) module(dir, name string) string {
	for {
		first, rest, more := strings.Cut(name, ".")
		if !more {
			if path := below(dir, first+".py"); w.has(dir, first+".py", isFile) {
				return path
			}
		}
		if !w.has(dir, first, isFolder) {
			return ""
		}
		if dir, name = below(dir, first), rest; !more {
			if w.has(dir, "__init__.py", isFile) {
				return below(dir, "__init__.py")
			}
			return ""
		}
	}
}

// below is filepath.Join for a clean folder and a plain name.
func below(dir, name string) string {
	switch {
	case dir == ".":
		return name
	case strings.HasSuffix(dir, string(filepath.Separator)):
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

// has tells whether a folder holds a file or folder of that name. What an editor holds need not be on disk.
func (w *Workspace) has(dir, name string, want kind) bool {
	if len(w.open) > 0 {
		if want == isFolder {
			return true
		}
		return w.exists(below(dir, name))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	names := w.list(dir)
	w.asks(dir, name)
	if !w.blind[dir] {
		return names[name] == want
	}
	info, err := os.Stat(below(dir, name))
	return err == nil && info.IsDir() == (want == isFolder)
}

// packageRoot climbs out of a package: the first folder without __init__.py, which absolute imports start from.
func (w *Workspace) packageRoot(dir string) string {
	for range 12 {
		if !w.exists(filepath.Join(dir, "__init__.py")) {
			return dir
		}
		dir = filepath.Join(dir, "..")
	}
	return dir
}

// exists tells whether there is such a file. Folders are listed once: most imports lead nowhere, and are looked for again and again.
func (w *Workspace) exists(path string) bool {
	if _, ok := w.open[path]; ok {
		return true
	}
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks(dir, name)
	if names := w.list(dir); !w.blind[dir] {
		return names[name] == isFile
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// kind is what stands under a name in a folder.
type kind uint8

const (
	isNothing kind = iota
	isFile
	isFolder
)

// list gives what is in a folder. A folder that its parent does not have is not asked for; one that may be entered but not listed is blind.
func (w *Workspace) list(dir string) map[string]kind {
	if names, known := w.folders[dir]; known {
		return names
	}
	w.folders[dir] = nil
	if !w.settings.Fence.Allows(dir) {
		return nil
	}
	if parent, name := filepath.Dir(dir), filepath.Base(dir); parent != dir && name != ".." && name != "." && parent != "." && !strings.HasSuffix(parent, "..") && w.settings.Fence.Allows(parent) {
		w.asks(parent, name)
		if w.list(parent)[name] != isFolder && !w.blind[parent] {
			return nil
		}
	}
	known, read := w.ahead[dir]
	entries, err := known.entries, known.err
	if !read {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		w.blind[dir] = !errors.Is(err, os.ErrNotExist)
		return nil
	}
	names := make(map[string]kind, len(entries))
	for _, e := range entries {
		mode := e.Type()
		if mode&os.ModeSymlink != 0 {
			if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil {
				mode = info.Mode()
			}
		}
		switch {
		case mode.IsRegular():
			names[e.Name()] = isFile
		case mode.IsDir():
			names[e.Name()] = isFolder
		}
	}
	w.folders[dir] = names
	return names
}
