package oomtext

import "strings"

// longest is how far behind its first words a message of PyTorch's allocators may reach, in squashed bytes:
// 700 of text and a sentence of 40 for each process on the device.
const longest = 4000

// backends that PyTorch's allocators name in front of "out of memory".
var backends = []string{"cuda", "hip", "xpu", "npu", "mps", "musa", "mlu", "hpu", "gcu", "cpu"}

// readTried reads what follows "Tried to allocate", the words all device allocators of PyTorch share
// (c10/cuda/CUDACachingAllocator.cpp and its children for HIP, XPU and NPU).
func readTried(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "")
	start, lead := m.readLead(t, at)
	after := at + len("triedtoallocate")
	if strings.HasSuffix(t.before(at, 3), "you") || strings.Contains(t.before(at, 120), "maxallowed") {
		return span{}, false // the CPU's and MPS's own
	}
	if lead && t.has(after, "morethan1ebmemory") {
		m.Format = "v22-1eb"
		return span{&m, start, after + len("morethan1ebmemory")}, true
	}
	to := t.messageEnd(after)
	var end int
	var ok bool
	if m.Requested, end, ok = t.amountAt(after); !ok {
		m.Format, m.Truncated = "short", true
		return span{&m, start, after}, lead
	}
	switch {
	case t.find("hasatotalcapac", end, to) >= 0:
		end = m.readSentences(t, end, to)
	case t.find("totalcapacity", end, to) >= 0:
		end = m.readParenthesis(t, end, to)
	case !lead:
		return span{}, false
	default:
		m.Format, m.Truncated = "short", true
		if t.has(end, ".gpu") {
			// 2.3 prints the device as a raw character: 0 is the NUL at which C++'s what() ends.
			m.Format, end = "v22-exp", end+len(".gpu")
			m.cutAtNUL = end == len(t.s) || !t.has(end, "0")
		}
	}
	if advice, stop := t.adviceIn(end, to); advice != "" {
		m.Advice, end = advice, stop
	}
	m.expandFormat()
	return span{&m, start, min(end, len(t.s))}, true
}

// messageEnd returns where a message that has reached from must be over: at the next message or traceback.
func (t squashed) messageEnd(from int) int {
	to := min(len(t.s), from+longest)
	for _, next := range []string{"triedtoallocate", "outofmemory", "traceback(mostrecentcall"} {
		if i := t.find(next, from, to); i >= 0 {
			to = i
		}
	}
	return to
}

// readLead reads class and backend in front of "Tried to allocate" and tells whether there is a lead at all.
func (m *Message) readLead(t squashed, at int) (int, bool) {
	head := strings.TrimRight(t.s[:at], ".,:;!")
	m.Backend = "cuda"
	if i := strings.LastIndex(t.before(at, 100), "cannotallocatememoryblock"); i >= 0 {
		// Intel's extension for PyTorch before the XPU backend moved upstream.
		m.Backend, m.Format = "xpu", "xpu-block"
		start := len(t.s[:at]) - len(t.before(at, 100)) + i
		if p := t.find("currentplatform", max(0, start-20), start); p >= 0 {
			start = p
		}
		t.amountBehind("largerthan", start, at, &m.Allowed)
		m.Class, start = t.classBefore(start)
		return start, true
	}
	if !strings.HasSuffix(head, "outofmemory") {
		return at, false
	}
	start := len(head) - len("outofmemory")
	for _, b := range backends {
		if strings.HasSuffix(t.s[:start], b) {
			m.Backend = b
			start -= len(b)
			break
		}
	}
	m.Class, start = t.classBefore(start)
	return start, true
}

// readSentences reads the form of 2.1 and later.
func (m *Message) readSentences(t squashed, from, to int) int {
	m.Format = "v22-exp"
	capacity := t.find("hasatotalcapac", from, to)
	m.Device = t.deviceBefore(capacity)
	m.charDevice = capacity > 0 && t.s[capacity-1] < ' '
	end := capacity + len("hasatotalcapac")
	if t.has(end, "tyof") {
		m.Format = "v21-typo"
	}
	if i := t.find("of", end, end+6); i >= 0 {
		m.Capacity, end, _ = t.amountAt(i + 2)
	}
	reach := func(anchor string, a *Amount) {
		if i := t.find(anchor, from, to); i >= 0 {
			if got, stop, ok := t.amountAt(i + len(anchor)); ok {
				*a = got
				end = max(end, stop)
			}
		}
	}
	ending := func(anchor string, a *Amount) {
		if i := t.find(anchor, from, to); i >= 0 {
			if got, ok := t.amountBefore(i); ok {
				*a = got
				end = max(end, i+len(anchor))
			}
		}
	}
	reach("ofwhich", &m.Free)
	ending("isfree", &m.Free)
	end = max(end, m.readProcesses(t, from, to))
	ending("allowed;", &m.Allowed)
	reach("oftheallocatedmemory", &m.Allocated)
	ending("isallocatedbypytorch", &m.Allocated)
	reach("bypytorch,with", &m.PrivatePools)
	ending("allocatedinprivatepools", &m.PrivatePools)
	ending("isreservedbypytorchbutunallocated", &m.ReservedUnallocated)
	m.Truncated = m.ReservedUnallocated.Text == ""
	if m.Allocated.Known && m.ReservedUnallocated.Known {
		m.Reserved = sum(m.Allocated, m.ReservedUnallocated)
	}
	return end
}

