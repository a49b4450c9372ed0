package oomtext

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// row is one line of a file of messages people posted. The first collection has ids that promise a format; the second has numbers that must be found.
type row struct {
	ID, Message string
	Expect      *expected
}

type expected struct {
	OOM          bool     `json:"oom"`
	Lenient      bool     `json:"lenient"`
	Host         bool     `json:"host"`
	Requested    string   `json:"requested"`
	RequestedAny []string `json:"requested_any"`
	Capacity     string   `json:"capacity"`
	Free         string   `json:"free"`
	Process      string   `json:"process"`
	Allocated    string   `json:"allocated"`
	Unallocated  string   `json:"unallocated"`
	Reserved     string   `json:"reserved"`
	Limit        string   `json:"limit"`
	Backend      string   `json:"backend"`
	Device       *int     `json:"device"`
}

// publicRows reads the files that PLIMSOLL_MESSAGES names, separated by colons. They are not part of the repository.
func publicRows(t *testing.T) []row {
	t.Helper()
	paths := os.Getenv("PLIMSOLL_MESSAGES")
	if paths == "" {
		t.Skip("PLIMSOLL_MESSAGES names no file of messages")
	}
	var rows []row
	for path := range strings.SplitSeq(paths, ":") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n") {
			var r row
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// What must be found is taken out of each text by expressions that share nothing with the reader, or stands in the file.
func TestPublicMessagesAreReadInFull(t *testing.T) {
	total, right, numbers := 0, 0, 0
	for _, r := range publicRows(t) {
		total++
		var missing []string
		n := 0
		if r.Expect == nil {
			missing, n = missingNumbers(t, r.ID, r.Message)
		} else {
			missing, n = r.Expect.missing(t, r.Message)
		}
		numbers += n
		if len(missing) == 0 {
			right++
			continue
		}
		t.Errorf("%s: %s", r.ID, strings.Join(missing, "; "))
	}
	t.Logf("%d of %d messages read in full, %d numbers", right, total, numbers)
}

// missing lists what was expected of a message and is not in what was read.
func (e *expected) missing(t *testing.T, text string) ([]string, int) {
	t.Helper()
	log, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if !e.OOM {
		if len(log.Messages) > 0 && !e.Lenient {
			return []string{"not a memory failure, read as " + brief(log.Messages[0])}, 0
		}
		return nil, 0
	}
	if len(log.Messages) == 0 {
		return []string{"not read"}, 0
	}
	var best []string
	n := 0
	for i, m := range log.Messages {
		missing, numbers := e.missingFrom(m)
		if i == 0 || len(missing) < len(best) {
			best, n = missing, numbers
		}
	}
	return best, n
}

func (e *expected) missingFrom(m Message) ([]string, int) {
	var missing []string
	n := 0
	check := func(name string, a Amount, want ...string) {
		if len(want) == 0 || want[0] == "" {
			return
		}
		n++
		for _, w := range want {
			if s := sizeText.FindStringSubmatch(w); s != nil {
				got, _, ok := squash([]byte(w)).amountAt(0)
				if ok && a.Known && a.Bytes-a.Within-got.Within <= got.Bytes && got.Bytes <= a.Bytes+a.Within+got.Within {
					return
				}
			}
		}
		missing = append(missing, fmt.Sprintf("%s is %v, want %v", name, a, want))
	}
	check("requested", m.Requested, e.Requested)
	check("requested", m.Requested, e.RequestedAny...)
	check("capacity", m.Capacity, e.Capacity)
	check("free", m.Free, e.Free)
	check("process", m.Process, e.Process)
	check("allocated", m.Allocated, e.Allocated)
	check("unallocated", m.ReservedUnallocated, e.Unallocated)
	check("reserved", m.Reserved, e.Reserved)
	check("limit", m.Allowed, e.Limit)
	if e.Backend != "" && e.Backend != m.Backend {
		missing = append(missing, "backend is "+m.Backend+", want "+e.Backend)
	}
	if e.Device != nil && *e.Device != m.Device {
		missing = append(missing, fmt.Sprintf("device is %d, want %d", m.Device, *e.Device))
	}
	if host := m.Kind == HostOOM || m.Kind == SharedOOM; e.Host && !host {
		missing = append(missing, "read as "+brief(m)+", want main memory")
	}
	return missing, n
}

// formatByID says what the prefix of an id promises: format, kind.
var formatByID = map[string][2]string{
	"accel": {"accelerate", "oom-gave-up"}, "async": {"async", "oom"}, "cpu": {"cpu", "host-oom"}, "cublas": {"cublas", "library-oom"},
	"cudaerr": {"driver", "library-oom"}, "cudnn": {"cudnn", "library-oom"}, "cufft": {"cufft", "library-oom"}, "hip": {"v22-exp", "oom"},
	"host-dmesg": {"kernel", "host-oom"}, "host-kill": {"", "host-oom"}, "host-shm": {"worker-shm", "shm-oom"}, "host-slurm": {"", "host-oom"},
	"jax": {"jax", "oom"}, "mps": {"mps", "oom"}, "mps-buf": {"mps-buffer", "oom"}, "nccl": {"nccl", "library-oom"}, "npu": {"v1-split", "oom"},
	"nvml": {"nvml", "library-oom"}, "short": {"short", "oom"}, "tf": {"tensorflow", "oom"}, "thc": {"thc", "oom"}, "triton": {"triton", "not-an-oom"},
	"v1-cached": {"v1-cached", "oom"}, "v1-reserved": {"v1-reserved", "oom"}, "v1-split": {"v1-split", "oom"}, "v21-typo": {"v21-typo", "oom"},
	"v22-1eb": {"v22-1eb", "oom"}, "v22-exp": {"v22-exp", "oom"}, "vllm": {"vllm", "oom-refused"}, "xpu": {"", "oom"},
}

var (
	sizeText   = regexp.MustCompile(`(\d+(?:\.\d+)?)\s*(bytes|[KMGT]iB|[kMGT]B)\b`)
	otherTexts = map[string]*regexp.Regexp{
		"device":  regexp.MustCompile(`(?:[GN]PU\s+|GPU=|device:GPU:|on device |device ordinal |\d+:\d+ \[)(\d+)`),
		"pid":     regexp.MustCompile(`(?:Process |pid\(s\) |\bpid:? ?=?|Killed process |line \d+:\s+)(\d+)`),
		"code":    regexp.MustCompile(`exitcode: (-?\d+)`),
		"rank":    regexp.MustCompile(`(?:local_rank: |task )(\d+)`),
		"shape":   regexp.MustCompile(`shape\[([\d,]+)\]`),
		"bytes":   regexp.MustCompile(`(?:Required: |Hardware limit: )(\d+)`),
		"free":    regexp.MustCompile(`device \(([\d.]+)/`),
		"share":   regexp.MustCompile(`utilization \(([\d.]+),`),
		"events":  regexp.MustCompile(`Detected (\d+) oom`),
		"stepid":  regexp.MustCompile(`oom-kill.*StepId=(\d+\.\w+)`),
		"advice":  regexp.MustCompile(`setting ((?:PYTORCH\w+=expandable_segments:True)|max_split_size_mb)`),
		"backend": regexp.MustCompile(`\b(HIP|XPU|NPU|MPS|CUDA)(?: backend)? out of memory`),
	}
	// notOurs is what stands beside a message: what is left after the kernel's reaper, a web page's statistics.
	notOurs = regexp.MustCompile(`(?m)^.*oom_reaper.*$|^A: .*Sys: .*$|If you encounter CUDA out of memory.*$`)
)

func missingNumbers(t *testing.T, id, text string) ([]string, int) {
	t.Helper()
	log, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Messages) != 1 {
		return []string{fmt.Sprintf("%d messages", len(log.Messages))}, 0
	}
	m := log.Messages[0]
	var missing []string
	want, ok := formatByID[id[:strings.LastIndexByte(id, '-')]]
	if !ok || string(m.Kind) != want[1] || want[0] != "" && m.Format != want[0] {
		missing = append(missing, fmt.Sprintf("read as %s %s, want %v", m.Kind, m.Format, want))
	}
	have := everyFact(m)
	ours := notOurs.ReplaceAllString(text, "")
	n := 0
	for _, s := range sizeText.FindAllStringSubmatch(ours, -1) {
		n++
		if !have["size "+s[1]+" "+s[2]] {
			missing = append(missing, "no size "+s[0])
		}
	}
	for name, expression := range otherTexts {
		for _, s := range expression.FindAllStringSubmatch(ours, -1) {
			n++
			if !have[name+" "+strings.ToLower(s[1])] {
				missing = append(missing, "no "+name+" "+s[1])
			}
		}
	}
	return missing, n
}

