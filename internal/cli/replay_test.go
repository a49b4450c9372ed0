package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
	"github.com/plimsoll/plimsoll/internal/units"
)

func replayed(t *testing.T, args ...string) (report.Replay, result) {
	t.Helper()
	r := plimsoll(t, "", append([]string{"replay", "--json"}, args...)...)
	var out report.Replay
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
		t.Fatalf("replay %v: %v (stderr %s)", args, err, r.stderr)
	}
	return out, r
}

func settingOf(t *testing.T, r report.Replay, conf string) report.ReplaySetting {
	t.Helper()
	for _, s := range r.Settings {
		if s.Conf == conf {
			return s
		}
	}
	t.Fatalf("no setting %q in %v", conf, r.Settings)
	return report.ReplaySetting{}
}

func TestReplayScreens(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"varlen-died":     {"alloc-varlen-default-capped"},
		"varlen-10GiB":    {"alloc-varlen-default", "--capacity", "10GiB"},
		"mixed":           {"alloc-mixed-default"},
		"late-recording":  {"late-recording"},
		"cudagraph":       {"cudagraph"},
		"oom-batch":       {"oom-batch"},
		"wrong-version":   {"alloc-mixed-default", "--torch", "2.13", "--conf", "expandable_segments:True"},
		"wrong-limit":     {"alloc-varlen-expandable-capped", "--recorded-limit", "8GiB", "--conf", "default"},
		"split-and-grow":  {"alloc-mixed-default", "--conf", "max_split_size_mb:64,expandable_segments:True"},
		"mixed-32GiB-2.9": {"alloc-mixed-expandable", "--torch", "2.9", "--capacity", "32GiB", "--conf", "default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args[0] = recordings + args[0] + ".pickle.gz"
			r := plimsoll(t, "", append([]string{"replay"}, args...)...)
			goldentest.Check(t, "testdata/replay/"+name+".txt", []byte(r.stdout))
			for line := range strings.SplitSeq(r.stdout, "\n") {
				if screen.Columns(line) > 80 {
					t.Errorf("%d columns: %s", screen.Columns(line), line)
				}
			}
		})
	}
}

func TestReplayJSON(t *testing.T) {
	t.Parallel()
	r := plimsoll(t, "", "replay", "--json", "--conf", "expandable_segments:True", "--capacity", "10GiB", recordings+"alloc-varlen-default.pickle.gz")
	goldentest.Check(t, "testdata/replay/varlen-10GiB.json", []byte(r.stdout))
}

func TestReplaySaysWhoDiesAndWhoLives(t *testing.T) {
	t.Parallel()
	r, run := replayed(t, "--conf", "default", "--conf", "expandable_segments:True", "--capacity", "10GiB", recordings+"alloc-varlen-split64.pickle.gz")
	if run.code != exitOK {
		t.Errorf("exit %d: %s", run.code, run.stderr)
	}
	if d := settingOf(t, r, "default"); d.OOM == nil {
		t.Error("default must run out of memory at 10 GiB")
	}
	e := settingOf(t, r, "expandable_segments:True")
	if e.OOM != nil || e.Peak.Reserved != 9_829_351_424 { // recorded: alloc-varlen-expandable-capped
		t.Errorf("expandable: %+v", e)
	}
	if !r.Helps || r.Environment != "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" {
		t.Errorf("helps %v, environment %q", r.Helps, r.Environment)
	}
}

func TestReplayExitsWithThreeWhenNothingHelps(t *testing.T) {
	t.Parallel()
	r, run := replayed(t, recordings+"oom-batch.pickle.gz")
	if run.code != exitFinding || r.Helps || r.Capacity != 16*units.GiB || r.CapacityIs != "recorded" {
		t.Errorf("exit %d, helps %v, capacity %v from %s", run.code, r.Helps, r.Capacity, r.CapacityIs)
	}
}

func TestReplayNamesTheVariableItsVersionReads(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"2.9": "PYTORCH_CUDA_ALLOC_CONF", "2.10": "PYTORCH_ALLOC_CONF", "2.11": "PYTORCH_CUDA_ALLOC_CONF"} {
		r, _ := replayed(t, "--torch", version, "--conf", "roundup_power2_divisions:[64:2,>:4]", recordings+"mlp-adam.pickle.gz")
		if got := settingOf(t, r, "roundup_power2_divisions:[64:2,>:4]").Environment; got != want+`="roundup_power2_divisions:[64:2,>:4]"` {
			t.Errorf("%s: %s", version, got)
		}
	}
}

func TestReplayRefusesWhatItCannotAnswer(t *testing.T) {
	t.Parallel()
	file := recordings + "mlp-adam.pickle.gz"
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"replay"}, exitUsage},
		{[]string{"replay", file, "--conf", "expandable_segments:true"}, exitUsage},
		{[]string{"replay", file, "--conf", "backend:cudaMallocAsync"}, exitUsage},
		{[]string{"replay", file, "--torch", "2.0", "--conf", "expandable_segments:True"}, exitUsage},
		{[]string{"replay", file, "--torch", "9.9"}, exitUsage},
		{[]string{"replay", file, "--capacity", "much"}, exitUsage},
		{[]string{"replay", file, "--recorded-limit", "-1"}, exitUsage},
		{[]string{"replay", file, "--device", "3"}, exitUnreadable},
		{[]string{"replay", "no-such-file.pickle"}, exitUnreadable},
	} {
		if r := plimsoll(t, "", c.args...); r.code != c.code || r.stderr == "" || r.stdout != "" {
			t.Errorf("plimsoll %v: exit %d, stdout %q, stderr %q", c.args, r.code, r.stdout, r.stderr)
		}
	}
}
