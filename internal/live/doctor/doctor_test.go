package doctor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/live/simgpu"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/units"
)

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

// healthy is a machine with nothing to complain about.
func healthy() Facts {
	return Facts{
		System: System{OS: "linux", Kernel: "6.8.0"},
		Driver: Driver{Version: "580.82.07", CUDA: "13.0", Module: "580.82.07", Files: true},
		Cards: []Card{{
			Name: "NVIDIA H200", Total: 141 * units.GiB, Capability: "9.0", Persistence: yes(), ECC: yes(), Uncorrected: new(uint64),
			RemapPending: no(), RemapFailure: no(), MIG: no(), MIGPending: no(), ComputeMode: "default",
		}},
		Memory:  Memory{Total: 512 * units.GiB, Available: 400 * units.GiB, ShmSize: 64 * units.GiB, ShmFree: 60 * units.GiB, ShmKnown: true},
		Torch:   &Torch{Python: "3.12.1", Version: "2.11.0+cu130", CUDA: "13.0"},
		Toolkit: "13.0",
		View:    &watch.View{Readings: 1, Cards: []watch.CardView{{Card: watch.Card{Instance: -1, Total: 141 * units.GiB}}}},
		Env:     map[string]string{},
	}
}

func TestAHealthyMachineHasNoFindingAndNoOpenQuestion(t *testing.T) {
	t.Parallel()
	d := Examine(healthy())
	if len(d.Findings) != 0 || len(d.Unknown) != 0 || len(d.Fine) != len(checks) {
		t.Errorf("findings %+v, unknown %q", d.Findings, d.Unknown)
	}
}

func TestWhatIsNotKnownIsNeverFine(t *testing.T) {
	t.Parallel()
	d := Examine(Facts{Driver: Driver{Problem: "no library", NoLibrary: true}})
	for _, fine := range d.Fine {
		if strings.Contains(fine, "card") || strings.Contains(fine, "shm") || strings.Contains(fine, "PyTorch") {
			t.Errorf("called fine without a fact: %s", fine)
		}
	}
	if len(d.Unknown) < 7 {
		t.Errorf("unknown: %q", d.Unknown)
	}
}

