// Package proc says whose a process is, from what Linux shows of it.
//
// It takes a PID and returns the program and script it runs, its user, container, pod, Slurm job and rank, and for a process
// started under plimsoll run the state of its PyTorch allocator. A PID that cannot be seen is told apart from a dead one and comes with the
// reason. It reads /proc and small status files, all of them bounded; it never signals a process, and command lines are cut down
// to program and script, because arguments carry secrets.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Facts are what is known of a process. Empty fields are unknown.
type Facts struct {
	Command   string
	UID       int
	User      string
	Container string
	Pod       string
	Job       string
	Rank      int // -1: none
	World     int
	// Started is the start time in clock ticks since boot: with the PID it names a process for good.
	Started int64
	Gone    bool
	Hidden  string
}

// System is a Linux system to look at.
type System struct {
	// Root is "/" or, in tests, a folder that looks like it.
	Root string
	// Exists asks the kernel whether a PID exists, seen or not.
	Exists func(pid int) bool
	// RuntimeDir is one more folder in which status files are looked for: this user's XDG_RUNTIME_DIR.
	RuntimeDir string

	namespaced bool
	cache      map[int]Facts
	users      map[int]string
	absent     map[int]int // processes without a status file, and for how many looks to leave it at that
}

// initialNamespace is the inode of the first PID namespace: PROC_PID_INIT_INO in Linux's include/linux/proc_ns.h.
const initialNamespace = "pid:[4026531836]"

// Open gives the system below a root folder.
func Open(root string) *System {
	namespace, _ := os.Readlink(filepath.Join(root, "proc/self/ns/pid"))
	return &System{
		Root: root, Exists: exists, namespaced: namespace != "" && namespace != initialNamespace,
		cache: map[int]Facts{}, users: map[int]string{}, absent: map[int]int{},
	}
}

// Contained tells whether only the processes of one PID namespace can be seen from here.
func (s *System) Contained() bool { return s.namespaced }

// Look says whose a process is. What does not change in a process's life is read once.
func (s *System) Look(pid int) Facts {
	folder := filepath.Join(s.Root, "proc", strconv.Itoa(pid))
	stat, err := readBounded(filepath.Join(folder, "stat"), 4<<10)
	if err != nil {
		delete(s.cache, pid)
		return s.unseen(pid, err)
	}
	started, dead := parseStat(stat)
	if known, ok := s.cache[pid]; ok && known.Started == started {
		known.Gone = dead
		return known
	}
	f := Facts{Rank: -1, Started: started, Gone: dead, UID: -1}
	if uid, ok := ownerOf(folder); ok {
		f.UID, f.User = uid, s.userName(uid)
	}
	if line, err := readBounded(filepath.Join(folder, "cmdline"), 4<<10); err == nil {
		f.Command = shortCommand(line)
	}
	if f.Command == "" { // kernel threads and zombies have no command line
		f.Command = commandName(stat)
	}
	if groups, err := readBounded(filepath.Join(folder, "cgroup"), 16<<10); err == nil {
		f.Container, f.Pod, f.Job = parseCgroup(string(groups))
	}
	if environment, err := readBounded(filepath.Join(folder, "environ"), 1<<20); err == nil {
		f.readEnvironment(environment)
	}
	if len(s.cache) > 1<<14 {
		clear(s.cache)
		clear(s.absent)
	}
	s.cache[pid] = f
	return f
}

// unseen tells a dead process from one that cannot be seen.
func (s *System) unseen(pid int, err error) Facts {
	f := Facts{Rank: -1, UID: -1}
	switch {
	case s.namespaced:
		f.Hidden = "PID of another PID namespace; start this container with --pid=host (Kubernetes: hostPID: true)"
	case errors.Is(err, fs.ErrPermission) || s.Exists(pid):
		f.Hidden = "/proc hides the processes of other users (hidepid); run as root to see them"
	default:
		f.Gone = true
	}
	return f
}

// parseStat reads the state and the start time of /proc/PID/stat. The command in it may hold spaces and parentheses.
func parseStat(stat []byte) (started int64, dead bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	f := strings.Fields(string(stat[end+1:]))
	if len(f) < 20 {
		return 0, false
	}
	started, _ = strconv.ParseInt(f[19], 10, 64) // field 22, proc_pid_stat(5)
	return started, f[0] == "Z" || f[0] == "X"
}

func commandName(stat []byte) string {
	begin, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if begin < 0 || end < begin {
		return ""
	}
	return string(stat[begin+1 : end])
}

// readEnvironment takes the few variables that say which part of which job a process is, and nothing else.
func (f *Facts) readEnvironment(environment []byte) {
	rank, world := -1, 0
	for entry := range bytes.SplitSeq(environment, []byte{0}) {
		name, value, _ := bytes.Cut(entry, []byte{'='})
		switch string(name) {
		case "RANK":
			if n, err := strconv.Atoi(string(value)); err == nil && n >= 0 {
				rank = n
			}
		case "WORLD_SIZE":
			if n, err := strconv.Atoi(string(value)); err == nil && n > 0 {
				world = n
			}
		case "SLURM_JOB_ID":
			if f.Job == "" && allDigits(string(value)) {
				f.Job = string(value)
			}
		}
	}
	if rank >= 0 && world > rank { // torchrun sets both; RANK alone may be anybody's
		f.Rank, f.World = rank, world
	}
}

// userName looks a user up in the system's passwd file.
func (s *System) userName(uid int) string {
	if name, ok := s.users[uid]; ok {
		return name
	}
	name := strconv.Itoa(uid)
	if passwd, err := readBounded(filepath.Join(s.Root, "etc/passwd"), 4<<20); err == nil {
		for line := range strings.Lines(string(passwd)) {
			f := strings.Split(line, ":")
			if len(f) > 2 && f[2] == name {
				name = f[0]
				break
			}
		}
	}
	s.users[uid] = name
	return name
}

// readBounded reads a file up to so many bytes.
func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

func allDigits(s string) bool {
	return s != "" && len(s) < 20 && strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}
