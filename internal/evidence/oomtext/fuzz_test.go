package oomtext

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// FuzzRead feeds any bytes; the results must stay within what the input can hold.
func FuzzRead(f *testing.F) {
	for _, format := range formats {
		f.Add([]byte(format.text))
	}
	f.Add([]byte(trace("train.py:41:<module>:loss.backward()") + oom))
	f.Add([]byte("[rank0]: " + oom + "> > [1,2]<stderr>:Killed\r\n\x1b[31mMemoryError\x1b[0m"))
	f.Fuzz(func(t *testing.T, data []byte) {
		log, err := Read(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if log.Bytes != int64(len(data)) && !bytes.HasPrefix(data, []byte("\xff\xfe")) && !bytes.HasPrefix(data, []byte("\xfe\xff")) {
			t.Fatalf("%d bytes of %d", log.Bytes, len(data))
		}
		again, _ := Read(bytes.NewReader(data))
		if len(again.Messages) != len(log.Messages) {
			t.Fatal("not deterministic")
		}
		for _, m := range log.Messages {
			if m.Kind == "" || m.Format == "" || m.Line < 1 || m.Offset < 0 || m.Offset > log.Bytes || m.Device < -1 || m.Rank < -1 || m.Host.PID < 0 || m.Device > 1<<31 || m.Rank > 1<<31 {
				t.Fatalf("%+v", m)
			}
			for _, a := range []Amount{m.Requested, m.Capacity, m.Free, m.Process, m.Allocated, m.Reserved, m.ReservedUnallocated, m.PrivatePools, m.Allowed} {
				if a.Bytes < 0 || a.Within < 0 || !a.Known && a.Bytes != 0 {
					t.Fatalf("%+v", a)
				}
			}
			m.Phase()
			m.UserFrame()
			m.Self()
			for _, tb := range m.Tracebacks {
				for _, frame := range tb.Frames {
					if !utf8.ValidString(frame.File) {
						t.Fatalf("%q", frame.File)
					}
				}
			}
		}
	})
}
