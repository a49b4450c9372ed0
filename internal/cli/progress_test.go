package cli

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// locked is a buffer that the progress line and the test share.
type locked struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func TestAPersonWhoWaitsIsToldAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err locked
		stop := progress(Env{Stderr: &err, StderrIsTerminal: true}, func() string { return "reading big.pickle" })
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if err.Len() != 0 {
			t.Errorf("after less than a second: %q", err.String())
		}
		time.Sleep(2 * time.Second)
		stop()
		stop() // twice does no harm
		if text := err.String(); !strings.Contains(text, "reading big.pickle") || !strings.HasSuffix(text, "\r\x1b[K") {
			t.Errorf("after three seconds: %q", text)
		}
	})
}

func TestAPipeIsNotTalkedTo(t *testing.T) {
	t.Parallel()
	var err bytes.Buffer
	stop := progress(Env{Stderr: &err}, func() string { return "busy" })
	stop()
	if err.Len() != 0 {
		t.Errorf("stderr got %q", err.String())
	}
}
