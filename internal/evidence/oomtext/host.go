package oomtext

import (
	"bytes"
	"strings"

	"github.com/plimsoll/plimsoll/internal/units"
)

// readCPU reads PyTorch's allocator of main memory (c10/core/impl/alloc_cpu.cpp; TH before 1.0).
func readCPU(t squashed, at int) (span, bool) {
	m := newMessage(HostOOM, "cpu")
	m.Backend = "cpu"
	amount, end, ok := t.amountAt(at + len("youtriedtoallocate"))
	if !ok {
		return span{}, false
	}
	m.Requested = amount
	if i := t.find("(cannotallocatememory", end, end+40); i >= 0 {
		end = i + len("(cannotallocatememory")
	}
	start := at
	if i := strings.LastIndex(t.before(at, 160), "[enforcefailat"); i >= 0 {
		start = at - len(t.before(at, 160)) + i
	}
	m.Class, start = t.classBefore(start)
	return span{&m, start, end}, true
}

// readNumPy reads "Unable to allocate 3.20 GiB for an array with shape (1, 2) and data type float32".
func readNumPy(t squashed, at int) (span, bool) {
	m := newMessage(HostOOM, "numpy")
	m.Library, m.Backend = "numpy", "cpu"
	amount, end, ok := t.amountAt(at + len("unabletoallocate"))
	sized := ok || t.has(end, "arraywithshape(") // 1.17 gives the shape alone
	if !sized || t.find("array", end, end+40) < 0 && !strings.HasSuffix(t.s[:at], "error:") {
		return span{}, false
	}
	m.Requested = amount
	if i := t.find("withshape(", end, end+40); i >= 0 {
		m.Shape, end = t.shapeAt(i+len("withshape("), ')')
	}
	if i := t.find("datatype", end, end+16); i >= 0 {
		i += len("datatype")
		end = i
		for end < len(t.s) && end-i < 12 && (letter(t.s[end]) || digit(t.s[end])) && (end == i || !t.breaks(end)) {
			end++
		}
		m.DType = t.s[i:end]
	}
	if !m.Requested.Known {
		m.Requested = tensorBytes(m.Shape, numpySizes[m.DType])
	}
	start := at
	m.Class, start = t.classBefore(at)
	return span{&m, start, end}, true
}

// numpySizes are the bytes of an element.
var numpySizes = map[string]units.Bytes{
	"float64": 8, "float32": 4, "float16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1, "object": 8,
	"complex64": 8, "complex128": 16,
}

// readHostError reads errors of main memory that come without numbers.
func readHostError(t squashed, at int) (span, bool) {
	m := newMessage(HostOOM, "host-error")
	m.Backend = "cpu"
	end := at
	if oneOf(t.s[at:min(len(t.s), at+200)], []string{"cuda", "rmm", "gpu", "device"}) && !t.has(at, "cannotallocate") {
		return span{}, false // device memory: CUDA's words beat bad_alloc, which its libraries throw
	}
	switch {
	case t.has(at, "memoryerror"):
		end = at + len("memoryerror")
		c := t.rawAfter(end - 1)
		if t.rawBefore(at) != '\n' || c != '\n' && c != ':' || t.raw[t.pos[at]] != 'M' {
			return span{}, false
		}
		m.Class = "MemoryError"
		return span{&m, at, end}, true
	case t.has(at, "std::badalloc"):
		end = at + len("std::badalloc")
	default:
		end = at + len("cannotallocatememory")
		if quotedName(t, at) && !strings.HasSuffix(t.s[:at], ":") {
			return span{}, false
		}
	}
	start := at
	m.Class, start = t.classBefore(at)
	return span{&m, start, end}, true
}

