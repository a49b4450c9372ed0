// Package browsertests holds the page of plimsoll view to its promises in a real headless Chromium.
//
// It takes the recordings in testdata and returns failures where the page shows something else than plimsoll explain, complains in the console, asks
// anything outside, or runs what is only a name. Times are printed, not judged: machines differ.
package browsertests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/browsertests/chromium"
)

var (
	binary  string
	browser *chromium.Browser
	desk    = chromium.Screen{Width: 1280, Height: 900}
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	work, err := os.MkdirTemp("", "plimsoll-browser")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(work)
	if binary, err = chromium.Build(work); err == nil {
		browser, err = chromium.Start(filepath.Join(work, "profile"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer browser.Close()
	return m.Run()
}

// seen is what a person reads on the page.
type seen struct {
	Headline   string
	Peak       int64
	Reserved   int64
	Categories map[string]int64
	Findings   []string // id: title
}

const look = `({
	Headline: document.getElementById("headline").textContent,
	Peak: Number(document.querySelector("[data-peak]")?.dataset.peak || 0),
	Reserved: Number(document.querySelector("[data-reserved]")?.dataset.reserved || 0),
	Categories: Object.fromEntries([...document.querySelectorAll("[data-category]")].map(e => [e.dataset.category, Number(e.dataset.bytes)])),
	Findings: [...document.querySelectorAll("[data-finding]")].map(e => e.dataset.finding + ": " + e.querySelector(".title").textContent),
})`

// told is what plimsoll explain --json says.
type told struct {
	Devices []struct {
		Peak   struct{ Requested, Reserved int64 }
		AtPeak struct {
			ByCategory map[string]int64 `json:"by_category"`
		} `json:"at_peak"`
	}
	Findings []struct{ ID, Title string }
}

func explained(t *testing.T, file string) (r told, headline string) {
	t.Helper()
	out, err := exec.Command(binary, "explain", "--json", file).Output()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	text, _ := exec.Command(binary, "explain", file).Output()
	head, _, _ := strings.Cut(string(text), "\n\n")
	return r, strings.Join(strings.Fields(head), " ")
}

func (s seen) check(t *testing.T, want told, headline string) {
	t.Helper()
	d := want.Devices[0]
	if s.Peak != d.Peak.Requested || s.Reserved != d.Peak.Reserved {
		t.Errorf("the page shows a peak of %d in use and %d held, explain says %d and %d", s.Peak, s.Reserved, d.Peak.Requested, d.Peak.Reserved)
	}
	for name, bytes := range d.AtPeak.ByCategory {
		if s.Categories[name] != bytes {
			t.Errorf("the page shows %d bytes of %s, explain says %d", s.Categories[name], name, bytes)
		}
	}
	findings := []string{}
	for _, f := range want.Findings {
		findings = append(findings, f.ID+": "+f.Title)
	}
	if !slices.Equal(s.Findings, findings) {
		t.Errorf("the page shows %q, explain says %q", s.Findings, findings)
	}
	if strings.Join(strings.Fields(s.Headline), " ") != headline {
		t.Errorf("headline %q, want %q", s.Headline, headline)
	}
}

// open opens an address and waits for the page; at the end it looks for trouble and for requests that left.
func open(t *testing.T, url, allowed string, screen chromium.Screen) *chromium.Tab {
	t.Helper()
	tab, err := browser.Open(url, screen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, trouble := range tab.Troubles() {
			t.Errorf("the page complained: %s", trouble)
		}
		for _, r := range tab.Requests() {
			if !strings.HasPrefix(r, allowed) && !strings.HasPrefix(r, "data:") {
				t.Errorf("the page asked for %s", r)
			}
		}
		tab.Close()
	})
	if err := tab.Ready(); err != nil {
		t.Fatalf("the page was never ready: %v; it complained %q", err, tab.Troubles())
	}
	return tab
}

func serve(t *testing.T, files ...string) *chromium.Server {
	t.Helper()
	s, err := chromium.Serve(binary, files...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func eval[T any](t *testing.T, tab *chromium.Tab, expression string) T {
	t.Helper()
	v, err := chromium.Eval[T](tab, expression)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// walk opens every tab of the page and waits for each to show something.
func walk(t *testing.T, tab *chromium.Tab) {
	t.Helper()
	for _, name := range []string{"table", "map", "events", "settings", "flame"} {
		shown := eval[bool](t, tab, `(async () => {
			document.querySelector('.tabs [data-value="`+name+`"]').click();
			for (let i = 0; i < 400; i++) {
				await new Promise(r => setTimeout(r, 25));
				const on = document.querySelector('.tabs .on').dataset.value === "`+name+`";
				if (on && document.getElementById("panel").children.length && !document.getElementById("panel").textContent.includes("Replaying")) return true;
			}
			return false;
		})()`)
		if !shown {
			t.Errorf("tab %s stayed empty", name)
		}
	}
}

func TestThePageShowsOfEveryRecordingWhatExplainSays(t *testing.T) {
	files, _ := filepath.Glob("../testdata/snapshots/*.pickle.gz")
	if len(files) == 0 {
		t.Fatal("no recordings")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".pickle.gz"), func(t *testing.T) {
			want, headline := explained(t, file)
			s := serve(t, file)
			tab := open(t, s.URL, s.URL, desk)
			eval[seen](t, tab, look).check(t, want, headline)
			walk(t, tab)
		})
	}
}

func TestAFileShowsTheSameAndAsksNobody(t *testing.T) {
	for _, name := range []string{"snapshots/oom-batch", "snapshots/leak-oom", "snapshots/alloc-varlen-expandable-capped", "snapshots/cudagraph", "big"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			file := "../testdata/" + name + ".pickle.gz"
			html := filepath.Join(t.TempDir(), "report.html")
			if out, err := exec.Command(binary, "view", "--html", html, file).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			info, err := os.Stat(html)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.1f MB", float64(info.Size())/1e6)
			if info.Size() > 10_000_000 {
				t.Errorf("the file has %d bytes", info.Size())
			}
			want, headline := explained(t, file)
			tab := open(t, "file://"+html, "file://"+html, desk)
			eval[seen](t, tab, look).check(t, want, headline)
			walk(t, tab)
		})
	}
}

func TestALinkRestoresTheView(t *testing.T) {
	s := serve(t, "../testdata/snapshots/leak-loss-list.pickle.gz")
	tab := open(t, s.URL+"#by=line&from=1000&to=1200&at=1100&tab=table&q=leak", s.URL, desk)
	got := eval[[]string](t, tab, `[document.querySelector('.segmented .on').dataset.value, document.querySelector('.tabs .on').dataset.value,
		document.querySelector('input[type=search]').value, document.querySelector('.about').textContent, document.querySelector('.legend').textContent]`)
	if got[0] != "line" || got[1] != "table" || got[2] != "leak" || !strings.Contains(got[3], "event 1,100") || !strings.Contains(got[4], "found") {
		t.Errorf("restored %q", got)
	}
	hash := eval[string](t, tab, `(async () => {
		for (const key of ["p", "c", "2", "+", "ArrowRight"]) dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
		await new Promise(r => setTimeout(r, 600));
		return location.hash;
	})()`)
	for _, part := range []string{"at=3385", "tab=table", "from=", "to="} {
		if !strings.Contains(hash, part) {
			t.Errorf("after keys the address is %s, without %s", hash, part)
		}
	}
}

func TestTwoRecordingsAreCompared(t *testing.T) {
	s := serve(t, "../testdata/snapshots/mlp-adam.pickle.gz", "../testdata/snapshots/float64.pickle.gz")
	tab := open(t, s.URL, s.URL, desk)
	if text := eval[string](t, tab, `document.querySelector(".side > .wide").textContent`); !strings.Contains(text, "+88.58 MiB") {
		t.Errorf("the comparison says %q", text)
	}
}

func TestAPhoneNeedsNoSidewaysScrolling(t *testing.T) {
	s := serve(t, "../testdata/snapshots/oom-batch.pickle.gz")
	tab := open(t, s.URL, s.URL, chromium.Screen{Width: 390, Height: 844, Scale: 2, Touch: true})
	walk(t, tab)
	if over := eval[int](t, tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
		t.Errorf("the page is %d pixels wider than the screen", over)
	}
}

// TestEveryFormatAndABareMessageOpen covers snapshots without a history, without stacks or times, and text.
func TestEveryFormatAndABareMessageOpen(t *testing.T) {
	files, _ := filepath.Glob("../testdata/formats/*")
	for _, file := range append(files, "../docs/answers/message.txt") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s := serve(t, file)
			tab := open(t, s.URL, s.URL, desk)
			_, headline := explained(t, file)
			got := eval[seen](t, tab, look)
			if strings.Join(strings.Fields(got.Headline), " ") != headline {
				t.Errorf("headline %q, want %q", got.Headline, headline)
			}
			if !strings.HasSuffix(file, ".txt") {
				walk(t, tab)
			}
		})
	}
}
