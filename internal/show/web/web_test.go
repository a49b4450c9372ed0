package web

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/page"
)

func running(t *testing.T) *Server {
	t.Helper()
	s, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	return started(t, s, "fine")
}

func started(t *testing.T, s *Server, headline string) *Server {
	t.Helper()
	s.Show(page.NewBook(nil))
	s.Conclude(page.Summary{Kind: page.Recorded, Headline: headline, Report: &report.Explain{}})
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

// raw sends bytes and gives the first line of the answer.
func raw(t *testing.T, s *Server, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, request)
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}

func TestAttacksOnTheServerAreRefused(t *testing.T) {
	t.Parallel()
	s := running(t)
	head := func(path string) string { return "GET /" + s.token + path + " HTTP/1.1\r\nHost: " + s.host + "\r\n" }
	for name, c := range map[string]struct{ request, want string }{
		"a name that points here": {"GET /" + s.token + "/ HTTP/1.1\r\nHost: rebind.example\r\n\r\n", "403"},
		"no host":                 {"GET /" + s.token + "/ HTTP/1.0\r\n\r\n", "403"},
		"dots":                    {head("/../../../etc/passwd") + "\r\n", "404"},
		"escaped dots":            {head("/%2e%2e/%2e%2e/etc/passwd") + "\r\n", "404"},
		"a double slash":          {head("//etc/passwd") + "\r\n", "404"},
		"a file of the page":      {head("/assets/app.js") + "\r\n", "404"},
		"a long address":          {head("/"+strings.Repeat("a", 64<<10)) + "\r\n", "431"},
		"a large header":          {head("/") + "X: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", "431"},
		"a body":                  {"POST /" + s.token + "/api/summary HTTP/1.1\r\nHost: " + s.host + "\r\nContent-Length: 9000000000\r\n\r\n", "405"},
		"two lengths":             {head("/") + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", "400"},
		"not HTTP":                {"\x16\x03\x01\x02\x00\x01", "400"},
	} {
		if got := raw(t, s, c.request); !strings.Contains(got, " "+c.want+" ") {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
}

// Clients that ask for much and read nothing lose their place when the time of an answer is up; only so many answers are made meanwhile.
func TestSlowReadersAreLetGo(t *testing.T) {
	t.Parallel()
	s, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	s.answers, s.write = 2, 300*time.Millisecond
	large := strings.Repeat("a", 16<<20) // more than the system takes off the server's hands
	started(t, s, large)
	for range 6 {
		c, err := net.Dial("tcp", s.host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		io.WriteString(c, "GET /"+s.token+"/api/summary HTTP/1.1\r\nHost: "+s.host+"\r\n\r\n")
	}
	client := http.Client{Timeout: 30 * time.Second}
	answer, err := client.Get(s.URL() + "app.css")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// A page of another origin may send a request, but gets nothing to read: no answer allows it.
func TestOtherOriginsReadNothing(t *testing.T) {
	t.Parallel()
	s := running(t)
	for _, path := range []string{"", "api/summary", "app.js"} {
		r, err := http.NewRequest("GET", s.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "https://evil.example")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		h := answer.Header
		if h.Get("Access-Control-Allow-Origin") != "" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// The page tells neither the folders of this machine nor who is logged in.
func TestThePageCarriesNoSecretOfTheMachine(t *testing.T) {
	t.Parallel()
	s := running(t)
	home, _ := os.UserHomeDir()
	for _, path := range []string{"", "app.js", "app.css", "api/overview", "api/summary"} {
		_, body := ask(t, "GET", s.URL()+path, "")
		if strings.Contains(body, s.token) || len(home) > 5 && strings.Contains(body, home) {
			t.Errorf("%s tells the token or the home folder", path)
		}
	}
}
