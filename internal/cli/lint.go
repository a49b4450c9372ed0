package cli

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/code/langserver"
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/workspace"
	"github.com/plimsoll/plimsoll/internal/show/lintout"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

type lintOptions struct {
	JSON    bool
	SARIF   bool
	GitHub  bool
	Fix     bool
	Unsafe  bool // repairs that may change what the program does, too
	Diff    bool // show what Fix would do
	Explain string
	Select  []string // rules to apply, as ids, prefixes, names or ALL
	Ignore  []string
	FailOn  string // error, warning or never
	Tests   bool   // read test files too
	Jobs    int    // files read at once

	Baseline, WriteBaseline string

	LSP     bool // answer an editor on standard input and output
	NoCache bool
	Within  []string // folders outside of which nothing is read

	cache *workspace.Cache
}

func newLintCommand(env Env) *cobra.Command {
	var o lintOptions
	cmd := &cobra.Command{
		Use:   "lint PATH... | --explain RULE | --lsp",
		Short: "find code that wastes GPU memory",
		Long: `Lint reads Python training code without running it and reports what wastes GPU
memory, and the accumulation mistakes people make while fighting for it: the line,
why it matters, and the fix. It needs neither Python nor a GPU.

PATH is a .py file, a notebook (.ipynb) or a folder. Folders are read without tests
and without hidden, build and site-packages folders; a file named is always read.

--fix repairs what it can without changing what the program does; --unsafe-fixes
adds repairs that you should review. Each repair was checked: the result is read and
analysed again, the finding is gone, and there is no new one.

  # plimsoll: ignore[LM003] reason       on the line, or alone on the line above
  # noqa: LM003                          on the line
  # plimsoll: ignore-file[LM003] reason  for the whole file

[tool.plimsoll.lint] in pyproject.toml: select, ignore, per-file-ignores, severity,
exclude, fail-on, baseline, tests.
Errors (code that fails or trains wrongly) exit with 3; warnings and notes with 0.`,
		Example: `  plimsoll lint train.py
  plimsoll lint src/ --ignore LM012,LM025
  plimsoll lint --explain LM010
  plimsoll lint --diff --unsafe-fixes src/
  plimsoll lint --write-baseline lint-baseline.json .
  plimsoll lint --sarif . > lint.sarif`,
		RunE: func(cmd *cobra.Command, args []string) error { return runLint(cmd.Context(), env, o, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.JSON, "json", false, "print the findings as JSON ("+lintout.Schema+")")
	f.BoolVar(&o.SARIF, "sarif", false, "print the findings as SARIF 2.1.0")
	f.BoolVar(&o.GitHub, "github", false, "print GitHub workflow annotations")
	f.BoolVar(&o.Fix, "fix", false, "apply the fixes that do not change what the program does")
	f.BoolVar(&o.Unsafe, "unsafe-fixes", false, "with --fix or --diff: also the fixes that you should review")
	f.BoolVar(&o.Diff, "diff", false, "show what --fix would change, and change nothing; exit with 3 if there is anything")
	f.StringVar(&o.Baseline, "baseline", "", "hide the findings listed in this file")
	f.StringVar(&o.WriteBaseline, "write-baseline", "", "write all findings to this file, for --baseline")
	f.BoolVar(&o.LSP, "lsp", false, "run as a language server (LSP) on standard input and output")
	f.StringVar(&o.Explain, "explain", "", "print the page of a rule, with a wrong and a right example")
	f.StringSliceVar(&o.Select, "select", nil, "apply only these rules (ids, prefixes, names, or ALL, which includes those that are off by default)")
	f.StringSliceVar(&o.Ignore, "ignore", nil, "skip these rules")
	f.StringVar(&o.FailOn, "fail-on", "", "exit with 3 at this severity: error (default), warning, note or never")
	f.BoolVar(&o.NoCache, "no-cache", false, "neither read nor write the cache")
	f.BoolVar(&o.Tests, "tests", false, "read test files in folders too")
	f.IntVar(&o.Jobs, "jobs", runtime.GOMAXPROCS(0), "files to read at once")
	f.StringArrayVar(&o.Within, "within", nil, "read nothing outside these folders (repeatable)")
	_ = f.MarkHidden("within") // plimsoll mcp says so
	return cmd
}

func runLint(ctx context.Context, env Env, o lintOptions, args []string) error {
	switch {
	case o.Explain != "":
		return explainRule(env, o.Explain)
	case o.LSP:
		return langserver.Serve(ctx, env.Stdin, env.Stdout, Version)
	}
	if err := o.check(); err != nil {
		return err
	}
	if len(args) == 0 {
		return usageError("lint needs a file or folder to read, --explain RULE, or --lsp")
	}
	settings, err := o.settings(args[0])
	if err != nil {
		return err
	}
	defer collectLess()()
	cache := make(chan *workspace.Cache, 1)
	go func() { cache <- openLintCache(env, o.NoCache) }() // while the folders are walked through
	files, err := settings.Files(args)
	o.cache = <-cache
	if err != nil {
		return unreadable(err)
	}
	if len(files) == 0 { // not a failure: a hook may be given folders without code
		fmt.Fprintf(env.Stderr, "plimsoll: no Python files in %s (test files in folders are left out; --tests reads them)\n", strings.Join(args, ", "))
	}
	defer func() { _ = o.cache.Save() }() // not to be able to write it is no failure of the check
	if o.Diff {
		return diffFiles(ctx, env, o, settings, files)
	}
	stop := progress(env, func() string { return fmt.Sprintf("reading %d files", len(files)) })
	summary, err := lintFiles(ctx, o, settings, files)
	stop()
	if err != nil {
		return err
	}
	if o.WriteBaseline != "" {
		if err := workspace.WriteBaseline(o.WriteBaseline, summary.Findings); err != nil {
			return unreadable(err)
		}
		fmt.Fprintf(env.Stdout, "%d findings written to %s; plimsoll lint --baseline %s hides them.\n", len(summary.Findings), o.WriteBaseline, o.WriteBaseline)
		return nil
	}
	summary.Findings, summary.Known, summary.Gone, err = settings.HideKnown(summary.Findings)
	if err != nil {
		return unreadable(err)
	}
	if err := writeLint(env, o, summary); err != nil {
		return err
	}
	if fails(settings.FailOn, summary) {
		return findingExit()
	}
	return nil
}

// collectLess makes the collector run seldom until the function it gives is called. Syntax trees are many small objects that die with their file, so that
// collecting less often halves the time and costs some 100 MiB. The idle block keeps it from running at all while a run is small: its pages are never
// touched, so that it takes no memory.
func collectLess() func() {
	idle := make([]byte, 64<<20)
	before := debug.SetGCPercent(250)
	return func() {
		debug.SetGCPercent(before)
		runtime.KeepAlive(idle)
	}
}

// openLintCache reads what earlier runs saw, from the person's cache folder.
func openLintCache(env Env, none bool) *workspace.Cache {
	folder := userCache(env)
	if none || folder == "" {
		return nil
	}
	return workspace.OpenCache(filepath.Join(folder, "plimsoll", "lint"), workspace.ProgramKey(Version))
}

// userCache is os.UserCacheDir of the environment that the command was given; empty where there is none.
func userCache(env Env) string {
	if env.Getenv == nil {
		return ""
	}
	home := env.Getenv("HOME")
	switch {
	case runtime.GOOS == "windows":
		return env.Getenv("LocalAppData")
	case runtime.GOOS == "darwin" && home != "":
		return filepath.Join(home, "Library", "Caches")
	case filepath.IsAbs(env.Getenv("XDG_CACHE_HOME")):
		return env.Getenv("XDG_CACHE_HOME")
	case home != "":
		return filepath.Join(home, ".cache")
	}
	return ""
}

func explainRule(env Env, id string) error {
	r, ok := lint.RuleByID(strings.ToUpper(id))
	if !ok {
		r, ok = lint.RuleByID(id)
	}
	if !ok {
		return usageError("there is no rule %q; rules are LM001 to LM%03d, see docs/lint.md", id, len(lint.Rules()))
	}
	out := screen.New(env.Stdout, env.Style)
	lintout.Page(out, r)
	return out.Err()
}

// check refuses flags that contradict each other.
func (o lintOptions) check() error {
	switch {
	case o.JSON && o.SARIF || o.JSON && o.GitHub || o.SARIF && o.GitHub:
		return usageError("--json, --sarif and --github: choose one")
	case o.Diff && (o.JSON || o.SARIF || o.GitHub):
		return usageError("--diff prints a diff; leave out --json, --sarif and --github")
	case o.WriteBaseline != "" && (o.Fix || o.Diff):
		return usageError("--write-baseline lists what is found; run --fix before it")
	}
	return nil
}

// settings are those of the project with what the command line changes.
func (o lintOptions) settings(path string) (workspace.Settings, error) {
	fence, err := workspace.NewFence(o.Within)
	if err != nil {
		return workspace.Settings{}, usageError("--within: %v", err)
	}
	s, err := workspace.ReadSettings(path, fence)
	if err != nil {
		return s, unreadable(err)
	}
	if len(o.Select) > 0 {
		s.Select = o.Select
	}
	s.Ignore = slices.Concat(o.Ignore, s.Ignore)
	s.FailOn = cmp.Or(o.FailOn, s.FailOn)
	s.Baseline = cmp.Or(o.Baseline, s.Baseline)
	s.Tests = s.Tests || o.Tests
	if err := s.Validate(); err != nil {
		return s, usageError("%v", err)
	}
	return s, nil
}

func fails(failOn string, s lintout.Summary) bool {
	errors, warnings, notes := s.Count()
	switch failOn {
	case "never":
		return false
	case "note":
		return errors+warnings+notes > 0
	case "warning":
		return errors+warnings > 0
	}
	return errors > 0
}

func writeLint(env Env, o lintOptions, s lintout.Summary) error {
	switch {
	case o.JSON:
		return lintout.JSON(env.Stdout, s)
	case o.SARIF:
		return lintout.SARIF(env.Stdout, s, Version)
	case o.GitHub:
		return lintout.GitHub(env.Stdout, s)
	}
	out := screen.New(env.Stdout, env.Style)
	lintout.Text(out, s)
	return out.Err()
}

// lintFiles checks the files and, where asked to, fixes them.
func lintFiles(ctx context.Context, o lintOptions, settings workspace.Settings, files []string) (lintout.Summary, error) {
	w := workspace.New(settings).Caching(o.cache)
	results, err := checkFiles(ctx, o, w, files)
	if err != nil {
		return lintout.Summary{}, err
	}
	s := lintout.Summary{Files: len(files)}
	if o.Fix {
		if s.Fixed, err = fixFiles(o, w, results); err != nil {
			return s, err
		}
		if s.Fixed > 0 { // what one file offers may have changed what is found in another
			if results, err = checkFiles(ctx, o, workspace.New(settings).Caching(o.cache), files); err != nil {
				return s, err
			}
		}
	}
	for _, r := range results {
		s.Findings = append(s.Findings, r.Findings...)
	}
	return s, nil
}

func checkFiles(ctx context.Context, o lintOptions, w *workspace.Workspace, files []string) ([]workspace.Result, error) {
	results, err := w.Check(ctx, files, o.Jobs)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		if r.Err != nil {
			return nil, unreadable(fmt.Errorf("lint %s: %w", r.Path, r.Err))
		}
	}
	return results, nil
}

// fixFiles fixes with the workspace that checked: a repair is made where it was offered, with all that the project shows.
func fixFiles(o lintOptions, w *workspace.Workspace, results []workspace.Result) (int, error) {
	all := 0
	for _, r := range results {
		if len(r.Findings) == 0 {
			continue
		}
		text, fixed, err := w.Fix(r.Path, r.Source, o.Unsafe)
		if err == nil && fixed > 0 {
			err = workspace.Write(r.Path, text)
		}
		if err != nil {
			return all, unreadable(fmt.Errorf("fix %s: %w", r.Path, err))
		}
		all += fixed
	}
	return all, nil
}

// diffFiles shows what fixing would change.
func diffFiles(ctx context.Context, env Env, o lintOptions, settings workspace.Settings, files []string) error {
	w, changed := workspace.New(settings).Caching(o.cache), false
	results, err := checkFiles(ctx, o, w, files)
	if err != nil {
		return err
	}
	for _, r := range results {
		if len(r.Findings) == 0 {
			continue
		}
		text, fixed, err := w.Fix(r.Path, r.Source, o.Unsafe)
		if err != nil {
			return unreadable(fmt.Errorf("fix %s: %w", r.Path, err))
		}
		if fixed > 0 {
			changed = true
			if err := lintout.Diff(env.Stdout, r.Path, r.Source, text); err != nil {
				return err
			}
		}
	}
	if changed {
		return findingExit()
	}
	return nil
}

// LintFindings checks source files for other commands: `explain` and `run` raise the findings that stand on a guilty stack
// (lint.Raise). Files that cannot be read are left out; quiet rules are applied.
func LintFindings(files []string) []lint.Finding {
	w := workspace.New(workspace.Settings{Select: []string{"ALL"}})
	var all []lint.Finding
	for _, path := range files {
		if r := w.File(path); r.Err == nil {
			all = append(all, r.Findings...)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].File < all[j].File })
	return all
}
