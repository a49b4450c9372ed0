package oomtext

// How far apart two messages may stand and still report the same death.
const (
	eventLines = 60
	maxVoices  = 32 // messages that may stand in between
)

// joinEvents joins messages that report one event in several voices: THC's check and the exception it
// becomes, a worker's bus error and its DataLoader, the shell, slurmstepd and srun about one kill.
func joinEvents(messages []Message) []Message {
	var kept []Message
	for _, m := range messages {
		if i := earlierVoice(kept, m); i >= 0 {
			kept[i].absorb(m)
			continue
		}
		kept = append(kept, m)
	}
	return kept
}

// earlierVoice returns the latest message that reports the same event, or -1. Other ranks may have spoken
// in between.
func earlierVoice(kept []Message, m Message) int {
	for i := len(kept) - 1; i >= max(0, len(kept)-maxVoices); i-- {
		if kept[i].sameEvent(m) {
			return i
		}
	}
	return -1
}

func (m Message) sameEvent(next Message) bool {
	if next.Line-m.lastLine > eventLines || !agree(m.Rank, next.Rank, -1) {
		return false
	}
	if m.Format == "thc" {
		return next.Format == "thc" && m.Class == "" && next.Class != ""
	}
	if m.Kind != HostOOM && m.Library != "" && m.Library == next.Library && joined[m.Library] {
		return true
	}
	gone := next.Format == "worker-gone" || next.Format == "worker-shm"
	if m.Kind == SharedOOM {
		return gone && agree(m.Host.PID, next.Host.PID, 0)
	}
	return m.Kind == HostOOM && next.Kind == HostOOM && m.killed() && next.killed() && agree(m.Host.PID, next.Host.PID, 0)
}

// joined are the stacks that report one failure in several voices: the allocator, the loader, the program.
var joined = map[string]bool{"ggml": true, "tensorflow": true, "jax": true, "cann": true, "onnxruntime": true, "tensorrt": true, "paddle": true, "mxnet": true, "vllm": true, "sglang": true, "rmm": true}

// killed tells messages about a process that was killed from those of a request that failed.
func (m Message) killed() bool {
	switch m.Format {
	case "killed", "kernel", "slurm", "worker-killed", "worker-gone":
		return true
	}
	return false
}

func agree(a, b, unknown int) bool { return a == b || a == unknown || b == unknown }

// absorb adds to m what next says more.
func (m *Message) absorb(next Message) {
	if len(next.Tracebacks) > 0 {
		m.Tracebacks = next.Tracebacks
	}
	if m.Class == "" {
		m.Class = next.Class
	}
	if m.Rank < 0 {
		m.Rank = next.Rank
	}
	m.Certain = m.Certain || next.Certain
	for _, pair := range []struct{ to, from *Amount }{{&m.Requested, &next.Requested}, {&m.Free, &next.Free}, {&m.Capacity, &next.Capacity}, {&m.Allocated, &next.Allocated}, {&m.Allowed, &next.Allowed}} {
		exact := pair.from.Within == 0 && pair.to.Within > 0 && pair.from.Bytes-pair.to.Bytes <= pair.to.Within && pair.to.Bytes-pair.from.Bytes <= pair.to.Within
		if pair.from.Known && (!pair.to.Known || exact) {
			*pair.to = *pair.from
		}
	}
	if m.Device < 0 {
		m.Device = next.Device
	}
	if m.Purpose == "" {
		m.Purpose = next.Purpose
	}
	if len(m.Shape) == 0 && len(next.Shape) > 0 {
		m.Shape, m.DType, m.Purpose = next.Shape, next.DType, ""
	}
	m.lastLine = next.lastLine
	h, more := &m.Host, next.Host
	if more.Virtual.Known {
		h.Virtual, h.Anonymous, h.FileBacked, h.Shmem, h.PageTables = more.Virtual, more.Anonymous, more.FileBacked, more.Shmem, more.PageTables
	}
	h.PID = firstNonZero(h.PID, more.PID)
	h.ExitCode = firstNonZero(h.ExitCode, more.ExitCode)
	h.Events = firstNonZero(h.Events, more.Events)
	for _, pair := range []struct{ to, from *string }{{&h.Command, &more.Command}, {&h.Signal, &more.Signal}, {&h.Step, &more.Step}} {
		if *pair.to == "" {
			*pair.to = *pair.from
		}
	}
}

func firstNonZero(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}
