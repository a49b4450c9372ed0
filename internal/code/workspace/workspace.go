// Package workspace checks the files of a project.
//
// It takes paths and settings and returns lint findings, file by file in the order of the paths, whatever number of workers read them. It finds the
// files, the settings in pyproject.toml and the local modules that files import. Text that an editor holds stands before what is on disk. A
// file that cannot be read is an error of its own and stops nothing else.
package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/notebook"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/code/repair"
)

// Workspace is what is known of the files around those that are checked.
type Workspace struct {
	settings Settings
	open     map[string][]byte // by path: what an editor holds
	cache    *Cache            // nil: none

	looked atomic.Int64 // files that were looked at, not taken from the cache
	same   bool         // every folder that the cache knows holds what it held: imports mean what they meant

	project *lint.Project // what the files that were checked show together; nil before the first check

	mu        sync.Mutex
	folders   map[string]map[string]kind // by path: what is in it
	ahead     map[string]listing         // by path: folders that were listed before anybody asked
	asked     map[string]map[string]bool // by path: the names that were looked for
	blind     map[string]bool            // folders that cannot be listed
	resolvers map[string]*resolver       // by folder
	units     map[string]*unit           // by path: what was read
}

// unit is one file: its text, the files of the project it imports, and, once it was checked, what was seen in it.
type unit struct {
	path    string
	src     []byte // nil while nobody needs it: its stamp says that it is as it was
	source  sum    // of src
	stamp   stamp  // of the file; zero for what an editor holds
	err     error
	modules string   // that it imports, as written (packTexts)
	imports []string // the files of the project among them
	report  *lint.Report
	trial   bool   // a text that is tried, which the file does not hold
	offers  sum    // of report.Exports
	known   *entry // what the report was taken from, if it was
	once    sync.Once
}

// exports is what a file that was checked offers to those that import it.
func (w *Workspace) exports(u *unit) *flow.Exports {
	u.once.Do(func() {
		if u.known != nil {
			u.report.Exports = w.cache.exports(u.known)
		}
	})
	return u.report.Exports
}

// New makes a workspace that has read nothing yet.
func New(s Settings) *Workspace {
	return &Workspace{settings: s, open: map[string][]byte{}, folders: map[string]map[string]kind{}, asked: map[string]map[string]bool{}, blind: map[string]bool{}, resolvers: map[string]*resolver{}, units: map[string]*unit{}}
}

// Holding makes the workspace read texts that an editor holds, by path, in place of the files.
func (w *Workspace) Holding(texts map[string][]byte) *Workspace {
	w.open = texts
	return w
}

// Caching makes the workspace remember what it saw, and use what was seen before.
func (w *Workspace) Caching(c *Cache) *Workspace {
	w.cache = c
	return w
}

// Looked counts the files that were looked at; the others were taken from the cache.
func (w *Workspace) Looked() int { return int(w.looked.Load()) }

// Result is what was found in one file.
type Result struct {
	Path     string
	Source   []byte // nil where nothing was found and the cache knew the file
	Findings []lint.Finding
	Err      error
}

// Check reads the files with so many workers. It ends early only when the context does.
func (w *Workspace) Check(ctx context.Context, files []string, jobs int) ([]Result, error) {
	if err := w.load(ctx, files, jobs); err != nil {
		return nil, err
	}
	w.cache.keepFolders(w)
	w.project = w.survey()
	results := make([]Result, len(files))
	for i, path := range files {
		results[i] = w.result(path)
	}
	return results, nil
}

// result is what was found in a file that was checked.
func (w *Workspace) result(path string) Result {
	u := w.units[filepath.Clean(path)]
	r := Result{Path: path, Err: u.err}
	if u.report != nil && len(u.report.Findings)+len(u.report.Suppressions) > 0 {
		opts := w.settings.For(path)
		opts.Project = w.project
		r.Findings = u.report.Choose(opts)
	}
	if len(r.Findings) > 0 {
		w.need(u)
	}
	r.Source = u.src
	return r
}

// load checks files and what they import, imported files first.
func (w *Workspace) load(ctx context.Context, files []string, jobs int) error {
	all := make([]string, len(files))
	for i, f := range files {
		all[i] = filepath.Clean(f)
	}
	w.same = len(w.open) == 0 && w.cache.sameFolders(ctx, w, jobs)
	return w.look(ctx, all, jobs)
}

// look checks files by their clean paths and what they import, imported files first.
func (w *Workspace) look(ctx context.Context, all []string, jobs int) error {
	w.readAll(ctx, all, jobs)
	for _, layer := range layers(all, w.importsOf) {
		each(ctx, len(layer), jobs, func(i int) {
			for _, path := range layer[i] {
				w.checkUnit(w.unit(path))
			}
		})
	}
	return ctx.Err()
}

