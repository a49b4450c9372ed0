package oomtext

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/units"
)

// brief prints what a message says in one line, so that tests compare everything at once.
func brief(m Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", m.Kind, m.Format)
	word := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s=%s", name, strings.ReplaceAll(value, " ", ""))
		}
	}
	number := func(name string, n, unknown int) {
		if n != unknown {
			fmt.Fprintf(&b, " %s=%d", name, n)
		}
	}
	size := func(name string, a Amount) {
		switch {
		case a.Text != "":
			word(name, a.Text)
		case a.Known:
			fmt.Fprintf(&b, " %s=(%d)", name, a.Bytes)
		}
	}
	word("backend", m.Backend)
	word("library", m.Library)
	word("class", m.Class)
	number("device", m.Device, -1)
	number("rank", m.Rank, -1)
	size("requested", m.Requested)
	size("capacity", m.Capacity)
	size("free", m.Free)
	size("process", m.Process)
	for _, p := range m.Others {
		size(fmt.Sprintf("pid%d", p.PID), p.Held)
	}
	size("allocated", m.Allocated)
	size("active", m.Active)
	if m.Reserved.Text != "" {
		size("reserved", m.Reserved)
	}
	if m.ReservedUnallocated.Text != "" {
		size("unallocated", m.ReservedUnallocated)
	}
	size("pools", m.PrivatePools)
	size("other", m.OtherAllocations)
	size("allowed", m.Allowed)
	size("program", m.Program)
	word("pool", m.Pool)
	number("pid", m.Host.PID, 0)
	word("command", m.Host.Command)
	word("signal", m.Host.Signal)
	number("exit", m.Host.ExitCode, 0)
	number("events", m.Host.Events, 0)
	word("step", m.Host.Step)
	size("virtual", m.Host.Virtual)
	size("anonymous", m.Host.Anonymous)
	size("file", m.Host.FileBacked)
	size("shmem", m.Host.Shmem)
	size("pagetables", m.Host.PageTables)
	if len(m.Shape) > 0 {
		word("shape", fmt.Sprint(strings.Trim(strings.ReplaceAll(fmt.Sprint(m.Shape), " ", "x"), "[]")))
	}
	word("dtype", m.DType)
	if m.Utilization > 0 {
		fmt.Fprintf(&b, " share=%g", m.Utilization)
	}
	word("advice", m.Advice)
	word("torch", strings.TrimSuffix(m.Versions.String(), "–"))
	if m.Truncated {
		b.WriteString(" truncated")
	}
	if !m.Certain {
		b.WriteString(" uncertain")
	}
	return b.String()
}

func read(t *testing.T, text string) []Message {
	t.Helper()
	log, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return log.Messages
}

func TestEveryFormatIsReadWithAllItsNumbers(t *testing.T) {
	t.Parallel()
	for _, f := range formats {
		messages := read(t, f.text+"\n")
		if len(messages) != 1 {
			t.Errorf("%d messages in %q", len(messages), f.text)
			continue
		}
		if got := brief(messages[0]); got != f.want {
			t.Errorf("%s\n got %s\nwant %s", f.text, got, f.want)
		}
	}
}

func TestSizesCarryWhatTheirDecimalsLeaveOpen(t *testing.T) {
	t.Parallel()
	m := read(t, "CUDA out of memory. Tried to allocate 1.50 GiB (GPU 1; 8.00 GiB total capacity; 600 bytes already allocated; 12.5MiB free; 2 KiB cached)")[0]
	for _, c := range []struct {
		got           Amount
		bytes, within units.Bytes
	}{
		{m.Requested, 3 * units.GiB / 2, 5368710}, // half of 0.01 GiB, rounded up
		{m.Allocated, 600, 0},
		{m.Free, 25 * units.MiB / 2, 52429},
		{m.ReservedUnallocated, 2 * units.KiB, 512},
		{m.Reserved, 2648, 512},
	} {
		if !c.got.Known || c.got.Bytes != c.bytes || c.got.Within != c.within {
			t.Errorf("%+v, want %d ± %d", c.got, c.bytes, c.within)
		}
	}
}

func TestASizeTheDriverDoesNotKnowIsPrintedButNotKnown(t *testing.T) {
	t.Parallel()
	m := read(t, v2("capacity", "GPU 0", "Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. "))[0]
	if m.Process.Known || m.Process.Text != "17179869184.00 GiB" {
		t.Errorf("%+v", m.Process)
	}
}

func TestAProcessInAContainerIsRecognisedByWhatItHolds(t *testing.T) {
	t.Parallel()
	m := read(t, v2("capacity", "GPU 0", "Process 11 has 1.00 GiB memory in use. Process 12 has 21.00 GiB memory in use. "))[0]
	if self, ok := m.Self(); !ok || self.PID != 12 {
		t.Errorf("self %+v %v", self, ok)
	}
	m = read(t, v2("capacity", "GPU 0", "Process 11 has 20.50 GiB memory in use. Process 12 has 21.00 GiB memory in use. "))[0]
	if self, ok := m.Self(); ok {
		t.Errorf("two processes could be it, got %+v", self)
	}
	m = read(t, v2("capacity", "GPU 0", "Including non-PyTorch memory, this process has 21.00 GiB memory in use. Process 12 has 21.00 GiB memory in use. "))[0]
	if self, ok := m.Self(); ok {
		t.Errorf("the message names this process itself, got %+v", self)
	}
}

func TestTalkAboutMemoryIsNoMessage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"If you run into CUDA out of memory, lower --batch-size.",
		`    if "out of memory" in str(e):`,
		`    raise RuntimeError("CUDA out of memory")`,
		"except torch.cuda.OutOfMemoryError as e:",
		"    except (RuntimeError, MemoryError):",
		"INFO 12 jobs killed by their owners; memory error rate 0.01",
		"process exited with exitcode: 1, retrying",
		"I was Killed twice in this game",
		"DataLoader worker (pid 77) is killed by signal: Segmentation fault.",
		"raise RuntimeError('DataLoader worker (pid(s) {}) exited unexpectedly'.format(pids))",
		"we tried to allocate 3 engineers to this",
		"enum { CUBLAS_STATUS_SUCCESS = 0 }",
		"Free memory on device: plenty",
		"",
	} {
		for _, m := range read(t, text) {
			t.Errorf("%q read as %s", text, brief(m))
		}
	}
}
