package tui

import (
	"context"
	"errors"
	"io"

	tea "charm.land/bubbletea/v2"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// model is the one Bubble Tea model. Views arrive as messages; drawing is Render.
type model struct {
	views         <-chan watch.View
	latest, shown watch.View
	state         State
	width, height int
	style         screen.Style
	ask           func(Ask) // asks a process who holds its memory
}

// viewMsg brings a new view; closedMsg says that there will be no more.
type (
	viewMsg   watch.View
	closedMsg struct{}
)

func (m model) Init() tea.Cmd { return m.next() }

// next waits for a view. Waiting is the runtime's business, not Update's.
func (m model) next() tea.Cmd {
	return func() tea.Msg {
		v, open := <-m.views
		if !open {
			return closedMsg{}
		}
		return viewMsg(v)
	}
}

func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case viewMsg:
		m.latest = watch.View(msg)
		if !m.state.Paused {
			m.shown = m.latest
		}
		return m, m.next()
	case closedMsg:
		return m, tea.Quit
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		var quit bool
		m.state, quit = m.state.Press(msg.String(), m.shown, max(1, m.height/3))
		if quit {
			return m, tea.Quit
		}
		if !m.state.Paused {
			m.shown = m.latest
		}
		if q := m.state.asks(m.shown); msg.String() == "w" && m.state.Who && q.PID != 0 {
			return m, func() tea.Msg { m.ask(q); return nil }
		}
	}
	return m, nil
}

func (m model) View() tea.View {
	if m.width == 0 { // the terminal has not told its size yet
		return tea.View{AltScreen: true}
	}
	v := tea.NewView(Render(m.shown, m.state, m.width, m.height, m.style))
	v.AltScreen = true
	return v
}

// frames is how often a second the terminal is looked at for changes: readings come once a second, keys should feel instant.
const frames = 20

// Run shows the views until the person quits, the views end or the context does; ask hands a question on to a process.
func Run(ctx context.Context, views <-chan watch.View, in io.Reader, out io.Writer, style screen.Style, ask func(Ask)) error {
	_, err := newProgram(ctx, views, in, out, style, ask).Run()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func newProgram(ctx context.Context, views <-chan watch.View, in io.Reader, out io.Writer, style screen.Style, ask func(Ask), more ...tea.ProgramOption) *tea.Program {
	options := append([]tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithFPS(frames)}, more...)
	return tea.NewProgram(model{views: views, style: style, ask: ask}, options...)
}
