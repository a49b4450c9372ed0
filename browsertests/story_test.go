package browsertests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/browsertests/chromium"
)

const recordings = "../testdata/snapshots/"

// settle waits until the page has asked and drawn.
const settle = `await new Promise(r => setTimeout(r, 500));`

func TestThePageOpensOnTheRankItSpeaksOf(t *testing.T) {
	failed := recordings + "oom-batch.pickle.gz"
	s := serve(t, recordings+"mlp-adam.pickle.gz", recordings+"float64.pickle.gz", failed)
	tab := open(t, s.URL, s.URL, desk)
	want, _ := explained(t, failed)
	type story struct {
		Chosen, Headline, First string
		Peak                    int64
	}
	const told = `({Chosen: document.querySelector("header select").value, Headline: document.getElementById("headline").textContent,
		First: document.querySelector("[data-finding]")?.dataset.finding || "", Peak: Number(document.querySelector("[data-peak]").dataset.peak)})`
	if got := eval[story](t, tab, told); got.Chosen != "2" || got.Peak != want.Devices[0].Peak.Requested || got.First != want.Findings[0].ID || !strings.Contains(got.Headline, "ran out of memory") {
		t.Errorf("%+v", got)
	}
	got := eval[story](t, tab, `(async () => { const s = document.querySelector("header select"); s.value = "0"; s.dispatchEvent(new Event("change")); `+settle+` return `+told+`; })()`)
	if got.Chosen != "0" || !strings.Contains(got.Headline, "mlp-adam") || !strings.Contains(got.Headline, "never ran out of memory") {
		t.Errorf("another rank: %+v", got)
	}
}

func TestAComparisonComesFirst(t *testing.T) {
	s := serve(t, recordings+"mlp-adam.pickle.gz", recordings+"float64.pickle.gz")
	tab := open(t, s.URL, s.URL, desk)
	got := eval[[]string](t, tab, `[document.querySelector(".side").firstElementChild.textContent, document.querySelector("header select").value, document.querySelector("[data-peak]").textContent, document.getElementById("headline").textContent]`)
	peak, _, _ := strings.Cut(got[2], "in use")
	if !strings.HasPrefix(got[0], "What changed") || got[1] != "1" || !strings.Contains(got[3], peak) {
		t.Errorf("%q", got)
	}
}

func TestEverythingOnAPredictionSpeaksOfOneBatch(t *testing.T) {
	var want struct {
		Batches []struct{ Peak struct{ Device int64 } }
	}
	file := answer(t, &want, "predict", "--job", jobFile, "--gpu", "rtx-4090", "--json", "--timeline", "400")
	s := serve(t, file)
	tab := open(t, s.URL, s.URL, desk)
	type story struct {
		Headline, Note, Batch string
		Top, Device           int64
	}
	const told = `({Headline: document.getElementById("headline").textContent, Note: document.querySelector(".elsewhere-note").textContent, Batch: document.getElementById("verdict").dataset.batch,
		Top: Number(document.querySelector("#batches canvas").dataset.top), Device: Number(document.querySelector("[data-device]").dataset.device)})`
	own := eval[story](t, tab, told)
	if own.Note != "" {
		t.Errorf("%+v", own)
	}
	for _, b := range want.Batches {
		if b.Peak.Device > own.Top && own.Top < 4*25_000_000_000 {
			t.Errorf("a column of %d bytes is cut at %d", b.Peak.Device, own.Top)
		}
	}
	other := eval[story](t, tab, `(() => { const s = document.getElementById("batch"); s.value = s.max; s.dispatchEvent(new Event("input")); return `+told+`; })()`)
	if !strings.Contains(other.Headline, "batch "+other.Batch) || other.Device != want.Batches[len(want.Batches)-1].Peak.Device || !strings.Contains(other.Note, "for batch "+other.Batch) {
		t.Errorf("%+v", other)
	}
}

func TestAFileSaysWhichInstantItShows(t *testing.T) {
	html := filepath.Join(t.TempDir(), "report.html")
	if out, err := exec.Command(binary, "view", "--html", html, recordings+"leak-loss-list.pickle.gz").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	exact := 0
	for _, at := range []int{1, 77, 1033} {
		tab := open(t, fmt.Sprintf("file://%s#at=%d", html, at), "file://"+html, desk)
		about := eval[string](t, tab, `document.querySelector(".about").textContent`)
		if strings.Contains(about, fmt.Sprintf("at event %d,", at)) && !strings.Contains(about, "nearest") {
			exact++
		} else if !strings.Contains(about, "the nearest to event") {
			t.Errorf("event %d: %q", at, about)
		}
	}
	if exact == 3 {
		t.Error("every event is in the file: nothing was tested")
	}
}