// readKernel reads the kernel's report of a process it killed (mm/oom_kill.c, 3.x to 6.x).
func readKernel(t squashed, at int) (span, bool) {
	m := newMessage(HostOOM, "kernel")
	m.Library = "kernel"
	to := min(len(t.s), at+500)
	if t.has(at, "oom-kill:") {
		i := t.find("task=", at, to)
		if i < 0 {
			return span{}, false
		}
		end := i + len("task=")
		if comma := t.find(",pid=", end, end+40); comma >= 0 {
			m.Host.Command = t.rawText(end, comma)
			m.Host.PID, end = t.pidAt(comma + len(",pid="))
		}
		return span{&m, at, end}, true
	}
	i := t.find("process", at, at+40)
	if i < 0 {
		return span{}, false
	}
	pid, end, ok := t.intAt(i + len("process"))
	if !ok {
		return span{}, false
	}
	m.Host.PID, m.Host.Signal = pid, "SIGKILL"
	if stop := t.find(")", end, end+40); stop >= 0 && (t.has(end, "(") || t.has(end, ",")) {
		open := t.find("(", end, stop+1)
		m.Host.Command = t.rawText(open+1, stop)
		end = stop + 1
	}
	for _, field := range []struct {
		anchor string
		amount *Amount
	}{
		{"total-vm:", &m.Host.Virtual}, {"anon-rss:", &m.Host.Anonymous}, {"file-rss:", &m.Host.FileBacked},
		{"shmem-rss:", &m.Host.Shmem}, {"pgtables:", &m.Host.PageTables},
	} {
		end = max(end, t.amountBehind(field.anchor, end, min(to, end+40), field.amount))
	}
	return span{&m, at, end}, true
}

// readSlurm reads slurmstepd's count of kills in a step's cgroup.
func readSlurm(t squashed, at int) (span, bool) {
	m := newMessage(HostOOM, "slurm")
	m.Library = "slurm"
	start := at
	for start > 0 && digit(t.s[start-1]) {
		start--
	}
	m.Host.Events, _ = t.pidAt(start)
	end := at + len("oomkillevent")
	if i := t.find("stepid=", end, end+30); i >= 0 {
		i += len("stepid=")
		end = i
		for end < len(t.s) && (digit(t.s[end]) || t.s[end] == '.' && end+1 < len(t.s) && (digit(t.s[end+1]) || t.has(end, ".batch"))) {
			end++
		}
		if t.has(end, "batch") {
			end += len("batch")
		}
		m.Host.Step = t.s[i:end]
	}
	return span{&m, start, end}, true
}

// readSrun reads "srun: error: node: task 0: Out Of Memory".
func readSrun(t squashed, at int) (span, bool) {
	head := t.before(at, 80)
	i := strings.LastIndex(head, "srun:error:")
	task := strings.LastIndex(head, "task")
	if i < 0 || task < i {
		return span{}, false
	}
	m := newMessage(HostOOM, "slurm")
	m.Library = "slurm"
	if n, next, ok := t.intAt(at - len(head) + task + len("task")); ok && t.has(next, ":") {
		m.Rank = n
	}
	return span{&m, at - len(head) + i, at + len("outofmemory")}, true
}

// readWorkerKilled reads how a DataLoader reports the end of a worker (torch/csrc/DataLoader.cpp).
func readWorkerKilled(t squashed, at int) (span, bool) {
	m := newMessage(HostOOM, "worker-killed")
	m.Library, m.Host.Signal = "dataloader", "SIGKILL"
	end := at + len("iskilledbysignal:")
	switch {
	case t.has(end, "buserror"):
		m.Kind, m.Format, m.Host.Signal = SharedOOM, "worker-shm", "SIGBUS"
		end += len("buserror")
	case t.has(end, "killed"):
		m.Certain = false
		end += len("killed")
	default:
		return span{}, false // a segmentation fault or an abort is no want of memory
	}
	start := at
	if i := t.find("dataloaderworker(pid", max(0, at-50), at); i >= 0 {
		m.Host.PID, _ = t.pidAt(i + len("dataloaderworker(pid"))
		m.Class, start = t.classBefore(i)
	}
	return span{&m, start, end}, true
}

// readWorkerGone reads "DataLoader worker (pid(s) 12, 13) exited unexpectedly": a death without a cause.
func readWorkerGone(t squashed, at int) (span, bool) {
	i := t.find("dataloaderworker(pid", max(0, at-200), at)
	if i < 0 {
		return span{}, false
	}
	digits := i + len("dataloaderworker(pid")
	if t.has(digits, "(s)") {
		digits += len("(s)")
	}
	pid, _, ok := t.intAt(digits)
	if !ok {
		return span{}, false
	}
	m := newMessage(HostOOM, "worker-gone")
	m.Library, m.Certain, m.Host.PID = "dataloader", false, pid
	var start int
	m.Class, start = t.classBefore(i)
	return span{&m, start, at + len("exitedunexpectedly")}, true
}

