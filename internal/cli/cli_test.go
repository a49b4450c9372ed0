package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// result is what a command line did.
type result struct {
	stdout, stderr string
	code           int
}

// plimsoll runs a command line in this process, with stdin as its standard input.
func plimsoll(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	env := Env{
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &err,
		Getenv: func(string) string { return "" },
		Style:  screen.Style{Width: 80},
	}
	code := Run(context.Background(), env, args)
	return result{out.String(), err.String(), code}
}

func TestUsageErrorsExitWithTwo(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"explain"}, {"explain", "--no-such-flag", "x"}, {"diff", "one"}, {"nosuchverb"}} {
		if r := plimsoll(t, "", args...); r.code != exitUsage || r.stderr == "" || r.stdout != "" {
			t.Errorf("plimsoll %v: exit %d, stdout %q, stderr %q", args, r.code, r.stdout, r.stderr)
		}
	}
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	t.Parallel()
	for _, c := range newRootCommand(Env{}).Commands() {
		if c.Name() == "help" || c.Name() == "completion" || c.Hidden {
			continue
		}
		if c.Example == "" || c.Long == "" {
			t.Errorf("plimsoll %s --help lacks a text or examples", c.Name())
		}
		for line := range strings.SplitSeq(c.Long, "\n") {
			if screen.Columns(line) > 88 {
				t.Errorf("plimsoll %s --help has a line of %d columns: %s", c.Name(), screen.Columns(line), line)
			}
		}
	}
}
