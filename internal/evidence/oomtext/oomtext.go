// Package oomtext reads out-of-memory messages out of any text into typed values.
//
// It takes text as people have it: one error line, a pasted forum post, a log of many gigabytes with time
// stamps, rank prefixes, colours, quotes, lines wrapped at any column and several ranks talking at once.
// It returns Messages: what was asked for, what there was, who held it, where in the user's code, and how
// exactly the text printed each number. Refused is only a reader that fails; text without a message is a
// Log without messages, a message cut in the middle keeps what it still says and is marked Truncated.
//
// Three ideas carry it. Templates are matched against the text without its white space, so a line break
// costs nothing wherever it falls. The triggers of all templates form one automaton that every byte
// passes once, so a log costs linear time and a window of memory. And every speaker of a log (a rank, a
// worker, a host) has a window of its own, so ranks that talk at once are read apart.
package oomtext

import (
	"io"

	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Kind says what ran out, as far as the text tells.
type Kind string

// The kinds of message.
const (
	DeviceOOM  Kind = "oom"         // a framework's device allocator says so itself
	LibraryOOM Kind = "library-oom" // a driver or library call failed because device memory ran out
	HostOOM    Kind = "host-oom"    // main memory, not the device
	SharedOOM  Kind = "shm-oom"     // /dev/shm, between DataLoader workers
	WorkerCUDA Kind = "worker-cuda" // CUDA used in a forked worker: no memory error, often met beside one
	NotAnOOM   Kind = "not-an-oom"  // looks like one and is none (Triton's on-chip shared memory)
	GaveUp     Kind = "oom-gave-up" // a batch-size finder met OOM at every size
	Refused    Kind = "oom-refused" // a program refused to start because too little device memory was free
	CacheFull  Kind = "kv-cache"    // a server has no room for its KV cache
	NoRoom     Kind = "no-room"     // a loader refused a model because it does not fit on the device
)

// Amount is a size as a message prints it. The zero value is a size the message does not give.
type Amount struct {
	Bytes units.Bytes
	// Within is the half width of what the printed decimals leave open: the true size is in
	// Bytes ± Within. It is zero where the message counts bytes.
	Within units.Bytes
	// Text is the size as printed, white space apart ("26.00 MiB").
	Text string
	// Known tells whether Bytes holds a size. A text that is not known is one of the 2^64 values drivers
	// use for "not available" (NVML_VALUE_NOT_AVAILABLE, seen under WSL) or "no limit".
	Known bool
}

// Process is another process a message names as a holder of device memory.
type Process struct {
	PID  int
	Held Amount
}

// Buffer is one of the largest allocations of a compiled program.
type Buffer struct {
	Size      Amount
	Shape     []int64
	Operation string // op_name, bounded
}

// Host is what messages about main memory say beside the request.
type Host struct {
	PID      int    // the process that died, 0 unknown
	Command  string // its name, as the kernel prints it
	Signal   string // "SIGKILL", "SIGBUS" or ""
	ExitCode int    // as printed (-9, 137), 0 unknown
	// Sizes the kernel prints for the process it killed.
	Virtual, Anonymous, FileBacked, Shmem, PageTables Amount
	Events                                            int    // oom-kill events slurmstepd counted
	Step                                              string // the Slurm step it names
}

// Message is one out-of-memory message.
type Message struct {
	Kind Kind
	// Format names the template. PyTorch's own: thc, v1-cached, v1-reserved, v1-split, v21-typo, v22-exp, v22-1eb,
	// short (numbers lost), reject, attempt, async, xpu-block, mps, mps-buffer. Libraries: driver, nccl, nvml,
	// triton and the names of the others (cublas …). Main memory: cpu, numpy, host-error, kernel, slurm, killed, ray,
	// worker-killed, worker-gone, worker-shm, open-files. Other stacks: tensorflow, jax, vllm, accelerate, forked-cuda.
	Format  string
	Backend string // cuda, hip, xpu, npu, mps, cpu or another a message names; "" unknown
	Library string // who speaks when it is not PyTorch's allocator: driver, cublas, nccl, jax …
	Class   string // exception class as printed, "" unknown
	// Certain is false where the text does not itself say that memory ran out (a bare SIGKILL).
	Certain bool
	Device  int // -1 unknown
	Rank    int // -1 unknown

	Requested           Amount // PyTorch: the segment it asked the driver for, not the tensor
	Capacity            Amount // of the device
	Free                Amount // of the device
	Process             Amount // this process, memory outside PyTorch included
	Allocated           Amount // blocks in use
	Active              Amount // NPU: blocks in use or waiting for a stream
	Reserved            Amount // held from the driver, in use or not
	ReservedUnallocated Amount // the part of Reserved not in use
	PrivatePools        Amount // CUDA graph pools
	OtherAllocations    Amount // MPS: outside PyTorch's allocator
	Allowed             Amount // a limit below the capacity
	Others              []Process
	Host                Host
	Program             Amount   // XLA: what the compiled program needs in all
	Largest             []Buffer // XLA: its largest buffers, largest first
	Shape               []int64  // TensorFlow, NumPy: the tensor that did not fit
	DType               string   // its type
	Utilization         float64  // vLLM: gpu_memory_utilization; Ray: memory threshold
	Pool                string   // MPS: "private" or "shared"

	// Advice is the allocator setting the message recommends ("" none).
	Advice    string
	Versions  torch.Span // PyTorch releases that print this very text
	Truncated bool       // the template goes on where the text ends

	Line    int   // where it starts, counted from 1
	Offset  int64 // byte offset of that line
	Text    string
	Repeats int // how often the same message came again
	// Tracebacks are the ones printed above it, in that order; the last ends in this message.
	Tracebacks []Traceback
	Scene      Scene
	Near       string // the text right around it, in lower case
	// Purpose is what the memory was for, where the words tell: weights, cache, compute, "".
	Purpose string
	// Tokens is what a server's KV cache would have to hold, and Room how many it can; 0 unknown.
	Tokens, Room int

	charDevice bool   // the device is printed as a raw character
	cutAtNUL   bool   // the text breaks off where 2.3 prints a NUL for the device
	lastLine   int    // where it ends
	borrowing  bool   // its end stood on a line without a prefix
	key        string // tells messages apart: speaker and text
}

// Log is what a text holds.
type Log struct {
	Messages []Message // in order of appearance
	Hints    []Hint    // warnings that bear on memory, each kind once
	Dropped  int       // messages beyond the first MaxMessages
	Lines    int
	Bytes    int64
}

// Hint is a warning of a library that bears on memory, printed long before a message or without one.
type Hint struct {
	Kind HintKind
	Line int    // where it stands first
	Text string // the line, bounded
}

// HintKind says what a warning is about.
type HintKind string

// The warnings known.
const (
	// HintNoInputGradient is torch/utils/checkpoint.py, check_backward_validity: a checkpointed layer gets no gradient.
	HintNoInputGradient HintKind = "checkpoint-no-grad"
	// HintCache is transformers: a KV cache was asked for together with checkpointing.
	HintCache HintKind = "checkpoint-use-cache"
)

// MaxMessages bounds what one log may hold; a loop that swallows OOMs prints the same few for ever.
const MaxMessages = 2000

// Read reads all messages of a text of any length. Memory stays bounded by a window for each speaker. UTF-16
// with a byte order mark, as PowerShell redirects it, is read as UTF-8, and offsets count that.
func Read(r io.Reader) (Log, error) {
	return newReader().read(r)
}

// Self returns the holder that is most likely this process itself: messages name it by a foreign pid
// where the process lives in a container (PyTorch compares getpid() with the pids NVML lists,
// c10/cuda/CUDACachingAllocator.cpp reportProcessMemoryInfo, 2.1+). It must hold at least what PyTorch reserved,
// and be the only one that does.
func (m Message) Self() (Process, bool) {
	if m.Process.Text != "" || !m.Allocated.Known {
		return Process{}, false
	}
	floor := m.Allocated.Bytes + m.ReservedUnallocated.Bytes - m.Allocated.Within - m.ReservedUnallocated.Within
	var self []Process
	for _, p := range m.Others {
		if p.Held.Known && p.Held.Bytes+p.Held.Within >= floor {
			self = append(self, p)
		}
	}
	if len(self) != 1 {
		return Process{}, false
	}
	return self[0], true
}
