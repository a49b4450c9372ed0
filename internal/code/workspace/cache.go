package workspace

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	pool    *pool             // what the entries that were read from a file speak of
	folders folders           // what was in the folders in which imports were looked up
	sums    map[*flow.ClassFacts]uint64
	looked  *Workspace // what was looked for in this run
	run     uint64     // number of this run, to tell what was used long ago
	added   int        // entries that are new
}

// entry is what was seen in one file.
type entry struct {
	Path    string
	Source  sum
	Stamp   stamp    // of the file when it was read
	Modules string   // the modules it imports, as written (packTexts)
	Imports []string // the files of the project among them, in the folders that Shape stands for
	Asked   []asked  // what the analysis wanted to know of other files
	Shape   uint64   // of the folders in which its imports were looked up; 0: not known
	Offers  sum      // of Exports
	Exports string   // numbers in the pool
	Uses    string   // numbers in the pool
	Report  string   // findings and suppressions as JSON; empty where there are none
	Traits  lint.Trait
	Run     uint64 // when it was used last

	fresh *lint.Report // what was seen in this run; the texts above are made of it when they are written down
}

// asked is a module that was looked up, the file that it meant, and what that offered; the zero sum: nothing.
type asked struct {
	Module, Found string
	Offers        sum
}

// Bounds of what is kept: the entries of one file before compression, and all files together.
const (
	maxEntries = 96 << 20
	maxFolder  = 256 << 20
)

// checksum is the length of what tells a damaged file.
const checksum = 8

// cacheFormat changes when entries are written differently.
const cacheFormat = "plimsoll lint cache 8\n"

// MemoryCache is one that is not kept.
func MemoryCache() *Cache {
	return &Cache{entries: map[string]*entry{}, pool: newPool(), sums: map[*flow.ClassFacts]uint64{}, run: 1}
}

// OpenCache reads the cache of a program (key tells its builds apart) for a working folder.
func OpenCache(folder, key string) *Cache {
	c := MemoryCache()
	where, err := os.Getwd()
	if err != nil || folder == "" {
		return c
	}
	c.file = filepath.Join(folder, fmt.Sprintf("%x.cache", sha256.Sum256([]byte(cacheFormat+key+"\x00"+where)))[:40])
	if text, err := readText(c.file); err == nil {
		c.decode(text)
	}
	return c
}

