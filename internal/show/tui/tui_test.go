package tui

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/live/simgpu"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
	"github.com/plimsoll/plimsoll/internal/units"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// after watches a machine for so many seconds.
func after(m *simgpu.Machine, seconds int) watch.View {
	history := watch.NewHistory()
	var v watch.View
	for i := range seconds {
		v = history.Look(context.Background(), m, start.Add(time.Duration(i)*time.Second))
	}
	return v
}

var sizes = []struct{ width, height int }{{80, 24}, {120, 40}, {200, 60}}

func TestTheScreenAtThreeSizes(t *testing.T) {
	t.Parallel()
	v := after(simgpu.Demo(), 241)
	for _, size := range sizes {
		for name, style := range map[string]screen.Style{"utf8": {}, "ascii": {ASCII: true}} {
			got := Render(v, State{}, size.width, size.height, style)
			goldentest.Check(t, filepath.Join("testdata", fmt.Sprintf("demo-%dx%d-%s.txt", size.width, size.height, name)), []byte(got+"\n"))
		}
	}
}

// observed is the row of the first process that runs under plimsoll run; it tells who holds its memory.
func observed(v watch.View) int {
	for i, r := range rows(v, State{}) {
		if r.Torch != nil {
			r.Torch.Held = &watch.Held{Step: 41, Share: 0.973, Holders: []watch.Holder{
				{Name: "feats[*] in train.py:8", Bytes: 3 * units.GiB, Count: 412}, {Name: "parameters of model in train.py:61 main", Bytes: units.GiB / 2, Count: 148},
			}}
			return i
		}
	}
	return -1
}

func TestAKeyAsksWhoHoldsTheMemory(t *testing.T) {
	t.Parallel()
	v := after(simgpu.Demo(), 60)
	for i, r := range rows(v, State{}) {
		st, _ := State{Row: i}.Press("w", v, 5)
		if q := st.asks(v); !st.Who || q != (Ask{}) {
			t.Errorf("%d: asks %v of a process that does not listen", r.PID, q)
		}
		if r.Torch == nil {
			continue
		}
		r.Torch.Asks = 12
		if q := st.asks(v); q != (Ask{r.PID, 12}) {
			t.Errorf("asks %v, want %d", q, r.PID)
		}
		if back, quit := st.Press("esc", v, 5); back.Who || quit {
			t.Error("Esc does not go back")
		}
	}
}

func TestOtherFacesOfTheScreen(t *testing.T) {
	t.Parallel()
	v := after(simgpu.Demo(), 241)
	empty := watch.View{Time: start, Readings: 1, Problems: []string{"memory is in use but no process can be seen from inside this container; start it with --pid=host"}}
	for name, face := range map[string]struct {
		view  watch.View
		state State
	}{
		"help":     {v, State{Help: true}},
		"who":      {v, State{Who: true, Row: observed(v)}},
		"who-not":  {v, State{Who: true}},
		"filtered": {v, State{Filter: "ada", Sort: ByPID}},
		"one-card": {v, State{CardID: v.Cards[2].ID, OneProc: true}},
		"empty":    {empty, State{}},
		"failed":   {watch.View{Error: "read the GPUs: a GPU is lost"}, State{}},
		"64-cards": {after(simgpu.Fleet(64, 500), 130), State{Row: 250}},
	} {
		goldentest.Check(t, filepath.Join("testdata", name+"-80x24.txt"), []byte(Render(face.view, face.state, 80, 24, screen.Style{})+"\n"))
	}
}

func TestPrintedOnceItAnswersFirst(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := Print(&out, after(simgpu.Demo(), 241), screen.Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	goldentest.Check(t, filepath.Join("testdata", "once.txt"), []byte(out.String()))
}

func TestEverySizeIsFilledExactlyAndNeverOverflows(t *testing.T) {
	t.Parallel()
	views := []watch.View{after(simgpu.Demo(), 100), after(simgpu.Fleet(64, 500), 5), {}}
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(1, 260).Draw(t, "width"), rapid.IntRange(1, 90).Draw(t, "height")
		st := State{
			Row: rapid.IntRange(-5, 600).Draw(t, "row"), Sort: Order(rapid.IntRange(0, int(orders)-1).Draw(t, "sort")),
			Help: rapid.Bool().Draw(t, "help"), OneProc: rapid.Bool().Draw(t, "curve"), Filter: rapid.SampledFrom([]string{"", "ada", "nobody"}).Draw(t, "filter"),
		}
		style := screen.Style{ASCII: rapid.Bool().Draw(t, "ascii"), Color: rapid.Bool().Draw(t, "colour")}
		got := Render(rapid.SampledFrom(views).Draw(t, "view"), st, width, height, style)
		lines := strings.Split(got, "\n")
		if len(lines) != height {
			t.Fatalf("%d lines on a screen of %d", len(lines), height)
		}
		for _, line := range lines {
			if screen.Columns(line) > width {
				t.Fatalf("%d columns on a screen of %d: %q", screen.Columns(line), width, line)
			}
			if style.ASCII && strings.IndexFunc(line, func(r rune) bool { return r > 126 }) >= 0 {
				t.Fatalf("not ASCII: %q", line)
			}
		}
	})
}

func TestColourAddsNothingToRead(t *testing.T) {
	t.Parallel()
	v := after(simgpu.Demo(), 241)
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	trailing := regexp.MustCompile(`(?m) +$`)
	for _, size := range sizes {
		plain := Render(v, State{}, size.width, size.height, screen.Style{})
		coloured := escapes.ReplaceAllString(Render(v, State{}, size.width, size.height, screen.Style{Color: true}), "")
		if trailing.ReplaceAllString(coloured, "") != trailing.ReplaceAllString(plain, "") {
			t.Errorf("at %dx%d colour changes the text", size.width, size.height)
		}
	}
}

func TestNamesOfProcessesCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	v := after(simgpu.Demo(), 100)
	v.Cards[0].Processes[0].Who.Command = "evil\x1b]0;title\x07\x1b[2J"
	v.Findings = append(v.Findings, watch.Finding{Title: "evil\x1b[2J"})
	if got := Render(v, State{}, 120, 40, screen.Style{}); strings.ContainsAny(got, "\x1b\x07") {
		t.Error("control characters reached the terminal")
	}
}

func TestKeysDoAsInHtop(t *testing.T) {
	t.Parallel()
	v := after(simgpu.Demo(), 10)
	press := func(keys ...string) State {
		var st State
		for _, k := range keys {
			st, _ = st.Press(k, v, 3)
		}
		return st
	}
	for name, ok := range map[string]bool{
		"down twice":              press("down", "j").Row == 2,
		"not above the first":     press("up").Row == 0,
		"end is the last":         press("end").Row == len(rows(v, State{}))-1,
		"not below the last":      press("end", "down", "pgdown").Row == len(rows(v, State{}))-1,
		"F6 goes through orders":  press("f6").Sort == ByGrowth && press("f6", "f6", "f6", "f6").Sort == ByMemory,
		"M sorts by memory":       press("N", "M").Sort == ByMemory,
		"I turns around":          press("I").Invert,
		"typing filters":          press("f4", "a", "d", "x", "backspace", "a", "enter").Filter == "ada",
		"q is a letter in a word": press("/", "q").Filter == "q",
		"Esc drops the filter":    press("/", "a", "esc").Filter == "",
		"Tab walks the cards":     press("tab").CardID == v.Cards[0].ID && press("tab", "tab", "tab", "tab", "tab", "tab").CardID == "",
		"Z pauses":                press("Z").Paused && !press("Z", "Z").Paused,
		"any key ends help":       !press("?", "x").Help,
	} {
		if !ok {
			t.Error(name)
		}
	}
	if _, quit := (State{}).Press("q", v, 3); !quit {
		t.Error("q does not quit")
	}
	if _, quit := (State{Typing: true}).Press("ctrl+c", v, 3); !quit {
		t.Error("ctrl+c does not quit while typing")
	}
}

func TestTheModelShowsTheLatestViewAndQuitsWhenViewsEnd(t *testing.T) {
	t.Parallel()
	views := make(chan watch.View, 1)
	views <- after(simgpu.Demo(), 5)
	close(views)
	var m tea.Model = model{views: views}
	m, _ = m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	m, cmd := m.Update(m.(model).next()())
	if !strings.Contains(m.View().Content, "python train.py") || !m.View().AltScreen {
		t.Errorf("screen:\n%s", m.View().Content)
	}
	m, _ = m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	if lines := strings.Split(m.View().Content, "\n"); len(lines) != 30 {
		t.Errorf("after a resize the screen has %d lines", len(lines))
	}
	if _, quit := m.Update(cmd()); quit == nil {
		t.Error("the end of the views does not end the program")
	}
}

// paced is a terminal that tells when something has been drawn on it.
type paced struct {
	mu    sync.Mutex
	text  strings.Builder
	drawn chan struct{}
}

func (p *paced) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.drawn <- struct{}{}:
	default:
	}
	return p.text.Write(b)
}

func (p *paced) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func TestANewReadingRedrawsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	machine, history := simgpu.Demo(), watch.NewHistory()
	look := func(second int) watch.View {
		return history.Look(context.Background(), machine, start.Add(time.Duration(second)*time.Second))
	}
	views, terminal := make(chan watch.View), &paced{drawn: make(chan struct{}, 1)}
	program := newProgram(context.Background(), views, nil, terminal, screen.Style{}, func(Ask) {}, tea.WithWindowSize(80, 24), tea.WithEnvironment([]string{"TERM=xterm-256color"}))
	ended := make(chan error, 1)
	go func() { _, err := program.Run(); ended <- err }()
	for i := range 60 {
		look(i)
	}
	views <- look(60)
	for !strings.Contains(terminal.String(), "python train.py") { // the first full screen
		<-terminal.drawn
	}
	first := len(terminal.String())
	for i := 61; i <= 65; i++ {
		before := len(terminal.String())
		views <- look(i)
		for len(terminal.String()) == before {
			<-terminal.drawn
		}
	}
	close(views)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	text := terminal.String()
	if strings.Count(text, "\x1b[2J") > 1 {
		t.Errorf("the screen was cleared %d times", strings.Count(text, "\x1b[2J"))
	}
	if rest := len(text) - first; rest > first {
		t.Errorf("the first screen took %d bytes, the five after it %d: they should write only what changed", first, rest)
	}
}

func BenchmarkRender(b *testing.B) {
	for _, size := range []struct {
		name    string
		machine *simgpu.Machine
		w, h    int
	}{{"8 cards at 120x40", simgpu.Fleet(8, 16), 120, 40}, {"64 cards 500 processes at 200x60", simgpu.Fleet(64, 500), 200, 60}} {
		b.Run(size.name, func(b *testing.B) {
			v := after(size.machine, 300)
			b.ReportAllocs()
			for b.Loop() {
				Render(v, State{}, size.w, size.h, screen.Style{Color: true})
			}
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N), "core-%")
		})
	}
}
