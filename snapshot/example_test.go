package snapshot_test

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/plimsoll/plimsoll/snapshot"
)

func ExampleRead() {
	f, err := os.Open("../testdata/snapshots/oom-model-load.pickle.gz")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	s, err := snapshot.Read(f)
	if err != nil {
		fmt.Println(err)
		return
	}
	for device := range s.Traces {
		t := &s.Traces[device]
		for i, action := range t.Action {
			if action != snapshot.ActionOOM {
				continue
			}
			fmt.Printf("device %d ran out of memory at event %d of %d: %d bytes asked for, %d free\n", device, i, t.Len(), t.Size[i], t.Addr[i])
			for _, id := range s.Stacks.Stack(t.Stack[i]) {
				if frame := s.Stacks.Frames[id]; strings.HasSuffix(frame.File, ".py") && !strings.Contains(frame.File, "site-packages") {
					fmt.Printf("  %s:%d %s\n", frame.File[strings.LastIndex(frame.File, "/")+1:], frame.Line, frame.Function)
					break
				}
			}
		}
	}
	// Output:
	// device 0 ran out of memory at event 124 of 125: 234881024 bytes asked for, 141082755072 free
	//   train.py:79 make_lm
}

func ExampleRead_errors() {
	_, err := snapshot.Read(strings.NewReader("\x80\x04cos\nsystem\n."))
	var unsafe *snapshot.UnsafeError
	switch {
	case errors.As(err, &unsafe):
		fmt.Printf("refused: %s at byte %d would run code\n", unsafe.Opcode, unsafe.Offset)
	case errors.Is(err, snapshot.ErrFormat):
		fmt.Println("this is something else")
	case errors.Is(err, snapshot.ErrTruncated):
		fmt.Println("the file was cut off")
	}
	// Output: refused: GLOBAL at byte 2 would run code
}

func ExampleSniff() {
	fmt.Println(snapshot.Sniff([]byte("\x80\x04}")), snapshot.Sniff([]byte("Traceback (most recent call last):")))
	// Output: pickle text
}

func ExampleLimits_Read() {
	_, err := snapshot.Limits{Memory: 1 << 10}.Read(strings.NewReader(`{"device_traces":[[` + strings.Repeat(`{"action":"alloc","size":512},`, 99) + `{}]]}`))
	fmt.Println(errors.Is(err, snapshot.ErrTooLarge))
	// Output: true
}
