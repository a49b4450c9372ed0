package workspace

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// sum stands for something larger: equal sums, equal things. The empty sum stands for nothing.
type sum string

// sumOf stands for a text of a file. It is compared with that of the same file only; nobody gains by making two texts look the same.
func sumOf(text []byte) sum {
	return sum(binary.BigEndian.AppendUint64(binary.AppendUvarint(nil, uint64(len(text))), xxhash.Sum64(text)))
}

// Cache remembers what was seen in files, so that only those that changed, or whose imports offer something else now, are looked at again. What it
// gives is what looking again would give: an entry counts only for the same text, and while every module that was asked for gives the same answer.
// It is kept in one file for each program and working folder. A file that cannot be read, or is damaged, is an empty cache.
type Cache struct {
	file string // empty: in memory only

	mu      sync.Mutex
	entries map[string]*entry // by path
	pool    pool              // what the entries' files offer
	run     uint64            // number of this run, to tell what was used long ago
	added   int               // entries that are new
}

// entry is what was seen in one file.
type entry struct {
	Path    string
	Source  sum
	Stamp   stamp    // of the file when it was read
	Modules []string // the modules it imports, as written
	Asked   []asked  // what the analysis wanted to know of other files
	Offers  sum      // of Exports
	Exports []byte   // numbers in the pool
	Uses    []byte   // []flow.Use as JSON
	Report  []byte   // findings and suppressions as JSON; empty where there are none
	Run     uint64   // when it was used last
}

// asked is a module that was looked up, and what it offered; the zero sum: nothing.
type asked struct {
	Module string
	Offers sum
}

// Bounds of what is kept: the entries of one file before compression, and all files together.
const (
	maxEntries = 96 << 20
	maxFolder  = 256 << 20
)

// checksum is the length of what tells a damaged file.
const checksum = 8

// cacheFormat changes when entries are written differently.
const cacheFormat = "plimsoll lint cache 3\n"

// MemoryCache is one that is not kept.
func MemoryCache() *Cache { return &Cache{entries: map[string]*entry{}, pool: newPool(), run: 1} }

// OpenCache reads the cache of a program (key tells its builds apart) for a working folder.
func OpenCache(folder, key string) *Cache {
	c := MemoryCache()
	where, err := os.Getwd()
	if err != nil || folder == "" {
		return c
	}
	c.file = filepath.Join(folder, fmt.Sprintf("%x.cache", sha256.Sum256([]byte(cacheFormat+key+"\x00"+where)))[:40])
	data, err := os.ReadFile(c.file)
	if err == nil {
		c.decode(data)
	}
	return c
}

// ProgramKey tells builds of the running program apart.
func ProgramKey(version string) string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %s %d %d", version, path, info.Size(), info.ModTime().UnixNano())
}

// decode reads what encode wrote. Anything else leaves the cache empty.
func (c *Cache) decode(data []byte) {
	body, ok := bytes.CutPrefix(data, []byte(cacheFormat))
	if !ok || len(body) < checksum || xxhash.Sum64(body[checksum:]) != binary.BigEndian.Uint64(body) {
		return
	}
	r := reader{rest: body[checksum:]}
	kept := newPool()
	kept.read(&r)
	var entries []*entry
	for range r.number() {
		e := &entry{}
		e.read(&r)
		if r.bad {
			return
		}
		entries = append(entries, e)
	}
	c.pool = kept
	for _, e := range entries {
		c.entries[e.Path] = e
		c.run = max(c.run, e.Run+1)
	}
}

// write and read are one entry as bytes.
func (e *entry) write(out []byte) []byte {
	out = packBytes(out, []byte(e.Path), []byte(e.Source), []byte(e.Offers), e.Exports, e.Uses, e.Report)
	out = binary.AppendUvarint(out, uint64(len(e.Modules)))
	for _, module := range e.Modules {
		out = packBytes(out, []byte(module))
	}
	out = binary.AppendUvarint(out, uint64(len(e.Asked)))
	for _, a := range e.Asked {
		out = packBytes(out, []byte(a.Module), []byte(a.Offers))
	}
	out = binary.AppendVarint(binary.AppendVarint(out, e.Stamp.Size), e.Stamp.Time)
	return binary.AppendUvarint(out, e.Run)
}

