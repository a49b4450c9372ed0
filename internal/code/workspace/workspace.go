// Package workspace checks the files of a project.
//
// It takes paths and settings and returns lint findings, file by file in the order of the paths, whatever number of workers read them. It finds the
// files, the settings in pyproject.toml and the local modules that files import. Text that an editor holds stands before what is on disk. A
// file that cannot be read is an error of its own and stops nothing else.
package workspace

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// Workspace is what is known of the files around those that are checked.
type Workspace struct {
	settings Settings
	open     map[string][]byte // by path: what an editor holds

	mu    sync.Mutex
	there map[string]bool  // which files exist
	units map[string]*unit // by path: what was read
}

// unit is one file: its text, the files of the project it imports, and, once it was checked, what was seen in it.
type unit struct {
	path    string
	src     []byte
	err     error
	imports []string
	report  *lint.Report
}

// New makes a workspace that has read nothing yet.
func New(s Settings) *Workspace {
	return &Workspace{settings: s, open: map[string][]byte{}, there: map[string]bool{}, units: map[string]*unit{}}
}

// Result is what was found in one file.
type Result struct {
	Path     string
	Source   []byte
	Findings []lint.Finding
	Err      error
}

// Check reads the files with so many workers. It ends early only when the context does.
func (w *Workspace) Check(ctx context.Context, files []string, jobs int) ([]Result, error) {
	if err := w.load(ctx, files, jobs); err != nil {
		return nil, err
	}
	quiet := w.quiet()
	results := make([]Result, len(files))
	for i, path := range files {
		u := w.units[filepath.Clean(path)]
		results[i] = Result{Path: path, Source: u.src, Err: u.err}
		if u.report != nil {
			opts := w.settings.For(path)
			opts.Quiet = quiet
			results[i].Findings = u.report.Choose(opts)
		}
	}
	return results, nil
}

// load checks files and what they import, imported files first.
func (w *Workspace) load(ctx context.Context, files []string, jobs int) error {
	all := make([]string, len(files))
	for i, f := range files {
		all[i] = filepath.Clean(f)
	}
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
	u = &unit{path: path}
	u.src, u.err = w.read(path)
	u.imports = w.localImports(path, u.src)
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.units[path]; other != nil {
		return other
	}
	w.units[path] = u
	return u
}

// localImports lists the files of the project that a text imports.
func (w *Workspace) localImports(path string, src []byte) []string {
	if !strings.HasSuffix(path, ".py") {
		return nil
	}
	r := w.resolver(path)
	var out []string
	for _, module := range topImports(src) {
		if found := r.find(module); found != "" && found != path && !slices.Contains(out, found) {
			out = append(out, found)
		}
	}
	return out
}

func (w *Workspace) checkUnit(u *unit) {
	if u.err != nil || u.report != nil {
		return
	}
	u.report, u.err = w.report(u.path, u.src, u.imports)
}

// quiet names the functions that only run while autograd is off, as far as the files read so far show.
func (w *Workspace) quiet() map[string]bool {
	paths := slices.Sorted(maps.Keys(w.units))
	reports := make([]*lint.Report, len(paths))
	for i, path := range paths {
		reports[i] = w.units[path].report
	}
	return lint.Quiet(reports)
}

// File checks one file.
func (w *Workspace) File(path string) Result {
	results, err := w.Check(context.Background(), []string{path}, 1)
	if err != nil {
		return Result{Path: path, Err: err}
	}
	return results[0]
}

// Text checks a text as if it stood in the file.
func (w *Workspace) Text(path string, src []byte) ([]lint.Finding, error) {
	path = filepath.Clean(path)
	w.mu.Lock()
	delete(w.units, path)
	w.units[path] = &unit{path: path, src: src}
	w.mu.Unlock()
	w.units[path].imports = w.localImports(path, src)
	r := w.File(path)
	return r.Findings, r.Err
}

// report checks one file whose imports were checked before; other files are out of sight, so that the answer does not depend on
// what else was read when.
func (w *Workspace) report(path string, src []byte, imports []string) (*lint.Report, error) {
	r := w.resolver(path)
	lookup := func(module string) *flow.Exports {
		found := r.find(module)
		if found == "" || !strings.HasPrefix(module, "@") && !slices.Contains(imports, found) {
			return nil
		}
		w.mu.Lock()
		u := w.units[found]
		w.mu.Unlock()
		if u == nil || u.report == nil {
			return nil
		}
		return u.report.Exports
	}
	if strings.HasSuffix(path, ".ipynb") {
		return lint.CheckNotebook(path, src, lookup)
	}
	return lint.Check(path, src, lookup), nil
}

// maxSource is the largest file that is read; a notebook carries its pictures along.
const maxSource = 64 << 20

func (w *Workspace) read(path string) ([]byte, error) {
	if text, ok := w.open[path]; ok {
		return text, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err == nil && len(src) > maxSource {
		return nil, fmt.Errorf("larger than %d bytes; is it Python source?", maxSource)
	}
	return src, err
}
