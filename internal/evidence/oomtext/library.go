package oomtext

import "strings"

// readDriver reads an out-of-memory error of a driver or runtime call: no allocator stood in between, so
// there are no numbers.
func readDriver(t squashed, at int) (span, bool) {
	m := newMessage(LibraryOOM, "driver")
	m.Library, m.Backend = "driver", "cuda"
	end := at
	for end < len(t.s) && (letter(t.s[end]) || t.s[end] == ':') && end-at < 40 && !strings.HasSuffix(t.s[at:end], "memory") {
		end++
	}
	switch {
	case t.has(at, "hip"):
		m.Backend = "hip"
	case t.has(at, "outofdevicememory"): // UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY of Intel's Unified Runtime
		m.Backend = "xpu"
	case t.has(at, "cudaerrormemoryallocation"):
		end = at + len("cudaerrormemoryallocation")
		if quotedName(t, at) {
			return span{}, false // an enumerator in source code or in "Search for `…'"
		}
	case strings.HasSuffix(t.s[:at], "acceleratorerror:"):
		m.Class = "torch.AcceleratorError"
	}
	var start int
	class, start := t.classBefore(at)
	if class != "" {
		m.Class = class
	}
	// The boilerplate behind it belongs to it; it names the enumerator since 2.9.
	if i := t.find("cudaerrormemoryallocation", end, end+120); i >= 0 {
		end = i + len("cudaerrormemoryallocation")
	}
	if i := t.find("device-sideassertions", end, end+420); i >= 0 && t.find("outofmemory", end, i) < 0 {
		end = i + len("device-sideassertions")
	}
	return span{&m, start, end}, true
}

func quotedName(t squashed, at int) bool {
	c := t.rawBefore(at)
	return c == '`' || c == '\'' || c == '"' || c == '.' || c == ':'
}

// libraries by the word their status codes start with.
var libraries = []struct{ prefix, name, backend string }{
	{"hipblas", "hipblas", "hip"}, {"rocblas", "rocblas", "hip"}, {"miopen", "miopen", "hip"},
	{"cublas", "cublas", "cuda"}, {"cudnn", "cudnn", "cuda"}, {"cusparse", "cusparse", "cuda"},
	{"cusolver", "cusolver", "cuda"}, {"curand", "curand", "cuda"},
}

// readLibrary reads the status codes libraries return when they cannot get device memory. NOT_INITIALIZED
// is one in disguise: creating the handle is the library's first allocation.
func readLibrary(t squashed, at int) (span, bool) {
	m := newMessage(LibraryOOM, "")
	start := at
	end := at
	for end < len(t.s) && letter(t.s[end]) && !strings.HasSuffix(t.s[at:end], "failed") &&
		!strings.HasSuffix(t.s[at:end], "initialized") && !strings.HasSuffix(t.s[at:end], "error") {
		end++
	}
	if t.has(at, "cufft") {
		m.Library, m.Backend = "cufft", "cuda"
	}
	for _, l := range libraries {
		if strings.HasSuffix(t.s[:at], l.prefix) {
			m.Library, m.Backend, start = l.name, l.backend, at-len(l.prefix)
			break
		}
	}
	if m.Library == "" {
		return span{}, false
	}
	m.Format = m.Library
	m.Certain = !t.has(at, "statusnotinitialized") && !t.has(at, "statusinternalerror") && !t.has(at, "cufftinternal")
	if i := t.find("gpu=", end, end+20); i >= 0 {
		m.Device, end, _ = t.intAt(i + len("gpu="))
	}
	for _, opening := range []string{"cudaerror:", "hiperror:", m.Library + "error:"} {
		if strings.HasSuffix(t.s[:start], opening) {
			start -= len(opening)
		}
	}
	m.Class, start = t.classBefore(start)
	return span{&m, start, end}, true
}

// readEngine reads cuDNN's failure to find an algorithm whose workspace it could get. Unsupported shapes and
// types fail the same way, so it is a suspicion only.
func readEngine(t squashed, at int) (span, bool) {
	m := newMessage(LibraryOOM, "cudnn")
	m.Library, m.Backend, m.Certain = "cudnn", "cuda", false
	start, end := at, at+len("unabletofindanengine")
	for _, opening := range []string{"getwas", "findwas"} {
		if strings.HasSuffix(t.s[:at], opening) {
			start = at - len(opening)
		}
	}
	if t.has(at, "unabletofindavalid") {
		end = at + len("unabletofindavalidcudnnalgorithm")
	}
	m.Class, start = t.classBefore(start)
	return span{&m, start, end}, true
}

// readNCCL reads NCCL's own lines: host:pid:tid [device] file:line NCCL WARN ….
func readNCCL(t squashed, at int) (span, bool) {
	m := newMessage(LibraryOOM, "nccl")
	m.Library, m.Backend = "nccl", "cuda"
	end := at
	start := at
	if t.has(at, "cudafailure") {
		end = t.find("memory'", at, at+40) + len("memory'")
	} else {
		for _, call := range []string{"calloc", "callocasync", "hostalloc"} {
			end = max(end, t.amountBehind(call, at, at+60, &m.Requested))
		}
		if end == at {
			return span{}, false
		}
	}
	head := t.before(at, 120)
	if open := strings.LastIndexByte(head, '['); open >= 0 && strings.Contains(head[open:], "nccl") {
		if n, next, ok := t.intAt(at - len(head) + open + 1); ok && t.has(next, "]") {
			m.Device, start = n, at-len(head)+open
		}
	}
	return span{&m, start, end}, true
}

// readNVML reads the assertion that fails when PyTorch builds its message and NVML cannot be loaded
// (c10/cuda/CUDACachingAllocator.cpp, 1.13 to 2.2): an OOM whose numbers were lost on the way.
func readNVML(t squashed, at int) (span, bool) {
	i := t.find("internalassertfailed", at, at+120)
	if i < 0 {
		return span{}, false
	}
	m := newMessage(LibraryOOM, "nvml")
	m.Library, m.Backend = "nvml", "cuda"
	var start int
	m.Class, start = t.classBefore(at)
	end := i + len("internalassertfailed")
	if j := t.find("cudacachingallocator.cpp", end, end+200); j >= 0 {
		end = j + len("cudacachingallocator.cpp")
	} else {
		m.Certain = false
	}
	return span{&m, start, end}, true
}

// readTriton reads the false friend: a kernel's blocks want more on-chip shared memory than a
// multiprocessor has. No amount of device memory helps.
func readTriton(t squashed, at int) (span, bool) {
	m := newMessage(NotAnOOM, "triton")
	m.Library = "triton"
	var start int
	m.Class, start = t.classBefore(at)
	end := at + len("outofresource:sharedmemory")
	if t.has(at, "uses") {
		return span{&m, start, at + len("usestoomuchshareddata")}, true
	}
	for _, field := range []struct {
		anchor string
		amount *Amount
	}{{"required:", &m.Requested}, {"hardwarelimit:", &m.Allowed}} {
		i := t.find(field.anchor, end, end+60)
		if i < 0 {
			m.Truncated = true
			continue
		}
		*field.amount, end, _ = t.countAt(i + len(field.anchor))
	}
	return span{&m, start, end}, true
}