func TestEachTroubleIsFoundWithAFix(t *testing.T) {
	t.Parallel()
	two := uint64(2)
	for name, c := range map[string]struct {
		change   func(*Facts)
		id       string
		severity string
		says     string
	}{
		"no driver":         {func(f *Facts) { f.Driver = Driver{Problem: "x", NoLibrary: true} }, "driver-missing", report.Warning, "no NVIDIA driver"},
		"module not loaded": {func(f *Facts) { f.Driver = Driver{Problem: "x", NoModule: true} }, "driver-missing", report.Error, "kernel module"},
		"nouveau":           {func(f *Facts) { f.Driver = Driver{Problem: "x", NoLibrary: true}; f.System.Nouveau = true }, "driver-missing", report.Error, "nouveau"},
		"container without GPU": {func(f *Facts) {
			f.Driver = Driver{Problem: "x", NoLibrary: true, Module: "580.1"}
			f.System.Container = true
		}, "driver-missing", report.Error, "--gpus all"},
		"container without lib": {func(f *Facts) {
			f.Driver = Driver{Problem: "x", NoLibrary: true, Files: true}
			f.System.Container = true
		}, "driver-missing", report.Error, "DRIVER_CAPABILITIES"},
		"only nvidia-smi":       {func(f *Facts) { f.Driver.Problem, f.Driver.NoLibrary, f.Driver.SMI = "x", true, true }, "driver-library", report.Remark, "ldconfig"},
		"updated, not rebooted": {func(f *Facts) { f.Driver = Driver{Problem: "x", Mismatch: true, Module: "570.1"} }, "driver-mismatch", report.Error, "reboot"},
		"module of another age": {func(f *Facts) { f.Driver.Module = "570.124.06" }, "driver-mismatch", report.Error, "570.124.06"},
		"driver too old":        {func(f *Facts) { f.Driver.CUDA = "12.4" }, "driver-too-old", report.Error, "12.6"},
		"driver a bit old":      {func(f *Facts) { f.Torch.CUDA = "13.1" }, "driver-older-than-torch", report.Remark, "update the driver"},
		"torch without CUDA":    {func(f *Facts) { f.Torch.CUDA = "" }, "torch-without-cuda", report.Error, "built without CUDA"},
		"card newer than torch": {func(f *Facts) { f.Cards[0].Capability, f.Torch.CUDA = "12.0", "12.6" }, "torch-without-card", report.Error, "12.8 or newer"},
		"card dropped by torch": {func(f *Facts) { f.Cards[0].Capability = "7.0" }, "torch-without-card", report.Error, "12.9 or older"},
		"toolkit":               {func(f *Facts) { f.Toolkit = "11.8" }, "toolkit-mismatch", report.Remark, "CUDA_HOME"},
		"ECC errors":            {func(f *Facts) { f.Cards[0].Uncorrected = &two }, "ecc-errors", report.Error, "--gpu-reset"},
		"remap pending":         {func(f *Facts) { f.Cards[0].RemapPending = yes() }, "row-remap", report.Warning, "reset"},
		"remap failed":          {func(f *Facts) { f.Cards[0].RemapFailure = yes() }, "row-remap", report.Error, "replaced"},
		"ECC off":               {func(f *Facts) { f.Cards[0].ECC = no() }, "ecc-off", report.Remark, "-e 1"},
		"persistence off":       {func(f *Facts) { f.Cards[0].Persistence = no() }, "persistence-off", report.Remark, "-pm 1"},
		"exclusive":             {func(f *Facts) { f.Cards[0].ComputeMode = "exclusive" }, "compute-mode", report.Remark, "-c DEFAULT"},
		"prohibited":            {func(f *Facts) { f.Cards[0].ComputeMode = "prohibited" }, "compute-mode", report.Error, "-c DEFAULT"},
		"MIG without instance":  {func(f *Facts) { f.Cards[0].MIG, f.Cards[0].MIGPending = yes(), yes() }, "mig", report.Error, "-cgi"},
		"MIG pending":           {func(f *Facts) { f.Cards[0].MIGPending = yes() }, "mig", report.Warning, "reset"},
		"WSL":                   {func(f *Facts) { f.System.WSL = true }, "wsl-pinned-memory", report.Remark, "pin_memory=False"},
		"small shm":             {func(f *Facts) { f.Memory.ShmSize = 64 * units.MiB }, "shm-small", report.Error, "--shm-size"},
		"full shm":              {func(f *Facts) { f.Memory.ShmFree = 3 * units.MiB }, "shm-small", report.Warning, "ls -lat"},
		"host memory low":       {func(f *Facts) { f.Memory.Available = units.GiB }, "host-memory-low", report.Warning, "137"},
		"container limit":       {func(f *Facts) { f.Memory.Limit, f.Memory.LimitUsed = 8*units.GiB, 7*units.GiB }, "host-memory-low", report.Warning, "container"},
		"host below card":       {func(f *Facts) { f.Memory.Total, f.Memory.Available = 100*units.GiB, 90*units.GiB }, "host-memory-low", report.Remark, "mmap"},
		"new name, old torch": {func(f *Facts) {
			f.Env["PYTORCH_ALLOC_CONF"], f.Torch.Version = "expandable_segments:True", "2.9.1+cu128"
		}, "alloc-conf-ignored", report.Error, "PYTORCH_CUDA_ALLOC_CONF"},
		"two names": {func(f *Facts) {
			f.Env["PYTORCH_ALLOC_CONF"], f.Env["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True", "max_split_size_mb:64"
		}, "alloc-conf-conflict", report.Warning, "unset"},
		"unknown key": {func(f *Facts) { f.Env["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segment:True" }, "alloc-conf-refused", report.Error, "unknown key"},
		"key from the future": {func(f *Facts) {
			f.Env["PYTORCH_CUDA_ALLOC_CONF"], f.Torch.Version = "large_segment_size_mb:40", "2.6.0"
		}, "alloc-conf-refused", report.Error, "2.6 does not know"},
		"split size too small": {func(f *Facts) { f.Env["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:10" }, "alloc-conf-refused", report.Error, "20"},
		"async ignores":        {func(f *Facts) { f.Env["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync,max_split_size_mb:64" }, "alloc-conf-conflict", report.Warning, "cudaMallocAsync"},
		"split and expandable": {func(f *Facts) { f.Env["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True,max_split_size_mb:64" }, "alloc-conf-conflict", report.Warning, "193400"},
		"collection without cap": {func(f *Facts) {
			f.Env["PYTORCH_CUDA_ALLOC_CONF"] = "garbage_collection_threshold:0.6,roundup_power2_divisions:[256:1,512:2,>:8]"
		},
			"alloc-conf-conflict", report.Warning, "memory_fraction"},
		"caching off":     {func(f *Facts) { f.Env["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1" }, "caching-off", report.Warning, "unset"},
		"no card visible": {func(f *Facts) { f.Env["CUDA_VISIBLE_DEVICES"] = "" }, "no-visible-device", report.Warning, "unset"},
		"card 1 of 1":     {func(f *Facts) { f.Env["CUDA_VISIBLE_DEVICES"] = "0,1" }, "no-visible-device", report.Warning, "names card 1"},
		"blocking":        {func(f *Facts) { f.Env["CUDA_LAUNCH_BLOCKING"] = "1" }, "launch-blocking", report.Remark, "unset"},
		"spill": {func(f *Facts) {
			f.View.Cards[0].Processes = []watch.ProcessView{{Use: use(watch.Use{PID: 7, Known: true, Bytes: 200 * units.GiB})}}
		}, "sysmem-fallback", report.Error, "Sysmem Fallback"},
		"hidden": {func(f *Facts) {
			f.View.Cards[0].Processes = []watch.ProcessView{{Use: use(watch.Use{PID: 7, Known: true, Bytes: units.GiB, Who: watch.Identity{Rank: -1, Hidden: "--pid=host"}})}}
		}, "hidden-process", report.Remark, "--pid=host"},
		"nobody listed":   {func(f *Facts) { f.View.Cards[0].Used = 50 * units.GiB }, "orphan-memory", report.Warning, "fuser"},
		"other container": {func(f *Facts) { f.View.Cards[0].Used = 50 * units.GiB; f.System.Contained = true }, "hidden-process", report.Warning, "--pid=host"},
	} {
		f := healthy()
		c.change(&f)
		d := Examine(f)
		i := slices.IndexFunc(d.Findings, func(found report.Finding) bool { return found.ID == c.id && found.Severity == c.severity })
		if i < 0 {
			t.Errorf("%s: no %s of severity %s among %+v", name, c.id, c.severity, d.Findings)
			continue
		}
		found := d.Findings[i]
		text := found.Title + strings.Join(found.Evidence, " ")
		for _, r := range found.Remedies {
			text += " " + r.Action + " " + r.Command
		}
		if len(found.Remedies) == 0 || !strings.Contains(text, c.says) {
			t.Errorf("%s: %q does not say %q", name, text, c.says)
		}
	}
}

func use(u watch.Use) watch.Use {
	if u.Who.Hidden == "" {
		u.Who.Rank = -1
	}
	return u
}

func TestMemoryOfTheDeadIsReported(t *testing.T) {
	t.Parallel()
	m := simgpu.New([]watch.Card{{ID: "a", Instance: -1, Total: 80 * units.GiB}}, []simgpu.Process{
		{PID: 9, Law: simgpu.Constant(20 * units.GiB), Dies: 1, LeavesEntry: true, Who: watch.Identity{Rank: -1}},
	})
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if _, err := m.Read(context.Background(), start); err != nil {
		t.Fatal(err)
	}
	view := watch.NewHistory().Look(context.Background(), m, start.Add(5*time.Second))
	f := healthy()
	f.View = &view
	found := Examine(f).Findings
	if len(found) != 1 || found[0].ID != "orphan-memory" || found[0].Bytes != 20*units.GiB {
		t.Errorf("%+v", found)
	}
}

func TestTheSameTroubleOnSeveralCardsIsToldOnce(t *testing.T) {
	t.Parallel()
	f := healthy()
	for i := range 3 {
		c := f.Cards[0]
		c.Index, c.Persistence = i+1, no()
		f.Cards = append(f.Cards, c)
	}
	found := Examine(f).Findings
	if len(found) != 1 || found[0].Title != "GPUs 1, 2, 3: the driver unloads when no process uses the card" || found[0].Remedies[0].Command != "for i in 1 2 3; do sudo nvidia-smi -pm 1 -i $i; done" {
		t.Errorf("%+v", found)
	}
}

func TestSensibleSettingsRaiseNothing(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "backend:cudaMallocAsync",
		"garbage_collection_threshold:0.6,per_process_memory_fraction:0.9", " expandable_segments:True , pinned_use_background_threads:True,", "",
	} {
		f := healthy()
		f.Env["PYTORCH_CUDA_ALLOC_CONF"] = value
		if found := Examine(f).Findings; len(found) > 0 {
			t.Errorf("%q: %s", value, found[0].Title)
		}
	}
}

func TestVersionsAreReadAsPackagesWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]version{
		"2.11.0+cu130": {2, 11}, "2.9.1": {2, 9}, "12.8": {12, 8}, "13": {13, 0}, "2.12.0a0+git1a2b": {2, 12}, " 2.1.0rc1": {2, 1},
	} {
		if got, ok := parseVersion(text); !ok || got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "main", "-1.2", "v2.1"} {
		if got, ok := parseVersion(text); ok {
			t.Errorf("%q became %v", text, got)
		}
	}
}

func FuzzSettings(f *testing.F) {
	f.Add("expandable_segments:True,max_split_size_mb:10", "2.9.1")
	f.Add("a:[1:2,[3", "x")
	f.Add("]],,::", "99999999999999999999.1")
	f.Fuzz(func(t *testing.T, value, torch string) {
		facts := healthy()
		facts.Torch.Version = torch
		facts.Env["PYTORCH_CUDA_ALLOC_CONF"] = value
		for _, found := range Examine(facts).Findings {
			if len(found.Remedies) == 0 {
				t.Fatalf("a finding without a fix: %+v", found)
			}
		}
	})
}
