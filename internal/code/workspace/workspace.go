// Package workspace checks the files of a project.
//
// In go paths and settings; out come lint findings, file by file in the order of the paths, whatever number of workers read them. It finds the
// files, the settings in pyproject.toml and the local modules that files import. Text that an editor holds stands before what is on disk. A
// file that cannot be read is an error of its own and stops nothing else.
package workspace

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/notebook"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/code/repair"
)

// Workspace is what is known of the files around those that are checked.
type Workspace struct {
	settings   Settings
	open       map[string][]byte // by path: what an editor holds
	neighbours *neighbours
}

// New makes a workspace that has read nothing yet.
func New(s Settings) *Workspace {
	w := &Workspace{settings: s, open: map[string][]byte{}}
	w.neighbours = newNeighbours(w.read)
	return w
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
	results := make([]Result, len(files))
	var wg sync.WaitGroup
	next := make(chan int)
	for range max(1, jobs) {
		wg.Go(func() {
			for i := range next {
				results[i] = w.File(files[i])
			}
		})
	}
	for i := range files {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	return results, ctx.Err()
}

// File checks one file.
func (w *Workspace) File(path string) Result {
	src, err := w.read(path)
	if err != nil {
		return Result{Path: path, Err: err}
	}
	findings, err := w.Text(path, src)
	return Result{path, src, findings, err}
}

// Text checks a text as if it stood in the file.
func (w *Workspace) Text(path string, src []byte) ([]lint.Finding, error) {
	report, err := w.report(path, src)
	if err != nil {
		return nil, err
	}
	return report.Choose(w.settings.For(path)), nil
}

// report looks at one text with every rule, and tries repairs. It depends on the text and on what the modules it imports offer, on no setting.
func (w *Workspace) report(path string, src []byte) (*lint.Report, error) {
	lookup := w.neighbours.lookup(path)
	if !isNotebook(path) {
		report := lint.Check(path, src, lookup)
		repair.Offer(repair.Unit{Path: path, Source: src, Lookup: lookup, Check: func(edits []pysource.Edit) *lint.Report {
			return lint.Check(path, pysource.Apply(src, edits), lookup)
		}}, report)
		return report, nil
	}
	nb, err := notebook.Read(src)
	if err != nil {
		return nil, err
	}
	report := lint.CheckCells(path, nb.Source, nb.Ends, lookup)
	repair.Offer(repair.Unit{Path: path, Source: nb.Source, Lookup: lookup, Check: func(edits []pysource.Edit) *lint.Report {
		changed, err := editNotebook(nb, edits)
		if err != nil {
			return nil
		}
		return lint.CheckCells(path, changed.Source, changed.Ends, lookup)
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
