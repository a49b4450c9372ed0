package listener

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// served is a server with little room.
func served(t *testing.T, room int, handler http.Handler) string {
	t.Helper()
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(open, room)
	s := &http.Server{Handler: handler, ConnState: l.State, ReadHeaderTimeout: 2 * time.Second}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return "http://" + open.Addr().String()
}

// TestTwoHundredClientsAreAllAnswered asks with 200 clients at a time, many more than there is room for; PLIMSOLL_REQUESTS sets how often.
func TestTwoHundredClientsAreAllAnswered(t *testing.T) {
	t.Parallel()
	requests := 1000
	fmt.Sscan(os.Getenv("PLIMSOLL_REQUESTS"), &requests)
	body := make([]byte, 64<<10)
	url := served(t, 32, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}, Timeout: time.Minute}
	var failed, answered atomic.Int64
	var most atomic.Uint64
	next := make(chan struct{})
	var wait sync.WaitGroup
	for range 200 {
		wait.Go(func() {
			for range next {
				r, err := client.Get(url)
				if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) { // closed while the request was on its way: asked again, as browsers do (RFC 9110, 9.2.2)
					r, err = client.Get(url)
				}
				if err != nil {
					failed.Add(1)
					t.Log(err)
					continue
				}
				n, _ := io.Copy(io.Discard, r.Body)
				r.Body.Close()
				if n == int64(len(body)) {
					answered.Add(1)
				}
			}
		})
	}
	for i := range requests {
		if i%500 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse+m.StackInuse))
		}
		next <- struct{}{}
	}
	close(next)
	wait.Wait()
	if failed.Load() > 0 || answered.Load() != int64(requests) {
		t.Errorf("%d of %d requests answered, %d failed", answered.Load(), requests, failed.Load())
	}
	t.Logf("%d requests, 200 at a time: at most %d MB of heap, clients included", requests, most.Load()>>20)
}

func TestSilentClientsMakePlace(t *testing.T) {
	t.Parallel()
	url := served(t, 4, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	for range 12 {
		c, err := net.Dial("tcp", url[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	r, err := (&http.Client{Timeout: 20 * time.Second}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
}

// Clients that send a header letter by letter lose their place when its time is up.
func TestSlowHeadersMakePlace(t *testing.T) {
	t.Parallel()
	url := served(t, 2, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	for range 2 {
		c, err := net.Dial("tcp", url[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET / HT")
	}
	r, err := (&http.Client{Timeout: 20 * time.Second}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
}
