package browsertests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/plimsoll/plimsoll/browsertests/chromium"
)

const jobFile = "answers/gpt2-job.json"

// answer runs a command, keeps what it prints in a file and reads it into to.
func answer(t *testing.T, to any, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "answer.json")
	if err := chromium.Answer(binary, file, args...); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatal(err)
	}
	return file
}

// bothWays opens a page served and as a file.
func bothWays(t *testing.T, file string, look func(*testing.T, *chromium.Tab)) {
	t.Helper()
	t.Run("served", func(t *testing.T) {
		s := serve(t, file)
		look(t, open(t, s.URL, s.URL, desk))
	})
	t.Run("file", func(t *testing.T) {
		html := filepath.Join(t.TempDir(), "page.html")
		if out, err := exec.Command(binary, "view", "--html", html, file).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		look(t, open(t, "file://"+html, "file://"+html, desk))
	})
}

func TestAPredictionOnThePageEqualsItsJSON(t *testing.T) {
	type need struct {
		Batch int
		Own   bool
		Fits  bool
		Peak  struct{ Device int64 }
	}
	var want struct {
		need
		Phases     map[string]int64
		ByCategory map[string]int64 `json:"by_category"`
		Capacity   int64
		Largest    struct{ Batch int }
		Batches    []need
	}
	file := answer(t, &want, "predict", "--job", jobFile, "--gpu", "rtx-4090", "--json", "--timeline", "800")
	bothWays(t, file, func(t *testing.T, tab *chromium.Tab) {
		type page struct {
			Device, Capacity   int64
			Largest, Steps     int
			Phases, Categories map[string]int64
			Batches            []need
		}
		got := eval[page](t, tab, `(() => {
			const number = (name) => Number(document.querySelector("[data-" + name + "]").dataset[name]);
			const all = (name) => Object.fromEntries([...document.querySelectorAll("[data-" + name + "]")].map(e => [e.dataset[name], Number(e.dataset.bytes)]));
			const out = {Device: number("device"), Capacity: number("capacity"), Largest: number("largest"), Steps: document.querySelectorAll("#steps canvas").length,
				Phases: all("phase"), Categories: all("category"), Batches: []};
			const slider = document.getElementById("batch"), verdict = document.getElementById("verdict");
			const own = Number(verdict.dataset.batch);
			for (let i = 0; i <= Number(slider.max); i++) {
				slider.value = i;
				slider.dispatchEvent(new Event("input"));
				const batch = Number(verdict.dataset.batch);
				out.Batches.push({Batch: batch, Own: batch === own, Fits: verdict.dataset.fits === "true", Peak: {Device: number("device")}});
			}
			return out;
		})()`)
		if got.Device != want.Peak.Device || got.Capacity != want.Capacity || got.Largest != want.Largest.Batch || got.Steps != 1 {
			t.Errorf("the page shows %+v, predict says %+v", got, want)
		}
		for name, bytes := range want.ByCategory {
			if got.Categories[name] != bytes {
				t.Errorf("%s: the page shows %d bytes, predict says %d", name, got.Categories[name], bytes)
			}
		}
		if !reflect.DeepEqual(got.Phases, want.Phases) || !reflect.DeepEqual(got.Batches, want.Batches) || len(got.Batches) < 5 {
			t.Errorf("the page shows %v and %v, predict says %v and %v", got.Phases, got.Batches, want.Phases, want.Batches)
		}
	})
}

func TestPlansOnThePageEqualTheirJSON(t *testing.T) {
	type plan struct {
		StepMS   float64 `json:"step_ms"`
		Peak     struct{ Device int64 }
		Fits     bool
		Numerics bool `json:"changes_numerics"`
	}
	var want struct {
		Plans    []plan
		Numerics *plan
	}
	file := answer(t, &want, "fit", "--job", jobFile, "--gpu", "rtx-4090", "--memory", "10GiB", "--json")
	all := want.Plans
	if want.Numerics != nil {
		all = append(all, *want.Numerics)
	}
	bothWays(t, file, func(t *testing.T, tab *chromium.Tab) {
		type page struct {
			Plans []plan
			Best  string
			Hover string
		}
		got := eval[page](t, tab, `(() => {
			const rows = [...document.querySelectorAll("tr[data-plan]")], readout = document.querySelector(".plan-readout");
			const best = document.querySelector("tr.best").dataset.plan;
			rows[rows.length - 1].dispatchEvent(new PointerEvent("pointerenter"));
			return {Best: best, Hover: readout.dataset.plan === String(rows.length - 1) ? readout.textContent : "",
				Plans: rows.map(r => ({step_ms: Number(r.dataset.stepMs), Peak: {Device: Number(r.dataset.device)}, Fits: r.dataset.fits === "true", changes_numerics: r.dataset.numerics === "true"}))};
		})()`)
		if !reflect.DeepEqual(got.Plans, all) || got.Best != "0" || got.Hover == "" {
			t.Errorf("the page shows %+v, fit says %+v", got, all)
		}
	})
}

func TestWherePlansDoNotFitThePageSaysWhatWould(t *testing.T) {
	var want struct{ Least []struct{ Action string } }
	file := answer(t, &want, "fit", "--job", jobFile, "--memory", "2GiB", "--json")
	bothWays(t, file, func(t *testing.T, tab *chromium.Tab) {
		got := eval[[]string](t, tab, `[...document.querySelectorAll(".middle li")].map(e => e.textContent)`)
		if len(got) == 0 || len(got) != len(want.Least) || got[0] != want.Least[0].Action {
			t.Errorf("the page shows %q, fit says %q", got, want.Least)
		}
	})
}

// TestARunOnThePageEqualsItsJSON looks at a run that dies early: its numbers, that the picture has the batches, the limit and the line without one, and that it
// comes first where there is one column.
func TestARunOnThePageEqualsItsJSON(t *testing.T) {
	var want struct {
		Run struct {
			MaxAllocated int64 `json:"max_allocated"`
			MaxReserved  int64 `json:"max_reserved"`
			Limited      struct{ Room int64 }
			FailsAt      *struct{ Step int } `json:"fails_at"`
			Free         []struct{ Step int }
		}
	}
	file := answer(t, &want, "predict", "--job", jobFile, "--gpu", "rtx-4090", "--json", "--lengths", "lognormal:200,0.7,max=1024", "--steps", "40", "--orders", "1", "--no-remedies")
	if want.Run.FailsAt == nil || len(want.Run.Free) == 0 {
		t.Fatalf("the run should die: %+v", want)
	}
	bothWays(t, file, func(t *testing.T, tab *chromium.Tab) {
		type page struct {
			Allocated, Reserved, Room int64
			Colours                   int
		}
		got := eval[page](t, tab, `(() => {
			const number = (name) => Number(document.querySelector("[data-" + name + "]").dataset[name]);
			const canvas = document.querySelector("#run canvas"), pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
			for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 250) seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
			return {Allocated: number("allocated"), Reserved: number("reserved"), Room: number("room"), Colours: seen.size};
		})()`)
		if got.Allocated != want.Run.MaxAllocated || got.Reserved != want.Run.MaxReserved || got.Room != want.Run.Limited.Room || got.Colours < 4 {
			t.Errorf("the page shows %+v, predict says %+v", got, want)
		}
	})
}
