package runner

import "sync"

// tailSize is how much of a command's errors is kept: what ends a program stands at the end.
const tailSize = 1 << 20

// Tail keeps the end of what is written to it.
type Tail struct {
	mu   sync.Mutex
	data []byte
}

// Write never fails and never waits.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p[max(0, len(p)-tailSize):]...)
	if over := len(t.data) - tailSize; over > tailSize { // moved only once in a while
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// Bytes is what is kept.
func (t *Tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte(nil), t.data[max(0, len(t.data)-tailSize):]...)
}
