package metrics

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/plimsoll/plimsoll/internal/live/simgpu"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// demo has watched the simulated machine for four minutes, as of the clock it is given.
func demo(t *testing.T, hide bool) (*Collector, *watch.History, *simgpu.Machine) {
	t.Helper()
	m, history := simgpu.Demo(), watch.NewHistory()
	c := NewCollector(Options{Version: "test", HideCommands: hide, StaleAfter: 10 * time.Second, Now: func() time.Time { return start.Add(240 * time.Second) }})
	for i := range 241 {
		c.Show(history.Look(context.Background(), m, start.Add(time.Duration(i)*time.Second)))
	}
	return c, history, m
}

func scrape(t *testing.T, c *Collector, openMetrics bool) (string, http.Header) {
	t.Helper()
	h, err := Handler(c, false)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/metrics", nil)
	if openMetrics {
		r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String(), w.Header()
}

func TestTheDemoMachineIsExposed(t *testing.T) {
	t.Parallel()
	c, _, _ := demo(t, false)
	text, _ := scrape(t, c, false)
	goldentest.Check(t, filepath.Join("testdata", "demo.prom"), []byte(text))
}

func TestNamesUnitsAndHelpFollowTheConventions(t *testing.T) {
	t.Parallel()
	c, _, _ := demo(t, false)
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestAVanishedProcessVanishesFromTheMetrics(t *testing.T) {
	t.Parallel()
	c, history, _ := demo(t, false)
	before, _ := scrape(t, c, false)
	if !strings.Contains(before, `pid="50211"`) {
		t.Fatal("the process is not there to begin with")
	}
	c.Show(history.Look(context.Background(), simgpu.New(nil, nil), start.Add(241*time.Second)))
	after, _ := scrape(t, c, false)
	if strings.Contains(after, "pid=") {
		t.Errorf("processes outlive themselves:\n%s", after)
	}
}

func TestAFailedOrOldReadingIsVisibleAndNeverLooksIdle(t *testing.T) {
	t.Parallel()
	c, history, _ := demo(t, false)
	history.Fail(start.Add(241*time.Second), errors.New("a GPU is lost"))
	c.Show(history.View())
	text, _ := scrape(t, c, false)
	if !strings.Contains(text, "plimsoll_up 0") || !strings.Contains(text, "plimsoll_read_errors_total 1") || !strings.Contains(text, "plimsoll_gpu_memory_used_bytes") {
		t.Errorf("after a failure:\n%s", text)
	}
	c, _, _ = demo(t, false)
	c.options.Now = func() time.Time { return start.Add(time.Hour) }
	if text, _ := scrape(t, c, false); !strings.Contains(text, "plimsoll_up 0") || strings.Contains(text, "plimsoll_gpu_memory_used_bytes") {
		t.Errorf("an hour later:\n%s", text)
	}
	fresh := NewCollector(Options{StaleAfter: time.Second})
	if text, _ := scrape(t, fresh, false); !strings.Contains(text, "plimsoll_up 0") {
		t.Errorf("before the first reading:\n%s", text)
	}
}

func TestCommandLinesCanBeHidden(t *testing.T) {
	t.Parallel()
	c, _, _ := demo(t, true)
	text, _ := scrape(t, c, false)
	for _, word := range []string{"python", "train.py", "mira", "ada"} {
		if strings.Contains(text, word) {
			t.Errorf("%q is still there", word)
		}
	}
}

func TestOpenMetricsIsWellFormed(t *testing.T) {
	t.Parallel()
	c, _, _ := demo(t, false)
	text, header := scrape(t, c, true)
	if !strings.HasPrefix(header.Get("Content-Type"), "application/openmetrics-text") {
		t.Fatalf("content type %q", header.Get("Content-Type"))
	}
	checkOpenMetrics(t, text)
}

// checkOpenMetrics holds a page to the rules of the OpenMetrics 1.0 text format that a careless exporter breaks: it ends in # EOF, a
// family's lines stand together, metadata comes first, counters end in _total, no series twice.
func checkOpenMetrics(t *testing.T, text string) {
	t.Helper()
	if !strings.HasSuffix(text, "# EOF\n") || strings.Count(text, "# EOF") != 1 {
		t.Error("the page does not end in # EOF")
	}
	kinds, closed, series := map[string]string{}, map[string]bool{}, map[string]bool{}
	current := ""
	for _, line := range strings.Split(strings.TrimSuffix(text, "# EOF\n"), "\n") {
		if line == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			f := strings.SplitN(rest, " ", 3)
			if f[1] != current {
				closed[current] = true
				current = f[1]
			}
			if closed[current] {
				t.Errorf("family %s comes back", current)
			}
			if f[0] == "TYPE" {
				kinds[current] = f[2]
			}
			continue
		}
		name := line[:strings.IndexAny(line, "{ ")]
		id := line[:strings.LastIndexByte(line, ' ')]
		if series[id] {
			t.Errorf("series %s twice", id)
		}
		series[id] = true
		family := strings.TrimSuffix(name, "_total")
		if kinds[family] == "counter" != strings.HasSuffix(name, "_total") || family != current {
			t.Errorf("sample %s in family %s of type %q", name, current, kinds[family])
		}
	}
	if len(series) < 50 {
		t.Errorf("only %d series", len(series))
	}
}

func TestTheServerIsReadOnlyAndBounded(t *testing.T) {
	t.Parallel()
	c, _, _ := demo(t, false)
	h, err := Handler(c, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/metrics", "127.0.0.1:9740", 200}, {"GET", "/metrics", "localhost:9740", 200}, {"GET", "/metrics", "[::1]:9740", 200},
		{"HEAD", "/metrics", "localhost", 200}, {"GET", "/healthz", "localhost", 200},
		{"POST", "/metrics", "localhost", 405}, {"DELETE", "/metrics", "localhost", 405}, {"PUT", "/healthz", "localhost", 405},
		{"GET", "/", "localhost", 404}, {"GET", "/debug/pprof/", "localhost", 404}, {"GET", "/metrics/../../etc/passwd", "localhost", 404},
		{"GET", "/metrics", "evil.example", 403}, {"GET", "/metrics", "127.0.0.1.evil.example:9740", 403}, {"GET", "/metrics", "", 403},
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(r.method, "http://localhost/", strings.NewReader("body"))
		req.URL.Path, req.Host = r.path, r.host
		h.ServeHTTP(w, req)
		if w.Code != r.want && !(r.want == 404 && w.Code == 307) {
			t.Errorf("%s %s at %q: %d, want %d", r.method, r.path, r.host, w.Code, r.want)
		}
	}
}

func TestSilentClientsCannotKeepAScraperOut(t *testing.T) {
	t.Parallel()
	c, _, _ := demo(t, false)
	s, err := Listen("127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	var silent []net.Conn
	for range maxConnections + 20 { // open, say nothing
		conn, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, conn)
	}
	response, err := http.Get("http://" + s.Address() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	_, _ = body.ReadFrom(response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || !strings.Contains(body.String(), "plimsoll_up 1") {
		t.Errorf("status %d:\n%s", response.StatusCode, body.String())
	}
	for _, conn := range silent {
		_ = conn.Close()
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func TestABarePortListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	s, err := Listen(":0", NewCollector(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.listener.Close()
	if !strings.HasPrefix(s.Address(), "127.0.0.1:") {
		t.Errorf("listens on %s", s.Address())
	}
	if _, err := Listen("nonsense", NewCollector(Options{})); err == nil {
		t.Error("an address without a port was taken")
	}
}

func TestTheDocumentedTableIsTheTable(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "watch.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := DocTable()
	if !strings.Contains(string(doc), want) {
		t.Errorf("docs/watch.md does not have this table:\n%s", want)
	}
}

// DocTable is the table of metrics in Markdown.
func DocTable() string {
	var out strings.Builder
	out.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range Table {
		kind := "gauge"
		if m.Kind == prometheus.CounterValue {
			kind = "counter"
		}
		out.WriteString("| `" + m.Name + "` | " + kind + " | " + strings.Join(m.Labels, ", ") + " | " + m.Help + " |\n")
	}
	return out.String()
}

func TestAnIPv6AddressNeedsNoBrackets(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"fd00::a1:9740": "[fd00::a1]:9740", "::1:9740": "[::1]:9740", "[::1]:9740": "[::1]:9740", "127.0.0.1:9740": "127.0.0.1:9740", ":9740": ":9740", "9740": "9740",
	} {
		if got := bracketed(address); got != want {
			t.Errorf("%s became %s, want %s", address, got, want)
		}
	}
}
