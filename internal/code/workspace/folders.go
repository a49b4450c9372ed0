package workspace

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// folders are the names that were looked for in folders, and what stood there. What a module means depends on these alone, so that nothing is resolved
// again while they are the same.
type folders struct {
	names   map[string]map[string]kind // by folder
	shape   uint64                     // stands for all of them; 0: none
	checked bool                       // they were found to be the same in this run
}

// sameFolders tells whether everything that was looked for is as it was.
func (c *Cache) sameFolders(w *Workspace) bool {
	if c == nil || c.folders.shape == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir, names := range c.folders.names {
		there := w.list(dir)
		for name, was := range names {
			if there[name] != was {
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
	c.folders = folders{names: map[string]map[string]kind{}}
	if c.looked != nil {
		if before.checked {
			c.folders.names = before.names
		}
		for dir, names := range c.looked.asked {
			if c.folders.names[dir] == nil {
				c.folders.names[dir] = make(map[string]kind, len(names))
			}
			for name := range names {
				c.folders.names[dir][name] = c.looked.folders[dir][name]
			}
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
	out = binary.AppendUvarint(binary.BigEndian.AppendUint64(out, f.shape), uint64(len(f.names)))
	for _, dir := range slices.Sorted(maps.Keys(f.names)) {
		out = binary.AppendUvarint(packText(out, dir), uint64(len(f.names[dir])))
		for _, name := range slices.Sorted(maps.Keys(f.names[dir])) {
			out = append(packText(out, name), byte(f.names[dir][name]))
		}
	}
	return out
}

func readFolders(r *reader) folders {
	f := folders{shape: r.eight()}
	n := r.count()
	f.names = make(map[string]map[string]kind, n)
	for range n {
		dir, many := r.text(), r.count()
		names := make(map[string]kind, many)
		for range many {
			name := r.text()
			names[name] = kind(r.byte())
		}
		f.names[dir] = names
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
