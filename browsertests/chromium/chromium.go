// Package chromium opens pages of plimsoll in a real headless browser.
//
// It takes a command line of plimsoll or a file and returns a tab that notes every console message, exception and request, and the process that serves
// it. It starts Debian's chromium-headless-shell, or else a whole Chromium (scripts/install-chromium.sh installs one), and refuses to run without either.
package chromium

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Build makes the binary under test in a folder.
func Build(folder string) (string, error) {
	binary := filepath.Join(folder, "plimsoll")
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/plimsoll")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build plimsoll: %w\n%s", err, out)
	}
	return binary, nil
}

// Server is a running plimsoll view.
type Server struct {
	URL     string
	Started time.Time
	cmd     *exec.Cmd
}

// Answer writes what a command prints into a file. An exit code that only says what was found is no error.
func Answer(binary, file string, args ...string) error {
	out, err := exec.Command(binary, args...).Output()
	if _, exited := err.(*exec.ExitError); err != nil && (!exited || len(out) == 0) {
		return fmt.Errorf("plimsoll %v: %w", args, err)
	}
	return os.WriteFile(file, out, 0o644)
}

// Serve starts plimsoll view and waits for its address.
func Serve(binary string, files ...string) (*Server, error) {
	s := &Server{Started: time.Now(), cmd: exec.Command(binary, append([]string{"view", "--no-browser"}, files...)...)}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("plimsoll view %v printed no address: %w", files, err)
	}
	s.URL = strings.TrimSpace(line)
	return s, nil
}

// Close stops the server.
func (s *Server) Close() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// Memory is what the server holds now and held at most, in bytes.
func (s *Server) Memory() (now, most int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	for line := range strings.SplitSeq(string(status), "\n") {
		fmt.Sscanf(line, "VmRSS: %d", &now)
		fmt.Sscanf(line, "VmHWM: %d", &most)
	}
	return now << 10, most << 10, err
}

// Browser is a chromium with a new profile.
type Browser struct {
	ctx   context.Context
	close []context.CancelFunc
}

// Start starts a browser.
func Start(profile string) (*Browser, error) {
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("headless", true), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(profile),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true))
	if shell, err := exec.LookPath("chromium-headless-shell"); err == nil {
		options = append(options, chromedp.ExecPath(shell)) // the same engine without the windows, tabs and extensions that nobody sees here
	}
	b := &Browser{}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	b.close = append(b.close, stop)
	ctx, stop = chromedp.NewContext(ctx)
	b.close = append(b.close, stop)
	b.ctx = ctx
	if err := chromedp.Do(ctx); err != nil {
		b.Close()
		return nil, fmt.Errorf("start chromium (scripts/install-chromium.sh installs it): %w", err)
	}
	return b, nil
}

// Close ends the browser.
func (b *Browser) Close() {
	for i := len(b.close) - 1; i >= 0; i-- {
		b.close[i]()
	}
}

// Tab is one page and what it did.
type Tab struct {
	Ctx   context.Context
	Close context.CancelFunc

	mu       sync.Mutex
	troubles []string
	requests []string
}

// Screen is the size of a window and its colours.
type Screen struct {
	Width, Height int64
	Scale         float64
	Dark, Touch   bool
}

// Open opens an address in a new tab with a minute to live.
func (b *Browser) Open(url string, s Screen) (*Tab, error) {
	ctx, stop := chromedp.NewContext(b.ctx)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	t := &Tab{Ctx: ctx, Close: func() { cancel(); stop() }}
	scheme := "light"
	if s.Dark {
		scheme = "dark"
	}
	err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error { return t.watch(ctx) }),
		set(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: s.Width, Height: s.Height, DeviceScaleFactor: max(1, s.Scale), Mobile: s.Touch}),
		set(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}),
		chromedp.Navigate(url))
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("open %s: %w", url, err)
	}
	return t, nil
}

// set makes a step of a protocol command.
func set[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, command, params)
		return err
	})
}

// watch notes what goes wrong in the page and what it asks for.
func (t *Tab) watch(ctx context.Context) error {
	listen(ctx, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			for _, a := range e.Args {
				t.note(&t.troubles, fmt.Sprintf("console.%s %s%s", e.Type, a.Value, a.Description))
			}
		}
	})
	listen(ctx, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) { t.note(&t.troubles, fmt.Sprintf("%+v", e.ExceptionDetails)) })
	listen(ctx, log.EntryAdded, func(e log.EventEntryAdded) {
		if e.Entry.Level != "verbose" && e.Entry.Level != "info" {
			t.note(&t.troubles, e.Entry.Text+" "+e.Entry.URL)
		}
	})
	listen(ctx, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) { t.note(&t.requests, e.Request.URL) })
	return chromedp.Do(ctx, set(network.Enable, network.EnableParams{}), set(runtime.Enable, cdp.Empty{}), set(log.Enable, cdp.Empty{}))
}

// listen calls f for every event until the tab closes.
func listen[E any](ctx context.Context, event cdp.Event[E], f func(E)) {
	all := chromedp.Events(ctx, event)
	go func() {
		for e, err := range all {
			if err != nil {
				return
			}
			f(e)
		}
	}()
}

func (t *Tab) note(list *[]string, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*list = append(*list, text)
}

// Troubles are the errors and warnings the page caused.
func (t *Tab) Troubles() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string{}, t.troubles...)
}

// Requests are the addresses the page asked for.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string{}, t.requests...)
}

// Ready waits until the page shows its picture and its report.
func (t *Tab) Ready() error {
	return chromedp.Do(t.Ctx, chromedp.WaitReady(`body[data-ready="1"]`))
}

// Eval runs an expression in the page, waits for its promise and gives its value.
func Eval[T any](t *Tab, expression string) (T, error) {
	return chromedp.Run(t.Ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Press presses a key and lets it go, as a person does.
func (t *Tab) Press(keys ...string) error {
	for _, key := range keys {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			if err := chromedp.Do(t.Ctx, set(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: key, Code: key})); err != nil {
				return err
			}
		}
	}
	return nil
}
