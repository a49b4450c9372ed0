package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

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
	Explain string
	Select  []string // rules to apply, as ids, prefixes, names or ALL
	Ignore  []string
	FailOn  string // error, warning or never
	Tests   bool   // read test files too
	Jobs    int    // files read at once
}

func newLintCommand(env Env) *cobra.Command {
	var o lintOptions
	cmd := &cobra.Command{
		Use:   "lint PATH... | --explain RULE",
		Short: "find code that wastes GPU memory",
		Long: `Lint reads Python training code without running it and reports what wastes GPU
memory, and the accumulation mistakes people make while fighting for it: the line,
why it matters, and the fix. It needs neither Python nor a GPU.

PATH is a .py file, a notebook (.ipynb) or a folder. Folders are read without tests
and without hidden, build and site-packages folders; a file named is always read.

  # plimsoll: ignore[LM003] reason       on the line, or alone on the line above
  # plimsoll: ignore-file[LM003] reason  for the whole file

[tool.plimsoll.lint] in pyproject.toml: select, ignore, exclude, fail-on, tests.
Errors (a wrong or dying run) exit with 3; warnings and notes with 0.`,
		Example: `  plimsoll lint train.py
  plimsoll lint src/ --ignore LM012,LM025
  plimsoll lint --explain LM010
  plimsoll lint --sarif . > lint.sarif`,
		RunE: func(cmd *cobra.Command, args []string) error { return runLint(cmd.Context(), env, o, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.JSON, "json", false, "print the findings as JSON ("+lintout.Schema+")")
	f.BoolVar(&o.SARIF, "sarif", false, "print the findings as SARIF 2.1.0")
	f.BoolVar(&o.GitHub, "github", false, "print GitHub workflow annotations")
	f.BoolVar(&o.Fix, "fix", false, "apply the fixes that cannot change what the program does")
	f.StringVar(&o.Explain, "explain", "", "print the page of a rule, with a wrong and a right example")
	f.StringSliceVar(&o.Select, "select", nil, "apply only these rules (ids, prefixes, names, or ALL for the quiet ones too)")
	f.StringSliceVar(&o.Ignore, "ignore", nil, "leave these rules out")
	f.StringVar(&o.FailOn, "fail-on", "", "exit with 3 at this severity: error (default), warning, note or never")
	f.BoolVar(&o.Tests, "tests", false, "read test files in folders too")
	f.IntVar(&o.Jobs, "jobs", runtime.GOMAXPROCS(0), "files to read at once")
	return cmd
}

func runLint(ctx context.Context, env Env, o lintOptions, args []string) error {
	if o.Explain != "" {
		return explainRule(env, o.Explain)
	}
	if o.JSON && o.SARIF || o.JSON && o.GitHub || o.SARIF && o.GitHub {
		return usageError("--json, --sarif and --github: choose one")
	}
	if len(args) == 0 {
		return usageError("lint needs a file or folder to read, or --explain RULE")
	}
	settings, err := o.settings(args[0])
	if err != nil {
		return err
	}
	files, err := settings.Files(args)
	if err != nil {
		return unreadable(err)
	}
	if len(files) == 0 { // not a failure: a hook may be given folders without code
		fmt.Fprintf(env.Stderr, "plimsoll: no Python files in %s (test files in folders are left out; --tests reads them)\n", strings.Join(args, ", "))
	}
	// Syntax trees are many small objects that die with their file: collecting less often halves the time and costs some 100 MiB.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	stop := progress(env, func() string { return fmt.Sprintf("reading %d files", len(files)) })
	summary, err := lintFiles(ctx, o, settings, files)
	stop()
	if err != nil {
		return err
	}
	if err := writeLint(env, o, summary); err != nil {
		return err
	}
	if fails(settings.FailOn, summary) {
		return findingExit()
	}
	return nil
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

// settings are those of the project with what the command line changes.
func (o lintOptions) settings(path string) (workspace.Settings, error) {
	s, err := workspace.ReadSettings(path)
	if err != nil {
		return s, unreadable(err)
	}
	if len(o.Select) > 0 {
		s.Select = o.Select
	}
	s.Ignore = slices.Concat(o.Ignore, s.Ignore)
	s.FailOn = cmp.Or(o.FailOn, s.FailOn)
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
	w := workspace.New(settings)
	results, err := w.Check(ctx, files, o.Jobs)
	if err != nil {
		return lintout.Summary{}, err
	}
	s := lintout.Summary{Files: len(files)}
	for _, r := range results {
		if r.Err == nil && o.Fix && filepath.Ext(r.Path) == ".py" {
			if better, fixed := lint.Fix(r.Source, r.Findings, false); fixed > 0 {
				if r.Err = rewrite(r.Path, better); r.Err == nil {
					r.Findings, r.Err = w.Text(r.Path, better)
				}
				s.Fixed += fixed
			}
		}
		if r.Err != nil {
			return s, unreadable(fmt.Errorf("lint %s: %w", r.Path, r.Err))
		}
		s.Findings = append(s.Findings, r.Findings...)
	}
	return s, nil
}

// rewrite replaces a file in one step, with the permissions it had.
func rewrite(path string, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temp := path + ".plimsoll"
	if err := os.WriteFile(temp, text, info.Mode().Perm()); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
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
