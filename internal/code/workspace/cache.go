package workspace

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// sum stands for a text: equal sums, equal texts. The zero sum stands for nothing.
type sum [sha256.Size]byte

// Cache remembers what was seen in files, so that only those that changed, or whose imports offer something else now, are looked at again. What it
// gives is what looking again would give: an entry counts only for the same text, and while every module that was asked for gives the same answer.
// It is kept in one file for each program and working folder. A file that cannot be read, or is damaged, is an empty cache.
type Cache struct {
	file string // empty: in memory only

	mu      sync.Mutex
	entries map[string]*entry // by path
	run     uint64            // number of this run, to tell what was used long ago
	changed bool
}

// entry is what was seen in one file.
type entry struct {
	Path    string
	Source  sum
	Modules []string // the modules it imports, as written
	Asked   []asked  // what the analysis wanted to know of other files
	Offers  sum      // of Exports
	Exports []byte   // flow.Exports as JSON
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

// cacheFormat changes when entries are written differently.
const cacheFormat = "plimsoll lint cache 1\n"

// MemoryCache is one that is not kept.
func MemoryCache() *Cache { return &Cache{entries: map[string]*entry{}, run: 1} }

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
	if !ok || len(body) < sha256.Size || sha256.Sum256(body[sha256.Size:]) != sum(body[:sha256.Size]) {
		return
	}
	z, err := zstd.NewReader(bytes.NewReader(body[sha256.Size:]), zstd.WithDecoderMaxMemory(2*maxEntries), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return
	}
	defer z.Close()
	var entries []*entry
	if gob.NewDecoder(io.LimitReader(z, 2*maxEntries)).Decode(&entries) != nil {
		return
	}
	for _, e := range entries {
		if e != nil {
			c.entries[e.Path] = e
			c.run = max(c.run, e.Run+1)
		}
	}
}

func (c *Cache) encode() ([]byte, error) {
	var body bytes.Buffer
	z, err := zstd.NewWriter(&body, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(gob.NewEncoder(z).Encode(c.kept()), z.Close()); err != nil {
		return nil, err
	}
	total := sha256.Sum256(body.Bytes())
	return slices.Concat([]byte(cacheFormat), total[:], body.Bytes()), nil
}

// kept are the entries to write, in the order of their paths: those used last, as far as there is room.
func (c *Cache) kept() []*entry {
	all := make([]*entry, 0, len(c.entries))
	for _, e := range c.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Or(cmp.Compare(b.Run, a.Run), cmp.Compare(a.Path, b.Path)) })
	size := 0
	for i, e := range all {
		if size += len(e.Path) + len(e.Exports) + len(e.Uses) + len(e.Report) + 64*len(e.Asked) + 256; size > maxEntries {
			all = all[:i]
			break
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// Save writes the cache if it changed, in one step, so that a program that reads it meanwhile sees the old or the new one; and removes the oldest
// files where they have become too many. Not to be able to is no failure of the check.
func (c *Cache) Save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == "" || !c.changed {
		return nil
	}
	data, err := c.encode()
	if err != nil {
		return err
	}
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
	c.changed = false
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

// put keeps what was seen. A text that is not UTF-8 is not kept: JSON could not say exactly what was seen in it.
func (c *Cache) put(u *unit, seen []asked) {
	if c == nil || u.err != nil || !utf8.Valid(u.src) {
		return
	}
	e := &entry{Path: u.path, Source: u.source, Modules: u.modules, Asked: seen, Offers: u.offers, Run: c.run}
	var errs [3]error
	e.Exports, errs[0] = json.Marshal(u.report.Exports)
	e.Uses, errs[1] = json.Marshal(u.report.Uses)
	if len(u.report.Findings)+len(u.report.Suppressions) > 0 {
		e.Report, errs[2] = json.Marshal(lint.Report{Findings: u.report.Findings, Suppressions: u.report.Suppressions})
	}
	if errors.Join(errs[:]...) != nil {
		return
	}
	c.mu.Lock()
	c.entries[u.path], c.changed = e, true
	c.mu.Unlock()
}

// report is what the entry says was seen, without what other files may want to know of it.
func (e *entry) report() (*lint.Report, bool) {
	r := &lint.Report{}
	return r, len(e.Report) == 0 || json.Unmarshal(e.Report, r) == nil
}

// offersOf stands for what a file offers to others.
func offersOf(e *flow.Exports) sum {
	text, err := json.Marshal(e) // maps in the order of their keys
	if err != nil {
		return sum{}
	}
	return sha256.Sum256(text)
}