func TestOnNarrowScreensFindingsComeFirst(t *testing.T) {
	s := serve(t, recordings+"oom-batch.pickle.gz")
	for _, screen := range []chromium.Screen{{Width: 390, Height: 844, Scale: 2, Touch: true}, {Width: 1024, Height: 768}} {
		tab := open(t, s.URL, s.URL, screen)
		if !eval[bool](t, tab, `document.querySelector(".findings").getBoundingClientRect().top < document.getElementById("timeline").getBoundingClientRect().top`) {
			t.Errorf("at %d pixels the curve comes before the findings", screen.Width)
		}
	}
}

func TestTextOnTheCanvasesCanBeRead(t *testing.T) {
	s := serve(t, recordings+"oom-batch.pickle.gz")
	for _, dark := range []bool{false, true} {
		tab := open(t, s.URL, s.URL, chromium.Screen{Width: 1280, Height: 900, Dark: dark})
		walk(t, tab)
		if least := eval[float64](t, tab, `(async () => { `+settle+` return Number(document.body.dataset.contrast); })()`); least < 4.5 {
			t.Errorf("dark %v: a contrast of %.2f", dark, least)
		}
	}
}

func TestTheFlameGraphAndTheMapWorkByKeyboard(t *testing.T) {
	s := serve(t, recordings+"oom-batch.pickle.gz")
	tab := open(t, s.URL, s.URL, desk)
	trail := func(id string) string { return eval[string](t, tab, `document.getElementById("`+id+`").textContent`) }
	press := func(keys ...string) {
		if err := tab.Press(keys...); err != nil {
			t.Fatal(err)
		}
	}
	eval[bool](t, tab, `(() => { document.querySelector("canvas.flame").focus(); return true; })()`)
	whole := trail("flame-trail")
	press("ArrowDown", "ArrowDown")
	deeper := trail("flame-trail")
	press("Enter", "Backspace", "Backspace", "ArrowUp")
	if deeper == whole || deeper == "" {
		t.Errorf("the arrow keys do not move: %q", deeper)
	}
	eval[bool](t, tab, `(async () => { document.querySelector('.tabs [data-value="map"]').click(); `+settle+` document.querySelector("canvas.map").focus(); return true; })()`)
	press("ArrowDown", "ArrowRight", "Enter")
	if !eval[bool](t, tab, `(async () => { `+settle+` return !!document.querySelector("[data-allocation]"); })()`) {
		t.Errorf("Enter on a block shows no allocation; the map says %q", trail("map-note"))
	}
}

// Labels end inside their canvas, one unit is used for times that stand together, a range has two ends, and rows that are left out are counted.
func TestDetailsOfThePageAgree(t *testing.T) {
	prediction := answer(t, &struct{}{}, "predict", "--job", jobFile, "--gpu", "rtx-4090", "--json", "--timeline", "400")
	seen := ""
	for _, shown := range []string{recordings + "leak-loss-list.pickle.gz", recordings + "gpt2-amp.pickle.gz", prediction} {
		s := serve(t, shown)
		for _, screen := range []chromium.Screen{desk, {Width: 400, Height: 844, Scale: 2, Touch: true}} {
			tab := open(t, s.URL, s.URL, screen)
			got := eval[struct {
				Clipped, Texts []string
				Page           string
			}](t, tab, `(async () => {
				const clipped = [], texts = [], draw = CanvasRenderingContext2D.prototype.fillText;
				CanvasRenderingContext2D.prototype.fillText = function (s, x, y, ...more) {
					const m = this.getTransform(), w = this.measureText(s).width, left = this.textAlign === "center" ? x - w / 2 : this.textAlign === "right" || this.textAlign === "end" ? x - w : x;
					if (left * m.a + m.e < -2 || (left + w) * m.a + m.e > this.canvas.width + 2) clipped.push(s);
					texts.push(s);
					return draw.call(this, s, x, y, ...more);
				};
				for (const b of document.querySelectorAll("button")) if (b.textContent === "time" || b.textContent === "phase") b.click();
				window.dispatchEvent(new Event("resize"));
				`+settle+settle+`
				return {Clipped: clipped, Texts: texts, Page: document.body.innerText};
			})()`)
			if len(got.Clipped) > 0 {
				t.Errorf("%s at %d pixels: labels are cut: %q", filepath.Base(shown), screen.Width, got.Clipped)
			}
			if odd := regexp.MustCompile(`\d,\d{3} ms`).FindString(strings.Join(got.Texts, "\n") + got.Page); odd != "" {
				t.Errorf("%s: %q should be seconds", filepath.Base(shown), odd)
			}
			for _, m := range regexp.MustCompile(`between (\S+ \S+) and (\S+ [KMGT]?i?B)`).FindAllStringSubmatch(got.Page, -1) {
				if m[1] == m[2] {
					t.Errorf("%s: %q", filepath.Base(shown), m[0])
				}
			}
			seen += got.Page
		}
	}
	if !strings.Contains(seen, "not shown") {
		t.Error("no page says how many rows it leaves out")
	}
}

