package oomtext

import "strings"

// readAsync reads the block of lines that the cudaMallocAsync backend prints
// (c10/cuda/CUDAMallocAsyncAllocator.cpp, 1.13+).
func readAsync(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "async")
	m.Backend = "cuda"
	start := at
	if i := t.find("allocationondevice", max(0, at-30), at); i >= 0 {
		m.Device, _, _ = t.intAt(i + len("allocationondevice"))
		m.Class, start = t.classBefore(i)
	}
	to := t.asyncEnd(at + 1)
	end := at + len("wouldexceedallowedmemory")
	if t.has(end, ".(outofmemory)") {
		end += len(".(outofmemory)")
	}
	for _, field := range []struct {
		anchor string
		amount *Amount
	}{
		{"currentlyallocated:", &m.Allocated},
		{"requested:", &m.Requested},
		{"devicelimit:", &m.Capacity},
		{"free(accordingtocuda):", &m.Free},
		{"memoryfraction):", &m.Allowed},
	} {
		end = max(end, t.amountBehind(field.anchor, end, to, field.amount))
	}
	m.Truncated = m.Allowed.Text == ""
	return span{&m, start, end}, true
}

func (t squashed) asyncEnd(from int) int {
	to := min(len(t.s), from+600)
	if i := t.find("wouldexceedallowedmemory", from, to); i >= 0 {
		to = i
	}
	return to
}

// amountBehind reads the size behind the first anchor in [from, to) and returns where it ends, or from.
func (t squashed) amountBehind(anchor string, from, to int, a *Amount) int {
	i := t.find(anchor, from, to)
	if i < 0 {
		return from
	}
	got, end, ok := t.amountAt(i + len(anchor))
	if !ok {
		return from
	}
	*a = got
	return end
}

// readReject reads the refusal of 2.12 and later that comes before the driver is asked at all.
func readReject(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "reject")
	m.Backend = "cuda"
	start := at
	if i := t.find("allocation", max(0, at-12), at); i >= 0 {
		start = i
	}
	head := strings.TrimRight(t.s[:start], ".")
	if b, ok := strings.CutSuffix(head, "outofmemory"); ok {
		for _, name := range backends {
			if strings.HasSuffix(b, name) {
				m.Backend, start = name, len(b)-len(name)
				break
			}
		}
	}
	m.Class, start = t.classBefore(start)
	end := at + len("waspreemptivelyrejected")
	i := t.find("requestedsize:", end, end+160)
	if i < 0 {
		m.Truncated = true
		return span{&m, start, end}, true
	}
	i += len("requestedsize:")
	var ok bool
	m.Requested, end, ok = t.amountAt(i)
	m.Truncated = !ok
	return span{&m, start, max(end, i)}, true
}

// readAttempt reads the warning 2.13 and later log for every attempt the driver refuses.
func readAttempt(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "attempt")
	m.Backend = "cuda"
	end := at + len("failedwithoomondevice")
	if n, next, ok := t.intAt(end); ok {
		m.Device, end = n, next
	}
	to := end + 160
	start := at
	for _, opening := range []string{"memoryallocation", "expandablesegments:memorymapping"} {
		if strings.HasSuffix(t.s[:at], opening) {
			start = at - len(opening)
		}
	}
	end = max(end, t.amountBehind("tryingtoallocate", end, to, &m.Requested))
	end = max(end, t.amountBehind("(free:", end, to, &m.Free))
	end = max(end, t.amountBehind("total:", end, to, &m.Capacity))
	m.Truncated = m.Capacity.Text == ""
	return span{&m, start, end}, true
}