// readProcesses reads "Process N has X memory in use" and "this process has X memory in use", in any order:
// they stand as NVML lists the processes.
func (m *Message) readProcesses(t squashed, from, to int) int {
	end := from
	for i := t.find("process", from, to); i >= 0; i = t.find("process", i+1, to) {
		at := i + len("process")
		pid, next, named := t.intAt(at)
		if !named {
			next = at
		}
		if !t.has(next, "has") {
			continue
		}
		held, stop, ok := t.amountAt(next + len("has"))
		if !ok {
			continue
		}
		if held.Bytes == 0 {
			held.Known = false // a container that cannot see what processes hold
		}
		if named {
			m.Others = append(m.Others, Process{pid, held})
		} else {
			m.Process = held
		}
		if t.has(stop, "memoryinuse") {
			stop += len("memoryinuse")
		}
		end = stop
	}
	return end
}

// readParenthesis reads the form of 1.0 to 2.0, "(GPU 0; X total capacity; Y already allocated; …)".
func (m *Message) readParenthesis(t squashed, from, to int) int {
	end := from
	ending := func(anchor string, a *Amount) bool {
		for i := t.find(anchor, from, to); i >= 0; i = t.find(anchor, i+1, to) {
			if got, ok := t.amountBefore(i); ok {
				*a = got
				end = max(end, i+len(anchor))
				return true
			}
		}
		return false
	}
	ending("totalcapacity", &m.Capacity)
	if semicolon := t.find(";", from, to); semicolon >= 0 {
		m.Device = t.deviceBefore(semicolon)
		if t.find("(npu", from, semicolon) >= 0 {
			m.Backend = "npu"
		}
	}
	ending("alreadyallocated", &m.Allocated)
	ending("currentactive", &m.Active)
	ending("free", &m.Free)
	ending("allowed;", &m.Allowed)
	format := "v1-reserved"
	reserved := ending("reservedintotal", &m.Reserved)
	if !reserved && ending("cached", &m.Reserved) {
		// "cached" of 1.0 to 1.3 counts what is held and not in use (pytorch#13751).
		m.ReservedUnallocated, m.Reserved = m.Reserved, Amount{}
		format = "v1-cached"
	}
	if m.Format == "" {
		m.Format = format
	}
	m.Truncated = !reserved && format != "v1-cached"
	if t.has(end, "bypytorch)") {
		end += len("bypytorch)")
	}
	m.deriveReserved()
	return end
}

// deriveReserved completes the pair reserved / reserved but unallocated.
func (m *Message) deriveReserved() {
	if !m.Allocated.Known {
		return
	}
	switch {
	case m.Reserved.Known && !m.ReservedUnallocated.Known:
		m.ReservedUnallocated = difference(m.Reserved, m.Allocated)
	case m.ReservedUnallocated.Known && !m.Reserved.Known:
		m.Reserved = sum(m.Allocated, m.ReservedUnallocated)
	}
}

// sum and difference are derived amounts: they have no text of their own.
func sum(a, b Amount) Amount {
	return Amount{Bytes: a.Bytes + b.Bytes, Within: a.Within + b.Within, Known: true}
}

func difference(a, b Amount) Amount {
	return Amount{Bytes: max(0, a.Bytes-b.Bytes), Within: a.Within + b.Within, Known: true}
}

// deviceBefore reads "GPU 3" or "NPU 3" that ends at i. 2.3 prints the device as a character.
func (t squashed) deviceBefore(i int) int {
	start := i
	for start > 0 && digit(t.s[start-1]) {
		start--
	}
	if start == i && i >= 4 && t.s[i-1] < ' ' && strings.HasSuffix(t.s[:i-1], "gpu") {
		return int(t.s[i-1])
	}
	if start == i || start < 2 || t.s[start-2:start] != "pu" {
		return -1
	}
	n, _, ok := t.intAt(start)
	if !ok || n > 1<<16 {
		return -1
	}
	return n
}

// advices are the settings messages recommend, as squashed text spells them.
var advices = []struct{ squashed, setting string }{
	{"pytorchcudaallocconf=expandablesegments:true", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
	{"pytorchhipallocconf=expandablesegments:true", "PYTORCH_HIP_ALLOC_CONF=expandable_segments:True"},
	{"pytorchallocconf=expandablesegments:true", "PYTORCH_ALLOC_CONF=expandable_segments:True"},
	{"maxsplitsizemb", "max_split_size_mb"},
	{"emptycache", "torch.xpu.empty_cache()"},
}

// adviceIn finds the advice of a message and where the boilerplate after it ends.
func (t squashed) adviceIn(from, to int) (string, int) {
	to = min(to, from+800)
	for _, a := range advices {
		i := t.find(a.squashed, from, to)
		if i < 0 {
			continue
		}
		end := i + len(a.squashed)
		for _, tail := range []string{"pytorch-cuda-alloc-conf)", "#environment-variables)", "andpytorchcudaallocconf", "memorymanagement"} {
			if j := t.find(tail, end, to); j >= 0 {
				return a.setting, j + len(tail)
			}
		}
		return a.setting, end
	}
	return "", from
}

// expandFormat tells apart the forms that differ in their advice or backend.
func (m *Message) expandFormat() {
	if m.Format == "v1-reserved" && m.Advice == "max_split_size_mb" {
		m.Format = "v1-split"
	}
}