func TestASearchWithoutHitsSaysSo(t *testing.T) {
	s := serve(t, recordings+"oom-batch.pickle.gz")
	for _, view := range []string{"flame", "table"} {
		tab := open(t, s.URL+"#q=zzzz&tab="+view, s.URL, desk)
		if text := eval[string](t, tab, `document.getElementById("panel").textContent`); !strings.Contains(text, "Nothing alive here comes from “zzzz”") {
			t.Errorf("%s: %q", view, text)
		}
	}
}

func TestATensorCanBePickedInTheCurve(t *testing.T) {
	s := serve(t, recordings+"oom-batch.pickle.gz")
	tab := open(t, s.URL, s.URL, desk)
	got := eval[[]string](t, tab, `(async () => {
		const c = document.querySelector("#timeline canvas.chart"), r = c.getBoundingClientRect();
		const at = {clientX: r.left + 68 + 0.6 * (r.width - 76), clientY: r.bottom - 40, pointerId: 1, button: 0, bubbles: true, pointerType: "mouse"};
		c.setPointerCapture = () => {};
		c.dispatchEvent(new PointerEvent("pointerdown", at));
		c.dispatchEvent(new PointerEvent("pointerup", at));
		`+settle+settle+`
		return [location.hash, document.querySelector("[data-allocation]")?.textContent || ""];
	})()`)
	if !strings.Contains(got[0], "alloc=") || !strings.Contains(got[0], "at=") || !strings.Contains(got[1], "Allocation #") {
		t.Errorf("%q", got)
	}
}

// TestNothingKeepsAnyoneOut runs axe-core, which scripts/test-browser.sh installs.
func TestNothingKeepsAnyoneOut(t *testing.T) {
	axe, err := os.ReadFile(os.Getenv("PLIMSOLL_AXE"))
	if err != nil {
		t.Skip("PLIMSOLL_AXE names no axe.min.js: ", err)
	}
	prediction := answer(t, &struct{}{}, "predict", "--job", jobFile, "--gpu", "rtx-4090", "--json", "--timeline", "400")
	plans := answer(t, &struct{}{}, "fit", "--job", jobFile, "--gpu", "rtx-4090", "--json")
	for _, file := range []string{recordings + "oom-batch.pickle.gz", prediction, plans} {
		s := serve(t, file)
		for _, screen := range []chromium.Screen{desk, {Width: 390, Height: 844, Touch: true}, {Width: 1280, Height: 900, Dark: true}} {
			tab := open(t, s.URL, s.URL, screen)
			if _, err := chromium.Eval[bool](tab, "(() => {"+string(axe)+"; window.axe = axe; return true })()"); err != nil {
				t.Fatal(err)
			}
			tabs := []string{""}
			if file == recordings+"oom-batch.pickle.gz" {
				tabs = []string{"flame", "table", "map", "events", "settings"}
			}
			for _, name := range tabs {
				bad := eval[[]string](t, tab, `(async () => {
					document.querySelector('.tabs [data-value="`+name+`"]')?.click(); `+settle+`
					const r = await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]});
					return r.violations.map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + (n.any[0]?.message || "")).join(" | "));
				})()`)
				for _, b := range bad {
					t.Errorf("%s, tab %q, %d pixels, dark %v: %s", filepath.Base(file), name, screen.Width, screen.Dark, b)
				}
			}
		}
	}
}
