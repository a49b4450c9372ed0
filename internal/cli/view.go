package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/compare"
	"github.com/plimsoll/plimsoll/internal/answer/diagnose"
	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/page"
	"github.com/plimsoll/plimsoll/internal/show/textout"
	"github.com/plimsoll/plimsoll/internal/show/viewdata"
	"github.com/plimsoll/plimsoll/internal/show/web"
)

// viewOptions are the flags of plimsoll view.
type viewOptions struct {
	html      string // write one file instead of serving
	noBrowser bool
	json      bool
	job       string // file of a job to predict and show
	machineFlags
}

func newViewCommand(env Env) *cobra.Command {
	var o viewOptions
	cmd := &cobra.Command{
		Use:   "view FILE...",
		Short: "show the memory of a job as a web page",
		Long: `View opens a page on this machine: the answer of explain, memory over time by
category, line or phase, what was alive at any instant as a flame graph and a
table, the memory map with what pins it, growth from step to step, and what
other allocator settings would have held. It stays responsive with millions of events.
Given two files, it compares them.

The answer of plimsoll predict --json or fit --json is shown too: what a job will
need and with which batches it fits, or its plans by memory and time. --job predicts
a job for the page.

The page is served on this machine only, under an address that cannot be guessed,
and no request leaves it. Stop it with Ctrl-C. --html writes the page into
one file instead, to attach to an issue or send to a colleague.`,
		Example: `  plimsoll view oom.pickle.gz
  plimsoll view before.pickle.gz after.pickle.gz
  plimsoll view --html report.html oom.pickle.gz
  plimsoll view --job job.json --gpu rtx-4090
  plimsoll fit --job job.json --gpu rtx-4090 --json | plimsoll view -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && o.job == "" {
				env.Stdin, args = pipedArg(env)
			}
			if err := o.contradiction(cmd, args); err != nil {
				return err
			}
			if o.html != "" {
				return writePage(env, o, args)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return servePage(ctx, env, o, args)
		},
	}
	cmd.Flags().StringVar(&o.html, "html", "", "write the page as one self-contained file instead of serving it")
	cmd.Flags().BoolVar(&o.noBrowser, "no-browser", false, "only print the address, do not open a browser")
	cmd.Flags().BoolVar(&o.json, "json", false, "print where the page is as JSON ("+viewSchema+")")
	cmd.Flags().StringVar(&o.job, "job", "", "predict this job (JSON, as for plimsoll predict) and show it instead of a file")
	o.machineFlags.add(cmd)
	return cmd
}

// contradiction refuses a page about nothing, or about two things.
func (o *viewOptions) contradiction(cmd *cobra.Command, args []string) error {
	switch {
	case o.job == "" && len(args) == 0:
		return usageError("nothing to view: name a snapshot, a log, or the output of plimsoll predict --json or fit --json; or a job with --job")
	case o.job != "" && len(args) > 0:
		return usageError("give either --job or %s, not both", args[0])
	}
	for _, flag := range []string{"gpu", "memory", "torch", "conf"} {
		if o.job == "" && cmd.Flags().Changed(flag) {
			return usageError("--%s needs --job: a recorded run has its own card", flag)
		}
	}
	return nil
}

// viewed is the answer of plimsoll view --json: where the page is.
type viewed struct {
	Schema string `json:"schema"`
	URL    string `json:"url,omitempty"`
	File   string `json:"file,omitempty"`
}

const viewSchema = "plimsoll.view/1"

// album is what a page shows: the evidence, its cases, and the book made of them; or an answer, whose book is empty.
type album struct {
	evidence []explain.Evidence
	cases    []*diagnose.Case
	book     *page.Book
	answer   *page.Summary
}

func readAlbum(env Env, o viewOptions, args []string) (*album, error) {
	answer, err := readAnswer(&env, o, args)
	if err != nil {
		return nil, err
	}
	if answer != nil {
		return &album{book: page.NewBook(nil), answer: answer}, nil
	}
	all, err := readEvidence(env, args)
	if err != nil {
		return nil, err
	}
	a := &album{evidence: all}
	var recordings []page.Recording
	messages := 0
	for _, e := range all {
		messages += len(e.Messages)
		if e.Snapshot == nil {
			continue
		}
		for _, c := range explain.Timelines(e) {
			a.cases = append(a.cases, c)
			recordings = append(recordings, page.Recording{Input: c.Input, Index: viewdata.New(c.Timeline)})
		}
	}
	if len(recordings) == 0 && messages == 0 {
		return nil, unreadable(nothingIn(all))
	}
	a.book = page.NewBook(recordings)
	return a, nil
}

// summary concludes. Two recordings are compared.
func (a *album) summary() page.Summary {
	if a.answer != nil {
		return *a.answer
	}
	s := page.Summary{Kind: page.Recorded, Report: explain.Conclude(a.evidence, a.cases)}
	s.Headline = textout.Headline(s.Report)
	if len(a.cases) == 2 && a.cases[0].Input != a.cases[1].Input {
		s.Kind = page.Compared
		s.Diff = compare.Timelines(a.cases[0].Timeline, a.cases[1].Timeline)
		s.Diff.Before.Input, s.Diff.After.Input = a.cases[0].Input, a.cases[1].Input
	}
	s.About = a.spokenOf(s.Report)
	return s
}

// spokenOf is the recording that the headline of a report speaks of.
func (a *album) spokenOf(r *report.Explain) int {
	d := textout.SpokenOf(r)
	if d == nil {
		return 0
	}
	return max(0, slices.IndexFunc(a.cases, func(c *diagnose.Case) bool { return c.Input == d.Input && c.Device == d.Device }))
}

// writePage writes the page into a file.
func writePage(env Env, o viewOptions, args []string) error {
	a, err := readAlbum(env, o, args)
	if err != nil {
		return err
	}
	f, err := os.Create(o.html)
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	err = page.Export(f, a.summary(), a.book)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "plimsoll: wrote %s (open it in any browser; it needs nothing else)\n", o.html)
	if o.json {
		return printJSON(env.Stdout, viewed{Schema: viewSchema, File: o.html})
	}
	return nil
}

// readsQuietly is how long reading may take before the address is printed. What cannot be read fails sooner, and then there is no page to announce;
// a large recording is read while the browser starts.
const readsQuietly = 500 * time.Millisecond

// servePage reads what is asked for and serves it. It ends with the context.
func servePage(ctx context.Context, env Env, o viewOptions, args []string) error {
	for _, arg := range args {
		if _, err := os.Stat(arg); arg != "-" && err != nil {
			return unreadable(err)
		}
	}
	s, err := web.Listen()
	if err != nil {
		return fmt.Errorf("open a port on the loopback: %w", err)
	}
	read := make(chan error, 1)
	go func() { read <- show(env, s, o, args) }()
	wait := time.After(readsQuietly)
	if o.job != "" {
		wait = nil // a prediction is quick or fails
	}
	select {
	case err := <-read:
		if err != nil {
			_ = s.Close()
			return err
		}
		close(read)
	case <-ctx.Done():
		return s.Close()
	case <-wait:
	}
	if err := announce(env, o, s); err != nil {
		return err
	}
	if !o.noBrowser && env.Browse != nil {
		remove, err := openInBrowser(env, s.Opener())
		defer remove()
		if err != nil {
			fmt.Fprintf(env.Stderr, "plimsoll: no browser could be opened (%v): open the address yourself\n", err)
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if err := <-read; err != nil {
			stop(err)
		}
	}()
	if err := s.Serve(ctx); err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	var c coded
	if errors.As(context.Cause(ctx), &c) {
		return c
	}
	return nil
}

// announce prints where the page is.
func announce(env Env, o viewOptions, s *web.Server) (err error) {
	if o.json {
		err = printJSON(env.Stdout, viewed{Schema: viewSchema, URL: s.URL()})
	} else {
		_, err = fmt.Fprintln(env.Stdout, s.URL())
	}
	if err != nil {
		return fmt.Errorf("print the address: %w", err)
	}
	fmt.Fprintln(env.Stderr, "plimsoll: the page is at the address above until Ctrl-C")
	return nil
}

// openInBrowser writes a page that only this user can read and opens it.
func openInBrowser(env Env, page []byte) (remove func(), err error) {
	dir, err := os.MkdirTemp("", "plimsoll-view-") // readable by its owner alone
	if err != nil {
		return func() {}, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "open.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		return remove, err
	}
	return remove, env.Browse(file)
}

// show reads the files and gives the page what it shows, the curve before the conclusions.
func show(env Env, s *web.Server, o viewOptions, args []string) error {
	a, err := readAlbum(env, o, args)
	if err != nil {
		return err
	}
	debug.SetGCPercent(40) // what is held are columns without pointers, cheap to look through
	s.Show(a.book)
	s.Conclude(a.summary())
	debug.FreeOSMemory() // reading leaves garbage as large as the file
	return nil
}

// browse opens a file in the person's browser.
func browse(file string) error {
	name, args := "xdg-open", []string{file}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", file}
	}
	return exec.Command(name, args...).Start()
}
