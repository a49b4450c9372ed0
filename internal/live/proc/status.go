package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Status is what a process started under plimsoll run writes about itself about once a second. The device it names is left out: it counts
// devices as CUDA_VISIBLE_DEVICES orders them, the driver does not.
type Status struct {
	PID, Rank, Step                    int
	Phase                              string
	Allocated, Reserved, PeakAllocated units.Bytes
	// Time is seconds since 1970.
	Time float64
	Asks int   // the signal that asks the process who holds its memory; 0: it does not listen
	Held *Held // the answer, nil before the first
}

// Held is who holds the memory of a process, as its probe saw it in a step.
type Held struct {
	Time    float64  `json:"time"`
	Step    int      `json:"step"`
	Share   float64  `json:"share"` // of the allocated bytes, those that have a name
	Holders []Holder `json:"holders"`
}

// Holder is memory that one name keeps alive.
type Holder struct {
	Name  string      `json:"name"`
	Bytes units.Bytes `json:"bytes"`
	Count int         `json:"count"`
}

// StatusSchema names the form of the status file.
const StatusSchema = "plimsoll.status/1"

const (
	maxStatus  = 8 << 10
	maxHolders = 16
)

// Status reads the status file of a process: run-PID.json in the folder plimsoll-UID of the user's runtime folder or of /tmp.
// Only a plain file that belongs to the process's user or to root counts: anybody may write to /tmp.
func (s *System) Status(pid int, f Facts) (Status, error) {
	if f.UID < 0 {
		return Status{}, errors.New("the process's user is unknown")
	}
	if s.absent[pid] > 0 {
		s.absent[pid]--
		return Status{}, fs.ErrNotExist
	}
	status, err := s.findStatus(pid, f)
	if err != nil {
		s.absent[pid] = lookAgain
	}
	return status, err
}

// lookAgain is for how many looks a process without a status file is believed to have none: most processes never get one.
const lookAgain = 9

func (s *System) findStatus(pid int, f Facts) (Status, error) {
	uid := strconv.Itoa(f.UID)
	name := filepath.Join("plimsoll-"+uid, fmt.Sprintf("run-%d.json", pid))
	folders := []string{filepath.Join(s.Root, "run/user", uid), filepath.Join(s.Root, "tmp")}
	if s.RuntimeDir != "" {
		folders = append(folders, s.RuntimeDir)
	}
	if f.Container != "" {
		if status, err := s.contained(pid, f); err == nil {
			return status, nil
		}
	}
	var last error
	for _, folder := range folders {
		status, err := openStatus(filepath.Join(folder, name), pid, f.UID)
		switch {
		case err != nil:
			last = err
		case status.Time < s.birth(f):
			last = fmt.Errorf("the status of %d is older than the process", pid)
		default:
			return status, nil
		}
	}
	return Status{}, last
}

// contained reads the status file of a process in a container from the container's own files, under the PID it has in there. The folder is
// opened as a root of its own: no link in the container leads out of it.
func (s *System) contained(pid int, f Facts) (Status, error) {
	folder := filepath.Join(s.Root, "proc", strconv.Itoa(pid))
	root, err := os.OpenRoot(filepath.Join(folder, "root"))
	if err != nil {
		return Status{}, err
	}
	defer root.Close()
	text, err := readBounded(filepath.Join(folder, "status"), 16<<10)
	if err != nil {
		return Status{}, err
	}
	inside := innerPID(string(text), pid)
	last := error(fs.ErrNotExist)
	for _, runtime := range []string{fmt.Sprintf("run/user/%d", f.UID), "tmp"} {
		file, err := openInside(root, fmt.Sprintf("%s/plimsoll-%d/run-%d.json", runtime, f.UID, inside))
		if err != nil {
			last = err
			continue
		}
		status, err := readStatus(file, inside, f.UID)
		if err == nil && status.Time >= s.birth(f) {
			return status, nil
		}
		last = err
	}
	return Status{}, last
}

