package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/live/machine"
	"github.com/plimsoll/plimsoll/internal/live/simgpu"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/tui"
)

type watchOptions struct {
	demo     bool          // a simulated machine
	once     bool          // print and leave
	json     bool          // one document a reading
	interval time.Duration // between readings
	over     time.Duration // how long to watch; zero: one reading with once, else until stopped
}

func newWatchCommand(env Env) *cobra.Command {
	var opts watchOptions
	cmd := &cobra.Command{
		Use:   "watch [--demo] [--once | --for 2m] [--json] [--interval 1s]",
		Short: "watch who uses GPU memory now, how fast it grows, and when it runs out",
		Long: `Watch shows every card and every process on it: bytes, peak, how fast it grows
steadily and how sure that is, the time until the card is full, and memory that
outlived its process. For a process started under plimsoll run it also shows
what PyTorch has allocated, what it caches, and the step it is at.

Growth shows after a minute and a half of readings. Keys are those of htop; F1
lists them. It never ends a process. Without a terminal it prints once.

Exit codes with --once: 0 nothing to worry about, 3 a card is full within ten
minutes, 4 no GPU can be read here.`,
		Example: `  plimsoll watch
  plimsoll watch --demo
  plimsoll watch --for 2m                 watch two minutes, then say what is wrong
  plimsoll watch --json --interval 5s     one JSON document every five seconds`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runWatch(cmd.Context(), env, opts, cmd.Flags().Changed("interval"))
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opts.demo, "demo", false, "watch a simulated machine on which things go wrong")
	f.BoolVar(&opts.once, "once", false, "print once and exit")
	f.BoolVar(&opts.json, "json", false, "print JSON, one document per reading")
	f.DurationVar(&opts.interval, "interval", time.Second, "time between readings")
	f.DurationVar(&opts.over, "for", 0, "watch for this long, then print and exit; with --json: then stop")
	return cmd
}

func runWatch(ctx context.Context, env Env, opts watchOptions, intervalGiven bool) error {
	if opts.interval < 100*time.Millisecond || opts.over < 0 {
		return usageError("the interval must be at least 100ms and --for not negative (see plimsoll watch --help)")
	}
	if opts.over > 0 && !opts.json {
		opts.once = true
	}
	history := watch.NewHistory()
	source, closeSource, err := openSource(ctx, env, opts.demo, history)
	if err != nil {
		return err
	}
	if m, ok := source.(*machine.Machine); ok && m.Slow() && !intervalGiven {
		opts.interval = slowInterval
	}
	if screenWanted := !opts.once && !opts.json && env.StdoutIsTerminal && env.Getenv("TERM") != "dumb"; screenWanted {
		return watchScreen(ctx, env, opts.interval, watched{source, closeSource, history})
	}
	defer closeSource()
	if opts.json && !opts.once {
		if opts.over > 0 {
			limited, cancel := context.WithTimeout(ctx, opts.over)
			defer cancel()
			ctx = limited
		}
		return watchJSON(ctx, env, opts, source, history)
	}
	return watchOnce(ctx, env, opts, source, history)
}

// slowInterval is the pace where every reading starts nvidia-smi.
const slowInterval = 5 * time.Second

// demoPast is how long the simulated machine has been running when it is first shown, so that there is something to see.
const demoPast = 4 * time.Minute

// openSource opens this machine or the simulated one, whose past it plays into the history.
func openSource(ctx context.Context, env Env, demo bool, history *watch.History) (watch.Source, func(), error) {
	if demo {
		m := simgpu.Demo()
		now := time.Now()
		for at := now.Add(-demoPast); at.Before(now); at = at.Add(time.Second) {
			history.Look(ctx, m, at)
		}
		return m, func() {}, nil
	}
	m, err := machine.Open(env.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return nil, nil, unreadable(err)
	}
	return m, func() { _ = m.Close() }, nil
}

// watchOnce reads for as long as asked and prints the last view.
func watchOnce(ctx context.Context, env Env, opts watchOptions, source watch.Source, history *watch.History) error {
	view := history.Look(ctx, source, time.Now())
	if opts.over > 0 {
		limited, cancel := context.WithTimeout(ctx, opts.over)
		defer cancel()
		ticker := time.NewTicker(opts.interval)
		defer ticker.Stop()
		stop := progress(env, func() string { return "watching for " + opts.over.String() })
		watch.Loop(limited, source, history, ticker.C, func(v watch.View) { view = v })
		stop()
	}
	if err := printView(env, opts, view); err != nil {
		return err
	}
	if view.Readings == 0 {
		return coded{code: exitUnreadable}
	}
	for _, f := range view.Findings {
		if f.Severity == watch.SevereError {
			return findingExit()
		}
	}
	return nil
}

func printView(env Env, opts watchOptions, view watch.View) error {
	if opts.json {
		return json.NewEncoder(screen.JSON(env.Stdout)).Encode(view.Report())
	}
	return tui.Print(env.Stdout, view, env.Style)
}

// watchJSON prints a document after every reading until it is stopped or nobody reads any more.
func watchJSON(ctx context.Context, env Env, opts watchOptions, source watch.Source, history *watch.History) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := time.NewTicker(opts.interval)
	defer ticker.Stop()
	var failed error
	deliver := func(v watch.View) {
		if failed = printView(env, opts, v); failed != nil {
			cancel()
		}
	}
	deliver(history.Look(ctx, source, time.Now()))
	watch.Loop(ctx, source, history, ticker.C, deliver)
	return failed
}

// watched is a machine being watched: where readings come from, how to let go of it, what was seen.
type watched struct {
	source  watch.Source
	close   func()
	history *watch.History
}

// inBackground reads the machine in a goroutine of its own, which also lets go of it in the end. The function returned waits for that, but
// not for long: a driver that hangs must not keep the program from ending.
func (w watched) inBackground(ctx context.Context, interval time.Duration, deliver func(watch.View)) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer w.close()
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		deliver(w.history.Look(ctx, w.source, time.Now()))
		watch.Loop(ctx, w.source, w.history, ticker.C, deliver)
	}()
	return func() {
		select {
		case <-done:
		case <-time.After(2 * time.Second):
		}
	}
}

// watchScreen shows the machine until the person has seen enough. A slow driver never blocks a key.
func watchScreen(ctx context.Context, env Env, interval time.Duration, w watched) error {
	ctx, cancel := context.WithCancel(ctx)
	views := make(chan watch.View)
	wait := w.inBackground(ctx, interval, func(v watch.View) {
		select {
		case views <- v:
		case <-ctx.Done():
		}
	})
	err := tui.Run(ctx, views, env.Stdin, env.Stdout, env.Style, func(q tui.Ask) { sendSignal(q.PID, q.Signal) })
	cancel()
	wait()
	return err
}