// readText reads a file into a string, whose parts the entries are, without a second copy of it.
func readText(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var text strings.Builder
	if info, err := f.Stat(); err == nil {
		text.Grow(int(min(info.Size(), maxFolder)))
	}
	_, err = io.Copy(&text, f)
	return text.String(), err
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
func (c *Cache) decode(data string) {
	body, ok := strings.CutPrefix(data, cacheFormat)
	r := reader{rest: body}
	if !ok || len(body) < checksum || r.eight() != xxhash.Sum64String(body[checksum:]) {
		return
	}
	kept := newPool()
	kept.read(&r)
	held := readFolders(&r)
	paths := r.texts()
	entries := make([]entry, r.count())
	for i := range entries {
		if entries[i].read(&r, paths); r.bad {
			return
		}
	}
	c.folders = held
	c.pool, c.entries = kept, make(map[string]*entry, len(entries))
	for i := range entries {
		c.entries[entries[i].Path] = &entries[i]
		c.run = max(c.run, entries[i].Run+1)
	}
}

// write and read are one entry as bytes.
func (e *entry) write(out []byte, paths *paths) []byte {
	for _, text := range []string{e.Path, string(e.Source), string(e.Offers), e.Exports, e.Uses, e.Report, e.Modules} {
		out = packText(out, text)
	}
	out = binary.AppendUvarint(out, uint64(len(e.Imports)))
	for _, path := range e.Imports {
		out = binary.AppendUvarint(out, paths.number(path))
	}
	out = binary.AppendUvarint(out, uint64(len(e.Asked)))
	for _, a := range e.Asked {
		out = packText(packText(binary.AppendUvarint(out, paths.number(a.Found)), a.Module), string(a.Offers))
	}
	out = binary.BigEndian.AppendUint64(out, e.Shape)
	out = binary.AppendVarint(binary.AppendVarint(out, e.Stamp.Size), e.Stamp.Time)
	return binary.AppendUvarint(binary.AppendUvarint(out, uint64(e.Traits)), e.Run)
}

func (e *entry) read(r *reader, paths []string) {
	e.Path, e.Source, e.Offers = r.text(), sum(r.text()), sum(r.text())
	e.Exports, e.Uses, e.Report, e.Modules = r.text(), r.text(), r.text(), r.text()
	e.Imports = make([]string, r.count())
	for i := range e.Imports {
		e.Imports[i] = r.of(paths)
	}
	e.Asked = make([]asked, r.count())
	for i := range e.Asked {
		found := r.of(paths)
		e.Asked[i] = asked{r.text(), found, sum(r.text())}
	}
	e.Shape = r.eight()
	e.Stamp = stamp{r.signed(), r.signed()}
	e.Traits, e.Run = lint.Trait(r.number()), uint64(r.number())
}

// encode writes the cache as it is: to pack it would take longer than to read the files again.
func (c *Cache) encode() []byte {
	for _, e := range c.entries {
		c.pack(e)
	}
	parts, entries := c.kept()
	c.reshape(entries)
	var list []byte
	known := &paths{index: map[string]uint64{}}
	for _, e := range entries {
		list = e.write(list, known)
	}
	text := packTexts(c.folders.write(parts.write(nil)), known.list)
	text = append(binary.AppendUvarint(text, uint64(len(entries))), list...)
	total := binary.BigEndian.AppendUint64(nil, xxhash.Sum64(text))
	return slices.Concat([]byte(cacheFormat), total, text)
}

// kept is what to write: the entries used last, as far as there is room. Parts of the pool that no entry needs any more stay until the pool is
// too large; then all begins anew.
func (c *Cache) kept() (*pool, []*entry) {
	size := c.pool.size()
	if size > maxEntries {
		return newPool(), nil
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
	return c.pool, all
}

// pack makes the texts of an entry that is new. One whose report cannot be written exactly is left out.
func (c *Cache) pack(e *entry) {
	if e.fresh == nil {
		return
	}
	e.Traits = e.fresh.Traits
	if len(e.fresh.Findings)+len(e.fresh.Suppressions) > 0 {
		report, err := json.Marshal(lint.Report{Findings: e.fresh.Findings, Suppressions: e.fresh.Suppressions})
		if err != nil {
			delete(c.entries, e.Path)
			return
		}
		e.Report = string(report)
	}
	e.Exports, e.Uses, e.fresh = c.pool.add(e.fresh.Exports), c.pool.addUses(e.fresh.Uses), nil
}

// worthSaving is the share of new entries, one in so many, for which the cache is written: to look at a few files again is quicker than to write
// down what was seen in thousands.
const worthSaving = 64

// Save writes the cache if it changed, in one step, so that a program that reads it meanwhile sees the old or the new one; and removes the oldest
// files where they have become too many. Not to be able to is no failure of the check.
func (c *Cache) Save() error {
	if c == nil {
		return nil
	}
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
	u.offers = c.offers(u.report.Exports)
	if u.trial || !utf8.Valid(u.src) {
		return
	}
	e := &entry{Path: u.path, Source: u.source, Stamp: u.stamp, Modules: u.modules, Imports: u.imports, Asked: seen, Offers: u.offers, fresh: u.report, Run: c.run}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[u.path] = e
	c.added++
}

// offers stands for an offer.
func (c *Cache) offers(e *flow.Exports) sum {
	out := packText(nil, e.Path)
	for _, name := range slices.Sorted(maps.Keys(e.Functions)) {
		out = packFunction(packText(out, name), e.Functions[name])
	}
	out = append(out, 0xff)
	for _, name := range slices.Sorted(maps.Keys(e.Classes)) {
		out = binary.BigEndian.AppendUint64(packText(out, name), c.classSum(e.Classes[name]))
	}
	return sumOf(out)
}

// classSum stands for a class. One that many files pass on is looked at once.
func (c *Cache) classSum(class *flow.ClassFacts) uint64 {
	c.mu.Lock()
	known, ok := c.sums[class]
	c.mu.Unlock()
	if ok {
		return known
	}
	out := packKind(nil, class)
	for _, name := range slices.Sorted(maps.Keys(class.Methods)) {
		out = packFunction(packText(out, name), class.Methods[name])
	}
	out = append(out, 0xff)
	for _, name := range slices.Sorted(maps.Keys(class.Attrs)) {
		out = packValue(packText(out, name), class.Attrs[name], 0)
	}
	known = xxhash.Sum64(out)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sums) > maxSums { // an editor's session is long
		clear(c.sums)
	}
	c.sums[class] = known
	return known
}

// maxSums bounds the classes whose sums are remembered.
const maxSums = 1 << 16

// exports gives back what the file of an entry offers; nil where the entry is damaged.
func (c *Cache) exports(e *entry) *flow.Exports {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.fresh != nil {
		return e.fresh.Exports
	}
	out, err := c.pool.get(e.Path, e.Exports)
	if err != nil {
		return nil
	}
	return out
}

// uses gives back the calls that the file of an entry makes.
func (c *Cache) uses(e *entry) ([]flow.Use, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.fresh != nil {
		return e.fresh.Uses, nil
	}
	return c.pool.uses(e.Uses)
}

// report is what the entry says was seen, without what other files may want to know of it.
func (e *entry) report() (*lint.Report, bool) {
	if e.fresh != nil {
		return &lint.Report{Findings: e.fresh.Findings, Suppressions: e.fresh.Suppressions, Traits: e.fresh.Traits}, true
	}
	r := &lint.Report{Traits: e.Traits}
	return r, e.Report == "" || json.Unmarshal([]byte(e.Report), r) == nil
}
