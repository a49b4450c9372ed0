package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// neighbours finds what imported local modules offer. Only the summaries are kept, not the trees, so that memory does not grow
// with the size of the project's source.
type neighbours struct {
	read  func(path string) ([]byte, error)
	mu    sync.Mutex
	known map[string]*flow.Exports // by path; nil: looked for and not there
}

func newNeighbours(read func(string) ([]byte, error)) *neighbours {
	return &neighbours{read: read, known: map[string]*flow.Exports{}}
}

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
	if src, err := n.read(path); err == nil {
		e = lint.Exports(path, src)
	}
	n.mu.Lock()
	n.known[path] = e
	n.mu.Unlock()
	return e
}
