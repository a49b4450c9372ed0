package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serverMemory is what a server may hold while 200 clients ask at a time, its own program and the recording it shows included.
const serverMemory = 200 << 20

// TestServersAnswerTwoHundredClients asks the page and the metrics as real processes, 200 clients at a time; PLIMSOLL_REQUESTS sets how often (make endure: 10,000).
func TestServersAnswerTwoHundredClients(t *testing.T) {
	t.Parallel()
	requests := 300
	fmt.Sscan(os.Getenv("PLIMSOLL_REQUESTS"), &requests)
	for name, c := range map[string]struct {
		args  []string
		paths []string
	}{
		"view":    {[]string{"view", "--no-browser", recordings + "oom-batch.pickle.gz"}, []string{"", "app.js", "api/summary", "api/curve?d=0&columns=200", "api/alive?d=0&at=100", "api/map?d=0&at=100"}},
		"metrics": {[]string{"metrics", "--demo", "--listen", "127.0.0.1:0"}, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			address, pid := serve(t, c.args...)
			var urls []string
			for _, p := range c.paths {
				urls = append(urls, address+p)
			}
			if failed := ask200(t, urls, requests); failed > 0 {
				t.Errorf("%d of %d requests failed", failed, requests)
			}
			held := highWater(t, fmt.Sprintf("/proc/%d/status", pid))
			if held > serverMemory {
				t.Errorf("the server held %d MB", held>>20)
			}
			t.Logf("%d requests, 200 at a time: no error, at most %d MB resident", requests, held>>20)
		})
	}
}

var servedAt = regexp.MustCompile(`http://\S+`)

// serve starts a server as a process and returns its address and process id.
func serve(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PLIMSOLL_AS_COMMAND=1")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
	})
	for scan := bufio.NewScanner(out); scan.Scan(); {
		if address := servedAt.FindString(scan.Text()); address != "" {
			go io.Copy(io.Discard, out)
			return address, cmd.Process.Pid
		}
	}
	t.Fatalf("plimsoll %v printed no address", args)
	return "", 0
}

// ask200 asks the addresses in turn with 200 clients at a time and returns how many answers were not complete.
func ask200(t *testing.T, urls []string, requests int) int64 {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}, Timeout: 2 * time.Minute}
	defer client.CloseIdleConnections()
	var failed atomic.Int64
	next := make(chan string)
	var wait sync.WaitGroup
	for range 200 {
		wait.Go(func() {
			for url := range next {
				if err := whole(client, url); err != nil && failed.Add(1) <= 3 {
					t.Error(err)
				}
			}
		})
	}
	for i := range requests {
		next <- urls[i%len(urls)]
	}
	close(next)
	wait.Wait()
	return failed.Load()
}

// whole asks once and reads the whole answer.
func whole(client *http.Client, url string) error {
	r, err := client.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	n, err := io.Copy(io.Discard, r.Body)
	if err == nil && (r.StatusCode != http.StatusOK || n == 0) {
		err = fmt.Errorf("%s: status %d, %d bytes", url[strings.LastIndexByte(url, '/'):], r.StatusCode, n)
	}
	return err
}

// highWater is the most memory a process has held, by its status in /proc.
func highWater(t *testing.T, file string) int64 {
	t.Helper()
	status, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// A client of the protocol for coding agents may have many questions in flight; each is answered, and the server stays small.
func TestTheAgentsServerAnswersTwoHundredQuestionsAtATime(t *testing.T) {
	t.Parallel()
	requests := 300
	fmt.Sscan(os.Getenv("PLIMSOLL_REQUESTS"), &requests)
	a := newAgent(t, nil)
	next := make(chan struct{})
	var wait sync.WaitGroup
	var failed atomic.Int64
	for range 200 {
		wait.Go(func() {
			for range next {
				if _, err := a.session.ListTools(context.Background(), nil); err != nil && failed.Add(1) <= 3 {
					t.Error(err)
				}
			}
		})
	}
	for range requests {
		next <- struct{}{}
	}
	close(next)
	wait.Wait()
	held := highWater(t, fmt.Sprintf("/proc/%d/status", a.pid()))
	if held > serverMemory {
		t.Errorf("the server held %d MB", held>>20)
	}
	t.Logf("%d questions, 200 at a time: %d failed, at most %d MB resident", requests, failed.Load(), held>>20)
}