func (e *entry) read(r *reader) {
	e.Path, e.Source, e.Offers = string(r.bytes()), sum(r.bytes()), sum(r.bytes())
	e.Exports, e.Uses, e.Report = r.bytes(), r.bytes(), r.bytes()
	for range r.number() {
		if e.Modules = append(e.Modules, string(r.bytes())); r.bad {
			return
		}
	}
	for range r.number() {
		if e.Asked = append(e.Asked, asked{string(r.bytes()), sum(r.bytes())}); r.bad {
			return
		}
	}
	e.Stamp = stamp{r.signed(), r.signed()}
	e.Run = uint64(r.number())
}

// encode writes the cache as it is: to pack it would take longer than to read the files again.
func (c *Cache) encode() []byte {
	parts, entries := c.kept()
	text := parts.write(nil)
	text = binary.AppendUvarint(text, uint64(len(entries)))
	for _, e := range entries {
		text = e.write(text)
	}
	total := binary.BigEndian.AppendUint64(nil, xxhash.Sum64(text))
	return slices.Concat([]byte(cacheFormat), total, text)
}

// kept is what to write: the entries used last, as far as there is room. Parts of the pool that no entry needs any more stay until the pool is
// too large; then all begins anew.
func (c *Cache) kept() (*pool, []*entry) {
	size := c.pool.size()
	if size > maxEntries {
		none := newPool()
		return &none, nil
	}
	all := make([]*entry, 0, len(c.entries))
	for _, e := range c.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Or(cmp.Compare(b.Run, a.Run), cmp.Compare(a.Path, b.Path)) })
	for i, e := range all {
		if size += len(e.Path) + len(e.Exports) + len(e.Uses) + len(e.Report) + 64*len(e.Asked) + 256; size > maxEntries {
			all = all[:i]
			break
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.Path, b.Path) })
	return &c.pool, all
}

// worthSaving is the share of new entries, one in so many, for which the cache is written: to look at a few files again is quicker than to write
// down what was seen in thousands.
const worthSaving = 64

// Save writes the cache if it changed, in one step, so that a program that reads it meanwhile sees the old or the new one; and removes the oldest
// files where they have become too many. Not to be able to is no failure of the check.
func (c *Cache) Save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == "" || c.added == 0 || c.added < len(c.entries)/worthSaving {
		return nil
	}
	data := c.encode()
	folder := filepath.Dir(c.file)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(folder, ".new-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), c.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	c.added = 0
	return prune(folder, maxFolder)
}

// prune removes the oldest files of a folder until the rest is small enough.
func prune(folder string, most int64) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var files []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var size int64
	for _, f := range files {
		if size += f.Size(); size > most {
			if err := os.Remove(filepath.Join(folder, f.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// find gives the entry of a path for a text.
func (c *Cache) find(path string, source sum) *entry {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[path]
	if e == nil || e.Source != source {
		return nil
	}
	e.Run = c.run
	return e
}

// untouched gives the entry of a file that was not written since.
func (c *Cache) untouched(path string, at stamp) *entry {
	if c == nil || at == (stamp{}) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[path]
	if e == nil || e.Stamp != at {
		return nil
	}
	e.Run = c.run
	return e
}

// put keeps what was seen. A text that is not UTF-8 is not kept: JSON could not say exactly what was seen in it.
func (c *Cache) put(u *unit, seen []asked) {
	if c == nil || u.err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	packed, offers, err := c.pool.add(u.report.Exports)
	if err != nil {
		return
	}
	u.offers = offers
	e := &entry{Path: u.path, Source: u.source, Stamp: u.stamp, Modules: u.modules, Asked: seen, Offers: offers, Exports: packed, Run: c.run}
	e.Uses, err = json.Marshal(u.report.Uses)
	if err == nil && len(u.report.Findings)+len(u.report.Suppressions) > 0 {
		e.Report, err = json.Marshal(lint.Report{Findings: u.report.Findings, Suppressions: u.report.Suppressions})
	}
	if err == nil && utf8.Valid(u.src) {
		c.entries[u.path] = e
		c.added++
	}
}

// exports gives back what the file of an entry offers; nil where the entry is damaged.
func (c *Cache) exports(e *entry) *flow.Exports {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, err := c.pool.get(e.Path, e.Exports)
	if err != nil {
		return nil
	}
	return out
}

// report is what the entry says was seen, without what other files may want to know of it.
func (e *entry) report() (*lint.Report, bool) {
	r := &lint.Report{}
	return r, len(e.Report) == 0 || json.Unmarshal(e.Report, r) == nil
}
