package web

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/page"
)

func running(t *testing.T) *Server {
	t.Helper()
	s, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	s.Show(page.NewBook(nil))
	s.Conclude(page.Summary{Kind: page.Recorded, Headline: "fine", Report: &report.Explain{}})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func ask(t *testing.T, method, url, host string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return answer, string(b)
}

func TestOnlyWhoKnowsTheTokenOnThisMachineIsAnswered(t *testing.T) {
	t.Parallel()
	s := running(t)
	root := "http://" + s.host + "/"
	for _, c := range []struct {
		method, url, host string
		want              int
	}{
		{"GET", s.URL(), "", 200},
		{"HEAD", s.URL() + "app.js", "", 200},
		{"GET", s.URL() + "api/overview", "", 200},
		{"GET", s.URL() + "api/summary", "", 200},
		{"GET", s.URL() + "api/alive", "", 400},
		{"GET", s.URL() + "../../etc/passwd", "", 404},
		{"GET", s.URL() + "nothing", "", 404},
		{"GET", root, "", 403},
		{"GET", root + s.token[:len(s.token)-1] + "/", "", 403},
		{"GET", s.URL(), "evil.example:80", 403},
		{"POST", s.URL() + "api/summary", "", 405},
		{"DELETE", s.URL(), "", 405},
	} {
		if answer, _ := ask(t, c.method, c.url, c.host); answer.StatusCode != c.want {
			t.Errorf("%s %s (host %q): %d, want %d", c.method, strings.ReplaceAll(c.url, s.token, "TOKEN"), c.host, answer.StatusCode, c.want)
		}
	}
}

func TestThePageAllowsOnlyItsOwnScript(t *testing.T) {
	t.Parallel()
	s := running(t)
	answer, body := ask(t, "GET", s.URL(), "")
	if policy := answer.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	if strings.Contains(body, "<script>") || !strings.Contains(body, `<script src="app.js">`) {
		t.Error("the page has an inline script")
	}
	if host := s.listener.Addr().String(); !strings.HasPrefix(host, "127.0.0.1:") {
		t.Errorf("listens on %s", host)
	}
}
