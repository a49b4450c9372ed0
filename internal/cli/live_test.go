package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// command runs one command line in a world of its own.
func command(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, talk bytes.Buffer
	code = Run(ctx, Env{Stdout: &out, Stderr: &talk, Getenv: func(string) string { return "" }, Style: screen.Style{Width: 80}}, args)
	return code, out.String(), talk.String()
}

func TestWatchWithoutATerminalPrintsOnce(t *testing.T) {
	t.Parallel()
	code, out, talk := command(context.Background(), "watch", "--demo")
	if code != exitOK || talk != "" || !strings.Contains(out, "grows 1.5 GiB/min on GPU 0: full in 14 min") || strings.ContainsRune(out, '\x1b') {
		t.Errorf("exit code %d, stderr %q\n%s", code, talk, out)
	}
}

func TestWatchGivesOneJSONDocumentAReading(t *testing.T) {
	t.Parallel()
	code, out, _ := command(context.Background(), "watch", "--demo", "--once", "--json")
	var w report.Watch
	if err := json.Unmarshal([]byte(out), &w); err != nil || code != exitOK {
		t.Fatalf("exit code %d: %v", code, err)
	}
	if w.Schema != "plimsoll.watch/1" || len(w.Cards) != 5 || len(w.Findings) != 3 || w.Source != "demo" {
		t.Errorf("%+v", w)
	}
	leak := w.Cards[0]
	if leak.SecondsToFull == nil || leak.Processes[0].Trend == nil || leak.Instance != nil || w.Cards[3].Instance == nil || w.Cards[4].Processes[0].Bytes != nil {
		t.Errorf("what is known and what is not: %s", out)
	}
	for _, c := range w.Cards {
		if c.Used+c.Free+c.Reserved != c.Total {
			t.Errorf("GPU %d: used, free and reserved do not add up", c.Index)
		}
	}
}

func TestWatchStreamsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	read, write := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, Env{Stdout: write, Stderr: io.Discard, Getenv: func(string) string { return "" }}, []string{"watch", "--demo", "--json", "--interval", "100ms"})
		_ = write.Close()
	}()
	decoder := json.NewDecoder(read)
	for last := 0.0; ; {
		var w report.Watch
		if err := decoder.Decode(&w); err != nil {
			t.Fatal(err)
		}
		if w.Time < last {
			t.Errorf("time runs backwards: %v after %v", w.Time, last)
		}
		if last > 0 {
			break
		}
		last = w.Time
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, read) }()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestWrongOptionsAreUsageErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"watch", "--interval", "1ms"}, {"watch", "--interval", "soon"}, {"watch", "extra"}, {"watch", "--for", "-1s"}, {"metrics", "--interval", "0s"}, {"doctor", "--fix"},
	} {
		if code, _, talk := command(context.Background(), args...); code != exitUsage || !strings.Contains(talk, "--help") {
			t.Errorf("%v: exit code %d, %q", args, code, talk)
		}
	}
}

func TestAnAddressThatIsNoneIsAUsageError(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"nonsense", "127.0.0.1:999999", "127.0.0.1:-1", ""} {
		if code, _, talk := command(context.Background(), "metrics", "--demo", "--listen", address); code != exitUsage || !strings.Contains(talk, "--listen") {
			t.Errorf("%q: exit code %d, %q", address, code, talk)
		}
	}
}

// signpost is a stderr that tells the address the server says it listens on.
type signpost struct{ address chan string }

var served = regexp.MustCompile(`http://\S+/metrics`)

func (s signpost) Write(p []byte) (int, error) {
	if found := served.Find(p); found != nil {
		s.address <- string(found)
	}
	return len(p), nil
}

func TestMetricsServesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sign := signpost{make(chan string, 1)}
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, Env{Stdout: io.Discard, Stderr: sign, Getenv: func(string) string { return "" }}, []string{"metrics", "--demo", "--listen", "127.0.0.1:0"})
	}()
	response, err := http.Get(<-sign.address)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), "plimsoll_build_info") {
		t.Errorf("status %d, %v\n%s", response.StatusCode, err, body)
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestDoctorAlwaysAnswers(t *testing.T) {
	t.Parallel()
	code, out, _ := command(context.Background(), "doctor", "--json")
	var d report.Doctor
	if err := json.Unmarshal([]byte(out), &d); err != nil || (code != exitOK && code != exitFinding) {
		t.Fatalf("exit code %d: %v", code, err)
	}
	if d.Schema != "plimsoll.doctor/1" || d.Findings == nil || d.Machine.OS == "" {
		t.Errorf("%+v", d)
	}
}
