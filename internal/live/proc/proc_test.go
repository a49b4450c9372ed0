package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const hex64 = "9f2c41d07ab3e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e"

// fakeSystem builds a folder that looks like a system with one process.
func fakeSystem(t *testing.T, pid int, files map[string]string) *System {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nme:x:"+strconv.Itoa(os.Getuid())+"0:0::/:/bin/sh\n")
	for name, text := range files {
		write(filepath.Join("proc", strconv.Itoa(pid), name), text)
	}
	s := Open(root)
	s.Exists = func(int) bool { return false }
	return s
}

func statLine(name, state string) string {
	return "42 (" + name + ") " + state + " 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 987654 1 1 1"
}

func TestAProcessIsKnownByScriptContainerPodJobAndRank(t *testing.T) {
	t.Parallel()
	s := fakeSystem(t, 42, map[string]string{
		"stat":    statLine("pt (main) loop", "S"),
		"cmdline": "/opt/conda/bin/python3.11\x00-u\x00-W\x00ignore\x00/home/me/secret/train.py\x00--token=abc\x00",
		"cgroup": "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod4b1f6c1e_5d0a_4a7f_9d53_0f1d2b7c8e90.slice/cri-containerd-" +
			hex64 + ".scope\n",
		"environ": "HOME=/x\x00RANK=3\x00WORLD_SIZE=8\x00SLURM_JOB_ID=991\x00AWS_SECRET=1\x00",
	})
	got := s.Look(42)
	want := Facts{
		Command: "python train.py", UID: os.Getuid(), User: got.User, Container: hex64[:12], Pod: "4b1f6c1e-5d0a-4a7f-9d53-0f1d2b7c8e90",
		Job: "991", Rank: 3, World: 8, Started: 987654,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestCommandsAreCutDownToProgramAndScript(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"python\x00train.py\x00--lr\x001":                         "python train.py",
		"/usr/bin/python3\x00-m\x00torch.distributed.run\x00x.py": "python -m torch.distributed.run",
		"python\x00-c\x00import secrets":                          "python -c",
		"python3.12\x00-X\x00dev\x00-I\x00a/b.py":                 "python b.py",
		"/usr/lib/xorg/Xorg\x00-core\x00:0":                       "Xorg",
		"-bash":                                                   "bash",
		"ray::Trainer.fit() step 3":                               "ray::Trainer.fit() step 3",
		"python":                                                  "python",
		"":                                                        "",
	} {
		if got := shortCommand([]byte(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestContainersAndJobsAreFoundInEveryRuntimesPaths(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][3]string{
		"12:memory:/docker/" + hex64:                                                {hex64[:12]},
		"0::/system.slice/docker-" + hex64 + ".scope":                               {hex64[:12]},
		"0::/machine.slice/libpod-" + hex64 + ".scope/container":                    {hex64[:12]},
		"5:x:/kubepods/besteffort/pod4b1f6c1e-5d0a-4a7f-9d53-0f1d2b7c8e90/" + hex64: {hex64[:12], "4b1f6c1e-5d0a-4a7f-9d53-0f1d2b7c8e90"},
		"0::/system.slice/slurmstepd.scope/job_88123/step_0/user/task_0":            {"", "", "88123"},
		"4:devices:/slurm/uid_1000/job_7/step_batch":                                {"", "", "7"},
		"0::/user.slice/user-1000.slice/session-3.scope":                            {},
		"nonsense": {},
		"0::/podnotauid-0000-0000-0000-000000000000/job_x":                                  {},
		"0::/a/" + hex64 + "0":                                                              {},
		"0::/kubepods/tripod4b1f6c1e-5d0a-4a7f-9d53-0f1d2b7c8e90":                           {},
		"0::/kubepods/pod" + strings.Repeat("4", 36) + "/job_99999999999999999999999999999": {},
	} {
		container, pod, job := parseCgroup(text)
		if got := [3]string{container, pod, job}; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestADeadProcessIsToldApartFromOneThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	s := fakeSystem(t, 42, nil)
	if f := s.Look(42); !f.Gone || f.Hidden != "" {
		t.Errorf("no such PID: %+v", f)
	}
	s.Exists = func(int) bool { return true }
	if f := s.Look(42); f.Gone || !strings.Contains(f.Hidden, "hidepid") {
		t.Errorf("a PID that exists but is not shown: %+v", f)
	}
	s.namespaced = true
	if f := s.Look(42); f.Gone || !strings.Contains(f.Hidden, "--pid=host") {
		t.Errorf("inside a container: %+v", f)
	}
	zombie := fakeSystem(t, 42, map[string]string{"stat": statLine("python", "Z"), "cmdline": ""})
	if f := zombie.Look(42); !f.Gone || f.Command != "python" {
		t.Errorf("a zombie: %+v", f)
	}
}

func TestAReusedPIDIsReadAnew(t *testing.T) {
	t.Parallel()
	s := fakeSystem(t, 42, map[string]string{"stat": statLine("a", "S"), "cmdline": "first"})
	before := s.Look(42)
	folder := filepath.Join(s.Root, "proc/42")
	if err := os.WriteFile(filepath.Join(folder, "cmdline"), []byte("second"), 0o644); err != nil {
		t.Fatal(err)
	}
	if again := s.Look(42); again != before {
		t.Errorf("the same process was read again: %+v", again)
	}
	if err := os.WriteFile(filepath.Join(folder, "stat"), []byte(strings.Replace(statLine("a", "S"), "987654", "987999", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if after := s.Look(42); after.Command != "second" {
		t.Errorf("a new process has the old one's name: %+v", after)
	}
}

const goodStatus = `{"schema":"plimsoll.status/1","pid":42,"rank":0,"step":17,"phase":"backward","allocated":100,"reserved":300,"peak_allocated":250,"device":0,"time":1.7e9}`

func TestTheStatusOfARunIsReadOnlyFromItsOwner(t *testing.T) {
	t.Parallel()
	s := fakeSystem(t, 42, nil)
	folder := filepath.Join(s.Root, "tmp", "plimsoll-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "run-42.json")
	if err := os.WriteFile(path, []byte(goodStatus), 0o600); err != nil {
		t.Fatal(err)
	}
	me := Facts{UID: os.Getuid()}
	status, err := s.Status(42, me)
	if err != nil || status.Step != 17 || status.Reserved != 300 || status.Phase != "backward" {
		t.Errorf("%+v, %v", status, err)
	}
	if os.Getuid() != 0 { // root's files count for everybody
		if _, err := openStatus(path, 42, os.Getuid()+1); err == nil {
			t.Error("a file of another user was believed")
		}
	}
	link := filepath.Join(folder, "run-43.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := openStatus(link, 42, os.Getuid()); err == nil {
		t.Error("a link was followed")
	}
}

func TestTheStatusOfARunInAContainerIsReadFromItsOwnFiles(t *testing.T) {
	t.Parallel()
	me := strconv.Itoa(os.Getuid())
	s := fakeSystem(t, 4711, map[string]string{
		"status": "Name:\tpython\nNSpid:\t4711\t42\n",
		"root/tmp/plimsoll-" + me + "/run-42.json": goodStatus,
	})
	status, err := s.Status(4711, Facts{UID: os.Getuid(), Container: "9f2c41d07ab3"})
	if err != nil || status.Step != 17 {
		t.Errorf("%+v, %v", status, err)
	}
	// A container whose /tmp points out of itself gets nothing read for it.
	outside := t.TempDir()
	if err := os.MkdirAll(filepath.Join(outside, "plimsoll-"+me), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "plimsoll-"+me, "run-42.json"), []byte(goodStatus), 0o600); err != nil {
		t.Fatal(err)
	}
	escape := fakeSystem(t, 4711, map[string]string{"status": "NSpid:\t4711\t42\n", "root/etc/x": ""})
	if err := os.Symlink(outside, filepath.Join(escape.Root, "proc/4711/root/tmp")); err != nil {
		t.Fatal(err)
	}
	if _, err := escape.Status(4711, Facts{UID: os.Getuid(), Container: "9f2c41d07ab3"}); err == nil {
		t.Error("a link led out of the container")
	}
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte(goodStatus))
	f.Add([]byte(`{"schema":"plimsoll.status/1","pid":42,"allocated":-5,"time":1e308}`))
	f.Add([]byte(`{"schema":"plimsoll.status/1","pid":42,"allocated":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		status, err := parseStatus(data, 42)
		if err == nil && (status.PID != 42 || status.Allocated < 0 || status.Step < 0 || len(status.Phase) > 32) {
			t.Fatalf("accepted %+v", status)
		}
	})
}

func FuzzProcessFiles(f *testing.F) {
	f.Add([]byte(statLine("python", "S")), []byte("python\x00x.py"), "0::/docker/"+hex64, []byte("RANK=1\x00WORLD_SIZE=2"))
	f.Add([]byte("42 ) ("), []byte{0}, "a:b:/pod", []byte("RANK="))
	f.Fuzz(func(t *testing.T, stat, line []byte, groups string, environment []byte) {
		parseStat(stat)
		commandName(stat)
		if s := shortCommand(line); len(s) > 80 {
			t.Fatalf("command of %d bytes", len(s))
		}
		parseCgroup(groups)
		facts := Facts{Rank: -1}
		facts.readEnvironment(environment)
		if facts.Rank >= 0 && facts.World <= facts.Rank {
			t.Fatalf("rank %d of %d", facts.Rank, facts.World)
		}
	})
}
