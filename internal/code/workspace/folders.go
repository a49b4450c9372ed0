package workspace

import (
	"context"
	"encoding/binary"
	"maps"
	"os"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// folders are the names that were looked for in folders, and what stood there. What a module means depends on these alone, so that nothing is resolved
// again while they are the same.
type folders struct {
	held    []folder // by path
	shape   uint64   // stands for all of them; 0: none
	checked bool     // they were found to be the same in this run
}

type folder struct {
	dir   string
	names []named // by name
}

type named struct {
	name string
	kind kind
}

// listing is what the system says of a folder.
type listing struct {
	entries []os.DirEntry
	err     error
}

// sameFolders tells whether everything that was looked for is as it was.
func (c *Cache) sameFolders(ctx context.Context, w *Workspace, jobs int) bool {
	if c == nil || c.folders.shape == 0 {
		return false
	}
	ahead := make([]listing, len(c.folders.held))
	each(ctx, len(ahead), jobs, func(i int) {
		if dir := c.folders.held[i].dir; w.settings.Fence.Allows(dir) {
			ahead[i].entries, ahead[i].err = os.ReadDir(dir)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead = make(map[string]listing, len(ahead))
	for i, f := range c.folders.held {
		w.ahead[f.dir] = ahead[i]
	}
	for _, f := range c.folders.held {
		there := w.list(f.dir)
		for _, was := range f.names {
			if there[was.name] != was.kind {
				return false
			}
		}
	}
	c.folders.checked = len(w.blind) == 0
	return c.folders.checked
}

// resolved tells whether the imports of an entry were looked up in the folders that the cache knows.
func (c *Cache) resolved(e *entry) bool { return e.Shape != 0 && e.Shape == c.folders.shape }

// asks notes that a name is looked for in a folder.
func (w *Workspace) asks(dir, name string) {
	if w.cache == nil {
		return
	}
	if w.asked[dir] == nil {
		w.asked[dir] = map[string]bool{}
	}
	w.asked[dir][name] = true
}

// keepFolders notes what was looked for in this run. A folder that may not be listed cannot be told apart later.
func (c *Cache) keepFolders(w *Workspace) {
	if c == nil || c.file == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looked = w; len(w.open) > 0 || len(w.blind) > 0 {
		c.looked = nil
	}
}

// reshape says of the entries that are written down which folders their imports were looked up in: those of this run, and, while these are the same,
// of the runs before.
func (c *Cache) reshape(entries []*entry) {
	before := c.folders
	c.folders = folders{}
	if c.looked != nil {
		names := map[string]map[string]kind{}
		note := func(dir, name string, k kind) {
			if names[dir] == nil {
				names[dir] = map[string]kind{}
			}
			names[dir][name] = k
		}
		if before.checked {
			for _, f := range before.held {
				for _, n := range f.names {
					note(f.dir, n.name, n.kind)
				}
			}
		}
		for dir, asked := range c.looked.asked {
			for name := range asked {
				note(dir, name, c.looked.folders[dir][name])
			}
		}
		for _, dir := range slices.Sorted(maps.Keys(names)) {
			f := folder{dir: dir}
			for _, name := range slices.Sorted(maps.Keys(names[dir])) {
				f.names = append(f.names, named{name, names[dir][name]})
			}
			c.folders.held = append(c.folders.held, f)
		}
		c.folders.shape = xxhash.Sum64(c.folders.write(nil)) | 1
	}
	for _, e := range entries {
		if e.Run == c.run || before.checked && e.Shape == before.shape {
			e.Shape = c.folders.shape
		} else {
			e.Shape = 0
		}
	}
}

func (f folders) write(out []byte) []byte {
	out = binary.AppendUvarint(binary.BigEndian.AppendUint64(out, f.shape), uint64(len(f.held)))
	for _, held := range f.held {
		out = binary.AppendUvarint(packText(out, held.dir), uint64(len(held.names)))
		for _, n := range held.names {
			out = append(packText(out, n.name), byte(n.kind))
		}
	}
	return out
}

func readFolders(r *reader) folders {
	f := folders{shape: r.eight()}
	f.held = make([]folder, r.count())
	for i := range f.held {
		f.held[i].dir = r.text()
		f.held[i].names = make([]named, r.count())
		for j := range f.held[i].names {
			f.held[i].names[j] = named{r.text(), kind(r.byte())}
		}
	}
	return f
}

// paths numbers the files that entries speak of.
type paths struct {
	list  []string
	index map[string]uint64
}

func (p *paths) number(path string) uint64 {
	n, known := p.index[path]
	if !known {
		n = uint64(len(p.list))
		p.list = append(p.list, path)
		p.index[path] = n
	}
	return n
}