// each runs work for 0 to n-1 with so many workers.
func each(ctx context.Context, n, jobs int, work func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range max(1, min(jobs, n)) {
		wg.Go(func() {
			for i := range next {
				work(i)
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
}

// readAll reads files, and the files of the project that they import, until no new ones turn up.
func (w *Workspace) readAll(ctx context.Context, files []string, jobs int) {
	seen := map[string]bool{}
	for len(files) > 0 && ctx.Err() == nil {
		each(ctx, len(files), jobs, func(i int) { w.unit(files[i]) })
		var more []string
		for _, f := range files {
			seen[f] = true
			for _, dep := range w.importsOf(f) {
				if !seen[dep] {
					seen[dep] = true
					more = append(more, dep)
				}
			}
		}
		files = more
	}
}

func (w *Workspace) importsOf(path string) []string { return w.unit(path).imports }

// unit gives a file with its text and imports, reading it the first time.
func (w *Workspace) unit(path string) *unit {
	w.mu.Lock()
	u := w.units[path]
	w.mu.Unlock()
	if u != nil {
		return u
	}
	u = w.fresh(path)
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.units[path]; other != nil {
		return other
	}
	w.units[path] = u
	return u
}

// fresh is a file that was not checked yet. One that the cache knows by its size and time is not read.
func (w *Workspace) fresh(path string) *unit {
	at := w.stamp(path)
	if e := w.cache.untouched(path, at); e != nil {
		u := &unit{path: path, source: e.Source, stamp: at, modules: e.Modules}
		w.resolve(u, e)
		return u
	}
	src, err := w.read(path)
	u := w.newUnit(path, src)
	u.err, u.stamp = err, at
	return u
}

// need reads the text of a file that was taken from the cache.
func (w *Workspace) need(u *unit) {
	if u.src == nil && u.err == nil {
		u.src, u.err = w.read(u.path)
	}
}

// newUnit is a text that was not checked yet.
func (w *Workspace) newUnit(path string, src []byte) *unit {
	u := &unit{path: path, src: src, source: sumOf(src)}
	e := w.cache.find(path, u.source)
	if e != nil {
		u.modules = e.Modules
	} else {
		u.modules = string(packTexts(nil, modules(path, src)))
	}
	w.resolve(u, e)
	return u
}

// resolve finds the files of the project among what a file imports. What an entry found counts while the folders are as they were.
func (w *Workspace) resolve(u *unit, e *entry) {
	if e != nil && w.same && w.cache.resolved(e) {
		u.imports = e.Imports
		return
	}
	r := w.resolver(u.path)
	names := reader{rest: u.modules}
	for _, module := range names.texts() {
		if found := r.find(module); found != "" && found != u.path && !slices.Contains(u.imports, found) {
			u.imports = append(u.imports, found)
		}
	}
}

// modules lists what a text imports.
func modules(path string, src []byte) []string {
	if isNotebook(path) {
		nb, err := notebook.Read(src)
		if err != nil {
			return nil
		}
		src = nb.Source
	}
	return topImports(src)
}

// checkUnit looks at a file whose imports were looked at before, or takes what was seen in it another time.
func (w *Workspace) checkUnit(u *unit) {
	if u.err != nil || u.report != nil {
		return
	}
	if e := w.cache.find(u.path, u.source); e != nil && w.holds(u, e) {
		if report, ok := e.report(); ok {
			u.report, u.offers, u.known = report, e.Offers, e
			return
		}
	}
	if w.need(u); u.err != nil {
		return
	}
	w.looked.Add(1)
	var seen []asked
	find := w.imported(u)
	u.report, u.err = w.report(u.path, u.src, func(module string) *flow.Exports {
		path := find(module)
		other := w.checked(path)
		if !slices.ContainsFunc(seen, func(a asked) bool { return a.Module == module }) {
			seen = append(seen, asked{module, path, offered(other)})
		}
		if other == nil {
			return nil
		}
		return w.exports(other)
	})
	if u.err == nil {
		w.cache.put(u, seen)
	}
}

// holds tells whether everything an entry was made from is as it was.
func (w *Workspace) holds(u *unit, e *entry) bool {
	if !w.same || !w.cache.resolved(e) {
		e.Imports = u.imports
		find := w.imported(u)
		for i := range e.Asked {
			e.Asked[i].Found = find(e.Asked[i].Module)
		}
	}
	return !slices.ContainsFunc(e.Asked, func(a asked) bool { return offered(w.checked(a.Found)) != a.Offers })
}

func offered(u *unit) sum {
	if u == nil {
		return ""
	}
	return u.offers
}

// survey sums up what the files read so far show together. Who calls what is looked up only where a finding depends on it.
func (w *Workspace) survey() *lint.Project {
	paths := slices.Sorted(maps.Keys(w.units))
	reports, wanted := make([]*lint.Report, len(paths)), false
	for i, path := range paths {
		reports[i] = w.units[path].report
		wanted = wanted || reports[i] != nil && slices.ContainsFunc(reports[i].Findings, func(f lint.Finding) bool { return f.Within != "" })
	}
	for i, path := range paths {
		if known := w.units[path].known; wanted && known != nil && reports[i].Uses == nil {
			var err error
			if reports[i].Uses, err = w.cache.uses(known); err != nil {
				return nil
			}
		}
	}
	project := lint.Survey(reports)
	project.Torch, project.Oldest = w.pins(newest), w.pins(oldest)
	return project
}

// File checks one file.
func (w *Workspace) File(path string) Result {
	results, err := w.Check(context.Background(), []string{path}, 1)
	if err != nil {
		return Result{Path: path, Err: err}
	}
	return results[0]
}

// Text checks a text as if it stood in the file. What the files that were checked before show together (who calls what, which PyTorch) counts for it as it
// counted for the file.
func (w *Workspace) Text(path string, src []byte) ([]lint.Finding, error) {
	path = filepath.Clean(path)
	u := w.newUnit(path, src)
	u.trial = true
	w.mu.Lock()
	w.units[path] = u
	w.mu.Unlock()
	if err := w.look(context.Background(), []string{path}, 1); err != nil {
		return nil, err
	}
	if w.project == nil {
		w.project = w.survey()
	}
	r := w.result(path)
	return r.Findings, r.Err
}

// report checks one file whose imports were checked before, and tries repairs; other files are out of sight, so that the answer does not depend
// on what else was read when. It depends on no setting.
func (w *Workspace) report(path string, src []byte, lookup flow.Lookup) (*lint.Report, error) {
	if !isNotebook(path) {
		report, module := lint.Look(path, src, nil, lookup)
		repair.Offer(repair.Unit{Source: src, Module: module, Check: func(edits []pysource.Edit) *lint.Report {
			return lint.Check(path, pysource.Apply(src, edits), lookup)
		}}, report)
		return report, nil
	}
	nb, err := notebook.Read(src)
	if err != nil {
		return lint.Unreadable(path, err), nil
	}
	report, module := lint.Look(path, nb.Source, nb.Cells, lookup)
	repair.Offer(repair.Unit{Source: nb.Source, Module: module, Check: func(edits []pysource.Edit) *lint.Report {
		changed, err := editNotebook(nb, edits)
		if err != nil {
			return nil
		}
		return lint.CheckCells(path, changed, lookup)
	}}, report)
	report.Place(nb)
	return report, nil
}

func isNotebook(path string) bool { return strings.HasSuffix(path, ".ipynb") }

func editNotebook(nb *notebook.Notebook, edits []pysource.Edit) (*notebook.Notebook, error) {
	text, err := nb.Apply(edits)
	if err != nil {
		return nil, err
	}
	return notebook.Read(text)
}

// imported finds the files that the modules a file imports are.
func (w *Workspace) imported(u *unit) func(module string) string {
	r := w.resolver(u.path)
	return func(module string) string {
		found := r.find(module)
		if found == "" || !strings.HasPrefix(module, "@") && !slices.Contains(u.imports, found) {
			return ""
		}
		return found
	}
}

// checked is a file once it was checked; nil for one that was not.
func (w *Workspace) checked(path string) *unit {
	if path == "" {
		return nil
	}
	w.mu.Lock()
	other := w.units[path]
	w.mu.Unlock()
	if other == nil || other.report == nil {
		return nil
	}
	return other
}

// stamp tells by a file's size and time whether it was written since. The zero stamp tells nothing.
type stamp struct{ Size, Time int64 }

// settled is how old a file has to be for its time to be trusted: one that is written twice within the clock's grain looks the same.
const settled = 2 * time.Second

func (w *Workspace) stamp(path string) stamp {
	if _, held := w.open[path]; held || w.cache == nil {
		return stamp{}
	}
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) < settled {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime().UnixNano()}
}

// maxSource is the largest file that is read; a notebook carries its pictures along.
const maxSource = 64 << 20

func (w *Workspace) read(path string) ([]byte, error) {
	if text, ok := w.open[path]; ok {
		return text, nil
	}
	if !w.settings.Fence.Allows(path) {
		return nil, os.ErrPermission
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int64(bytes.MinRead)
	if info, err := f.Stat(); err == nil {
		size += min(info.Size(), maxSource)
	}
	src := bytes.NewBuffer(make([]byte, 0, size))
	_, err = src.ReadFrom(io.LimitReader(f, maxSource+1))
	if err == nil && src.Len() > maxSource {
		return nil, fmt.Errorf("larger than %d bytes; is it Python source?", maxSource)
	}
	return src.Bytes(), err
}
