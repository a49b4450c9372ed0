package oomtext

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestPublicMessagesAreReadInFull reads a file of messages people posted, one JSON object a line with "id"
// and "message". It is not part of the repository: PLIMSOLL_MESSAGES names it. What must be found is taken
// out of each text by expressions that share nothing with the reader.
func TestPublicMessagesAreReadInFull(t *testing.T) {
	path := os.Getenv("PLIMSOLL_MESSAGES")
	if path == "" {
		t.Skip("PLIMSOLL_MESSAGES names no file of messages")
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	total, right, numbers := 0, 0, 0
	for lines.Scan() {
		var row struct{ ID, Message string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		total++
		missing, n := missingNumbers(t, row.ID, row.Message)
		numbers += n
		if len(missing) == 0 {
			right++
			continue
		}
		t.Errorf("%s: %s\n%s", row.ID, strings.Join(missing, "; "), row.Message)
	}
	if lines.Err() != nil || total == 0 {
		t.Fatalf("%d messages read: %v", total, lines.Err())
	}
	t.Logf("%d of %d messages read in full, %d numbers", right, total, numbers)
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
