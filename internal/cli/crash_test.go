package cli

import (
	"context"
	"strings"
	"testing"
)

type broken struct{}

func (broken) Write([]byte) (int, error) { panic("broken\x1b[31m writer") }

func TestABugIsReportedAndNotDumped(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	env := Env{Stdin: strings.NewReader(""), Stdout: broken{}, Stderr: &stderr, Getenv: func(string) string { return "" }}
	if code := Run(context.Background(), env, []string{"explain", recordings + "mlp-adam.pickle.gz"}); code != exitFailure {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"this is a bug in plimsoll", "version " + Version, "plimsoll explain", "crash_test.go"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is missing in %s", want, stderr.String())
		}
	}
	if strings.Contains(stderr.String()[:200], "\x1b") {
		t.Error("an escape sequence reaches the terminal")
	}
}