// innerPID is the PID a process has in its innermost PID namespace: the last number of the line "NSpid:" (proc_pid_status(5)).
func innerPID(status string, pid int) int {
	for line := range strings.Lines(status) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			for _, word := range strings.Fields(numbers) {
				if n, err := strconv.Atoi(word); err == nil && n > 0 {
					pid = n
				}
			}
		}
	}
	return pid
}

// birth is when a process started in seconds since 1970, to the second before; zero when unknown. The kernel counts ticks of a
// hundredth of a second since boot (USER_HZ, proc_pid_stat(5)).
func (s *System) birth(f Facts) float64 {
	stat, err := readBounded(filepath.Join(s.Root, "proc/stat"), 1<<20)
	if err != nil || f.Started == 0 {
		return 0
	}
	_, after, ok := strings.Cut(string(stat), "\nbtime ")
	if !ok {
		return 0
	}
	line, _, _ := strings.Cut(after, "\n")
	boot, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return 0
	}
	return float64(boot) + float64(f.Started)/100 - 1
}

func openStatus(path string, pid, uid int) (Status, error) {
	file, err := openPlain(path)
	if err != nil {
		return Status{}, err
	}
	return readStatus(file, pid, uid)
}

// readStatus reads and closes a status file.
func readStatus(file *os.File, pid, uid int) (Status, error) {
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Status{}, err
	}
	if by, ok := owner(info); !ok || !info.Mode().IsRegular() || (by != uid && by != 0) {
		return Status{}, fmt.Errorf("%s is not a plain file of user %d", file.Name(), uid)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxStatus+1))
	if err != nil {
		return Status{}, err
	}
	return parseStatus(data, pid)
}

// parseStatus reads a status file and refuses what cannot be true.
func parseStatus(data []byte, pid int) (Status, error) {
	if len(data) > maxStatus {
		return Status{}, fmt.Errorf("status of %d: larger than %d bytes", pid, maxStatus)
	}
	var raw struct {
		Schema        string      `json:"schema"`
		PID           int         `json:"pid"`
		Rank          int         `json:"rank"`
		Step          int         `json:"step"`
		Phase         string      `json:"phase"`
		Allocated     units.Bytes `json:"allocated"`
		Reserved      units.Bytes `json:"reserved"`
		PeakAllocated units.Bytes `json:"peak_allocated"`
		Time          float64     `json:"time"`
		Asks          int         `json:"asks"`
		Held          *Held       `json:"held"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Status{}, fmt.Errorf("status of %d: %w", pid, err)
	}
	const most = 1024 * units.TiB
	switch {
	case raw.Schema != StatusSchema:
		return Status{}, fmt.Errorf("status of %d: schema %q, want %q", pid, raw.Schema, StatusSchema)
	case raw.PID != pid:
		return Status{}, fmt.Errorf("status of %d is about process %d", pid, raw.PID)
	case min(raw.Allocated, raw.Reserved, raw.PeakAllocated) < 0 || max(raw.Allocated, raw.Reserved, raw.PeakAllocated) > most:
		return Status{}, fmt.Errorf("status of %d: impossible amounts", pid)
	case raw.Step < 0 || len(raw.Phase) > 32 || math.IsNaN(raw.Time) || raw.Time < 0 || raw.Time > 1e11:
		return Status{}, fmt.Errorf("status of %d: step, phase or time out of range", pid)
	}
	if raw.Asks != asksSignal { // the one signal that the probe listens to; no file may have another sent
		raw.Asks = 0
	}
	if raw.Held != nil {
		raw.Held.Holders = raw.Held.Holders[:min(len(raw.Held.Holders), maxHolders)]
	}
	return Status{raw.PID, raw.Rank, raw.Step, raw.Phase, raw.Allocated, raw.Reserved, raw.PeakAllocated, raw.Time, raw.Asks, raw.Held}, nil
}