// readShared reads what running out of /dev/shm looks like (torch/utils/data/_utils, ATen/MapAllocator.cpp).
func readShared(t squashed, at int) (span, bool) {
	m := newMessage(SharedOOM, "worker-shm")
	m.Library = "dataloader"
	end := at
	switch {
	case t.has(at, "unexpectedbuserror"):
		end = at + len("unexpectedbuserror")
		m.Host.Signal = "SIGBUS"
	case t.has(at, "unabletommap"):
		amount, next, ok := t.amountAt(at + len("unabletommap"))
		if !ok {
			return span{}, false
		}
		m.Requested, end = amount, next
		if i := t.find("cannotallocatememory", end, end+80); i >= 0 {
			end = i + len("cannotallocatememory")
		}
	default:
		end = t.find("</torch", at, at+60)
		if end < 0 {
			return span{}, false
		}
		if t.find("toomanyopenfiles", end, end+80) >= 0 {
			m.Kind, m.Format = NotAnOOM, "open-files"
		}
	}
	start := at
	m.Class, start = t.classBefore(at)
	return span{&m, start, max(end, at+1)}, true
}

// readExit reads exit codes of a process that got SIGKILL, the signal of the OOM killer and of many others.
func readExit(t squashed, at int) (span, bool) {
	m := newMessage(HostOOM, "killed")
	m.Host.Signal, m.Certain = "SIGKILL", t.has(at, "oomkilled")
	end := at
	for end < len(t.s) && end-at < 20 && (letter(t.s[end]) || t.s[end] == ':' || t.s[end] == '.') {
		end++
	}
	if n, next, ok := t.intAt(end); ok {
		switch {
		case n == 9:
			n = -9
		case n != -9 && n != 137 && !m.Certain: // OOMKilled with code 0: a child was killed, the container ended well
			return span{}, false
		}
		m.Host.ExitCode, end = n, next
	}
	to := end + 60
	if i := t.find("localrank:", end, to); i >= 0 {
		m.Rank, end, _ = t.intAt(i + len("localrank:"))
	}
	for _, anchor := range []string{"(pid:", "bypid"} {
		if i := t.find(anchor, end, to); i >= 0 {
			m.Host.PID, end = t.pidAt(i + len(anchor))
			break
		}
	}
	return span{&m, at, max(end, at+1)}, true
}

// readKilled reads the shell's "Killed": alone on a line, or behind a line number and a pid.
func readKilled(t squashed, at int) (span, bool) {
	raw := int(t.pos[at])
	if t.raw[raw] != 'K' {
		return span{}, false
	}
	lineStart := bytes.LastIndexByte(t.raw[:raw], '\n') + 1
	head := bytes.Fields(t.raw[lineStart:raw])
	m := newMessage(HostOOM, "killed")
	m.Host.Signal, m.Certain = "SIGKILL", false
	end := at + len("killed")
	start := at
	if len(head) == 0 {
		c := t.rawAfter(end - 1)
		return span{&m, start, end}, c == '\n'
	}
	pid := number(head[len(head)-1])
	if pid < 0 || len(head) < 2 && !bytes.HasPrefix(head[0], []byte("[")) || !bytes.HasSuffix(head[len(head)-2], []byte(":")) {
		return span{}, false
	}
	m.Host.PID = pid
	return span{&m, start, end}, true
}

// readRay reads Ray's memory monitor, which kills tasks before the kernel does.
func readRay(t squashed, at int) (span, bool) {
	m := newMessage(HostOOM, "ray")
	m.Library = "ray"
	end := at + len("whichexceedsthememoryusagethreshold")
	if slash := strings.LastIndexByte(t.before(at, 40), '/'); slash >= 0 {
		i := at - len(t.before(at, 40)) + slash
		m.Process, _ = t.amountBefore(i)
		m.Capacity, _, _ = t.amountAt(i + 1)
	}
	if t.has(end, "of") {
		stop := t.numberEnd(end + 2)
		m.Utilization = decimal(t.s[end+2 : stop])
		end = stop
	}
	return span{&m, at, end}, true
}