// readMPS reads Apple's allocator (aten/src/ATen/mps/MPSAllocator.mm).
func readMPS(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "mps")
	m.Backend = "mps"
	var start int
	m.Class, start = t.classBefore(at)
	end := at + len("mpsbackendoutofmemory")
	to := min(len(t.s), end+500)
	if i := t.find("mpsbackendoutofmemory", end, to); i >= 0 {
		to = i
	}
	end = t.amountBehind("mpsallocated:", end, to, &m.Allocated)
	end = t.amountBehind("otherallocations:", end, to, &m.OtherAllocations)
	end = t.amountBehind("maxallowed:", end, to, &m.Allowed)
	end = t.amountBehind("triedtoallocate", end, to, &m.Requested)
	if strings.HasPrefix(t.s[end:], "onprivatepool") {
		m.Pool, end = "private", end+len("onprivatepool")
	} else if t.has(end, "onsharedpool") {
		m.Pool, end = "shared", end+len("onsharedpool")
	}
	if i := t.find("pytorchmpshighwatermarkratio=0.0", end, to); i >= 0 {
		m.Advice = "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0"
		end = i + len("pytorchmpshighwatermarkratio=0.0")
	}
	m.Truncated = m.Requested.Text == ""
	return span{&m, start, end}, true
}

// readMPSBuffer reads Metal's refusal of one buffer larger than the device allows.
func readMPSBuffer(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "mps-buffer")
	m.Backend = "mps"
	var start, end int
	var ok bool
	m.Class, start = t.classBefore(at)
	m.Requested, end, ok = t.amountAt(at + len("invalidbuffersize:"))
	return span{&m, start, end}, ok
}

// readTHC reads the messages of 0.1 to 0.4, which have no numbers (torch/lib/THC/THCGeneral.c).
func readTHC(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "thc")
	m.Backend = "cuda"
	end := at
	for end < len(t.s) && !t.has(end, "outofmemory") && end-at < 40 {
		end++
	}
	if !t.has(end, "outofmemory") {
		return span{}, false
	}
	end += len("outofmemory")
	start := at
	if t.has(at, "error=2") {
		if i := strings.LastIndex(t.before(at, 400), "thcudacheckfail"); i >= 0 {
			start = at - len(t.before(at, 400)) + i
		}
		return span{&m, start, end}, true
	}
	if i := t.find(".cu:", end, end+200); i >= 0 && t.has(end, "at") {
		_, end, _ = t.intAt(i + len(".cu:"))
	}
	m.Class, start = t.classBefore(at)
	return span{&m, start, end}, true
}

// readBare reads a device message that has lost, or never had, its numbers.
func readBare(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "short")
	m.Truncated = true
	end := at + len("outofmemory")
	if t.has(end, "error") {
		return readClassAlone(t, at)
	}
	start := at
	for _, b := range backends {
		if strings.HasSuffix(t.s[:at], b) {
			m.Backend, start = b, at-len(b)
			break
		}
	}
	if m.Backend == "" {
		return readSrun(t, at)
	}
	m.Class, start = t.classBefore(start)
	if m.Class != "" {
		return span{&m, start, end}, true
	}
	// Without a class only a sentence of its own counts: people and programs write about OOM, too.
	opens := t.rawBefore(start)
	closes := t.rawAfter(end - 1)
	alone := (opens == '\n' || opens == '*') && (closes == '\n' || closes == '.' || closes == '*' || closes == '!')
	return span{&m, start, end}, alone
}

// readClassAlone reads an exception class without a message we know: "torch.OutOfMemoryError: …".
func readClassAlone(t squashed, at int) (span, bool) {
	end := at + len("outofmemoryerror")
	for _, scope := range []string{"torch.cuda.", "torch."} {
		start := at - len(scope)
		if start < 0 || !t.has(start, scope) || !t.has(at, "outofmemoryerror:") {
			continue
		}
		if c := t.rawBefore(start); letter(c) || c == '"' || c == '\'' {
			return span{}, false
		}
		m := newMessage(DeviceOOM, "short")
		m.Class, m.Truncated = t.rawText(start, end), true
		for _, b := range backends {
			if t.has(end+1, b+"outofmemory") {
				m.Backend, end = b, end+1+len(b+"outofmemory")
				break
			}
		}
		return span{&m, start, end}, true
	}
	return span{}, false
}
