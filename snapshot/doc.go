// Package snapshot reads PyTorch CUDA memory snapshots.
//
// It takes what torch.cuda.memory._dump_snapshot wrote (pickle protocols 2 to 5 by CPython or by torch's C++
// pickler), the same shape as JSON, the page that _memory_viz.py makes of it, or the bare list of segments of
// PyTorch 1.13, plain or compressed with gzip, zstd or xz. Out comes a [Snapshot]: the segments, and the history
// of every device as columns with interned stacks.
//
//	s, err := snapshot.Read(file)
//	if err != nil { … }
//	for i, t := range s.Traces {
//		fmt.Println("device", i, "has", t.Len(), "events")
//	}
//
// Nothing in a file is ever executed: a pickle that asks for a class, a call or a persistent object is refused.
// A file that decompresses or unpacks to far more than a snapshot of its size could is refused as well.
//
// # Errors
//
// Every error of [Read] is one of these, by errors.Is:
//
//   - [ErrFormat]: the input is not a memory snapshot, or a field of it cannot be what PyTorch wrote
//   - [ErrUnsafe]: it is a pickle that would run code; errors.As with [UnsafeError] gives the offset and the opcode
//   - [ErrTruncated]: it ends too early
//   - [ErrTooLarge]: it needs more than [Limits] allow
//
// or an error of the reader that it was given.
//
// # What a snapshot means
//
// Sizes are bytes. An event of the history has an action, an address, a size, a stream and a stack; the meaning of
// each action is that of PyTorch's CUDACachingAllocator. Field names and versions:
// https://github.com/pytorch/pytorch/blob/v2.11.0/torch/csrc/cuda/memory_snapshot.cpp (the pickle written from C++) and
// https://github.com/pytorch/pytorch/blob/v2.11.0/torch/csrc/cuda/Module.cpp (the one written from Python).
// Files of PyTorch 1.13 to 2.15 are read.
package snapshot
