package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const shortFit = `{"schema": "plimsoll.fit/1", "title": "tiny", "capacity": 1073741824, "considered": 3, "plans": [{"micro_batch": 2, "step_ms": 5, "fits": true}]}`

func TestViewShowsAnswersOfPredictAndFit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	job := filepath.Join(dir, "job.json")
	config, err := filepath.Abs(llamaConfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(job, []byte(`{"config_file": "`+filepath.ToSlash(config)+`", "batch": 1, "seq": 512}`), 0o644); err != nil {
		t.Fatal(err)
	}
	_, prediction, _ := invoke(t, "", "predict", "--job", job, "--gpu", "rtx-4090", "--json", "--timeline", "50")
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  []string
	}{
		"prediction": {prediction, []string{"-"}, []string{`"kind":"predicted"`, `"batches":[{"batch":1`, `"timeline":[`, "GiB available"}},
		"job":        {"", []string{"--job", job, "--gpu", "rtx-4090"}, []string{`"kind":"predicted"`, `"batches":[{"batch":1`, `"timeline":[`}},
		"plans":      {shortFit, []string{"-"}, []string{`"kind":"planned"`, "Of 3 configurations", `"title":"tiny"`}},
	} {
		file := filepath.Join(dir, name+".html")
		r := plimsoll(t, c.stdin, append([]string{"view", "--html", file}, c.args...)...)
		if r.code != exitOK {
			t.Fatalf("%s: exit %d, stderr %q", name, r.code, r.stderr)
		}
		b := carriedPage(t, file)
		for _, want := range c.want {
			if !bytes.Contains(b, []byte(want)) {
				t.Errorf("%s: the page lacks %s", name, want)
			}
		}
	}
}

func TestViewRefusesAnswersItCannotShow(t *testing.T) {
	t.Parallel()
	for want, stdin := range map[string]string{
		"not a whole answer":        shortFit[:len(shortFit)-9],
		"more than one answer":      shortFit + shortFit,
		"could not be predicted":    `{"schema":"plimsoll.predict/1","id":"a","error":"no such model"}`,
		"no memory snapshot and no": "nothing of note",
	} {
		r := plimsoll(t, stdin, "view", "--html", filepath.Join(t.TempDir(), "x.html"), "-")
		if r.code != exitUnreadable || !strings.Contains(r.stderr, want) {
			t.Errorf("exit %d, stderr %q, want %q", r.code, r.stderr, want)
		}
	}
	for _, args := range [][]string{{"view"}, {"view", "--job", "job.json", "x.pickle"}, {"view", "--gpu", "l4", "x.pickle"}} {
		if r := plimsoll(t, "", args...); r.code != exitUsage || r.stderr == "" {
			t.Errorf("plimsoll %v: exit %d, stderr %q", args, r.code, r.stderr)
		}
	}
}