func everyFact(m Message) map[string]bool {
	have := map[string]bool{
		"device " + strconv.Itoa(m.Device): true, "pid " + strconv.Itoa(m.Host.PID): true, "code " + strconv.Itoa(m.Host.ExitCode): true,
		"rank " + strconv.Itoa(m.Rank): true, "share " + strconv.FormatFloat(m.Utilization, 'f', -1, 64): true,
		"events " + strconv.Itoa(m.Host.Events): true, "stepid " + m.Host.Step: true, "advice " + strings.ToLower(m.Advice): true, "backend " + m.Backend: true,
	}
	amounts := []Amount{m.Requested, m.Capacity, m.Free, m.Process, m.Allocated, m.Active, m.Reserved, m.ReservedUnallocated, m.PrivatePools,
		m.OtherAllocations, m.Allowed, m.Host.Virtual, m.Host.Anonymous, m.Host.FileBacked, m.Host.Shmem, m.Host.PageTables}
	for _, p := range m.Others {
		have["pid "+strconv.Itoa(p.PID)] = true
		amounts = append(amounts, p.Held)
	}
	for _, a := range amounts {
		have["size "+a.Text] = true
		have["bytes "+strconv.Itoa(int(a.Bytes))] = true
		have["size "+strconv.Itoa(int(a.Bytes))+" B"] = true
		number, _, _ := strings.Cut(a.Text, " ")
		have["free "+number] = true
	}
	var dims []string
	for _, n := range m.Shape {
		dims = append(dims, strconv.FormatInt(n, 10))
	}
	have["shape "+strings.Join(dims, ",")] = true
	return have
}
