package mcpserver

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestAnAnswerThatTakesTooLongOrIsTooLongIsAnError(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"sleep 60":                       "no answer within",
		"yes | head -c 80000000":         "too long",
		"echo plimsoll: bad >&2; exit 4": "bad",
	} {
		s := &server{Options: Options{Timeout: 3 * time.Second, Command: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}, turns: make(chan struct{}, 1)}
		began := time.Now()
		if strings.Contains(want, "within") {
			s.Timeout = 50 * time.Millisecond
		}
		_, err := s.answer(context.Background(), question{args: []string{"explain"}, whole: true})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", script, err, want)
		}
		if time.Since(began) > 20*time.Second {
			t.Errorf("%s took %v", script, time.Since(began))
		}
	}
}

func TestAddressesOfRootsBecomePaths(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"file:///home/a%20b": "/home/a b", "file://localhost/x": "/x", "file://other/x": "", "https://x/y": "", "/x": "", "file:relative": "",
	} {
		if got, ok := filePath(uri); got != want || ok != (want != "") {
			t.Errorf("%s is %q", uri, got)
		}
	}
}
