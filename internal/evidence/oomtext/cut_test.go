package oomtext

import (
	"strings"
	"testing"
)

// Messages that end inside a number: nothing is read from the part that is left but what it surely says.
func TestANumberCutInsideIsNoSize(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Out of memory error on GPU 1. Cannot allocate 2.5", "Out of memory error on GPU 1. Cannot allocate 2.", "Out of memory error on GPU 1. Cannot allocate 2",
		"XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 17.25G of 15.",
		"XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 17",
		"ggml_metal_buffer_init: error: failed to allocate buffer, size =  4096.", "ggml_metal_buffer_init: error: failed to allocate buffer, size =  4096",
	} {
		log, err := Read(strings.NewReader(text))
		if err != nil || len(log.Messages) != 1 {
			t.Errorf("%q: %d messages, %v", text, len(log.Messages), err)
		}
		for _, m := range log.Messages {
			for _, a := range []Amount{m.Requested, m.Capacity, m.Program} {
				if a.Known && a.Bytes < 1<<20 {
					t.Errorf("%q reads %s", text, a.Bytes)
				}
			}
		}
	}
}
