package oomtext

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

// quietLog is a training log without a message: steps, warnings, progress bars, rank prefixes.
func quietLog(lines int) []byte {
	var b bytes.Buffer
	for i := range lines {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "2024-05-01 10:%02d:%02d,123 [INFO] train.py:214 - epoch 3 step %d loss=2.%04d lr=3.0e-04 mem=61.2GiB tok/s=18233\n", i/60%60, i%60, i, i%9999)
		case 1:
			fmt.Fprintf(&b, "[rank%d]: step %d: grad norm 1.0%d, clipped to 1.0, throughput 312.%d TFLOP/s per device\n", i%8, i, i%7, i%10)
		case 2:
			fmt.Fprintf(&b, "Epoch 3:  41%%|████      | %d/20000 [1:02:03<2:01:00,  1.31it/s, loss=2.33]\rEpoch 3:  41%%|████      | %d/20000 [1:02:04<2:01:00]\n", i, i+1)
		case 3:
			fmt.Fprintf(&b, "/opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py:295: FutureWarning: torch.cpu.amp.autocast(args...) is deprecated.\n")
		default:
			fmt.Fprintf(&b, "{'loss': 2.%d, 'grad_norm': 0.8, 'learning_rate': 1.9e-05, 'epoch': 0.%d, 'memory': 'allocated 41.2 GiB'}\n", i, i)
		}
	}
	return b.Bytes()
}

func BenchmarkReadingALogWithoutMessages(b *testing.B) {
	log := quietLog(200_000)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		found, err := Read(bytes.NewReader(log))
		if err != nil || len(found.Messages) != 0 {
			b.Fatal(len(found.Messages), err)
		}
	}
}

func BenchmarkReadingALogFullOfMessages(b *testing.B) {
	var log bytes.Buffer
	for i := range 5000 {
		fmt.Fprintf(&log, "[rank%d]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %d.00 MiB. GPU %d has a total capacity of 79.15 GiB of which 11.25 MiB is free.\n", i%8, i, i%8)
	}
	b.SetBytes(int64(log.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(bytes.NewReader(log.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadingAgainstHashing says how many times as long as SHA-256 over the same bytes a log takes: a number that does not depend on the machine's load.
func BenchmarkReadingAgainstHashing(b *testing.B) {
	log := quietLog(50_000)
	var reading, hashing time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := Read(bytes.NewReader(log)); err != nil {
			b.Fatal(err)
		}
		reading += time.Since(start)
		start = time.Now()
		sha256.Sum256(log)
		hashing += time.Since(start)
	}
	b.ReportMetric(float64(reading)/float64(hashing), "×sha256")
}
