package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/live/machine"
	"github.com/plimsoll/plimsoll/internal/live/metrics"
	"github.com/plimsoll/plimsoll/internal/live/otlp"
	"github.com/plimsoll/plimsoll/internal/live/watch"
)

type metricsOptions struct {
	listen       string
	interval     time.Duration
	demo         bool
	hideCommands bool
	otlp         string
}

func newMetricsCommand(env Env) *cobra.Command {
	var opts metricsOptions
	cmd := &cobra.Command{
		Use:   "metrics [--listen 127.0.0.1:9740] [--hide-commands]",
		Short: "export GPU memory, its growth and the time left to Prometheus",
		Long: `Metrics watches the GPUs like plimsoll watch and serves what it finds at
/metrics, in the Prometheus and OpenMetrics formats. It only reads: there is
nothing to set, and nothing on the machine changes.

It listens on loopback unless told otherwise; it has no password, so put it
behind a firewall where it listens for other machines. Labels carry program and
script ("python train.py"), never paths or arguments; --hide-commands leaves
them and the user out too. Rules for alerts, a Grafana dashboard, a systemd
unit and a Kubernetes DaemonSet are in the folder deploy.`,
		Example: `  plimsoll metrics
  plimsoll metrics --listen 0.0.0.0:9740 --hide-commands
  plimsoll metrics --demo & curl -s http://127.0.0.1:9740/metrics`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runMetrics(cmd.Context(), env, opts, cmd.Flags().Changed("interval"))
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.listen, "listen", "127.0.0.1:9740", "address to listen on")
	f.DurationVar(&opts.interval, "interval", 2*time.Second, "time between readings")
	f.BoolVar(&opts.demo, "demo", false, "serve a simulated machine on which things go wrong")
	f.BoolVar(&opts.hideCommands, "hide-commands", false, "leave commands and users out of the labels")
	f.StringVar(&opts.otlp, "otlp", "", "send the same metrics to an OpenTelemetry collector, for example http://localhost:4318")
	return cmd
}

// staleIntervals is how many readings may be missed before the last one no longer counts as the present.
const staleIntervals = 5

func runMetrics(ctx context.Context, env Env, opts metricsOptions, intervalGiven bool) error {
	if opts.interval < 100*time.Millisecond {
		return usageError("the interval must be at least 100ms (see plimsoll metrics --help)")
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	history := watch.NewHistory()
	source, closeSource, err := openSource(ctx, env, opts.demo, history)
	if err != nil {
		return err
	}
	if m, ok := source.(*machine.Machine); ok && m.Slow() && !intervalGiven {
		opts.interval = slowInterval
	}
	collector := metrics.NewCollector(metrics.Options{
		Version: Version, HideCommands: opts.hideCommands, StaleAfter: staleIntervals * opts.interval,
	})
	push, err := opts.exporter(env)
	if err != nil {
		closeSource()
		return err
	}
	server, err := metrics.Listen(opts.listen, collector)
	if err != nil {
		closeSource()
		if errors.Is(err, metrics.ErrAddress) {
			return usageError("--listen: %w", err)
		}
		return err
	}
	fmt.Fprintf(env.Stderr, "plimsoll: serving http://%s/metrics\n", server.Address())
	// The driver is asked by one goroutine; a scrape only reads what it last said, so a hanging driver cannot hang a scrape.
	wait := watched{source, closeSource, history}.inBackground(ctx, opts.interval, collector.Show)
	var sent sync.WaitGroup
	if push != nil {
		fmt.Fprintf(env.Stderr, "plimsoll: sending the same to %s\n", opts.otlp)
		sent.Go(func() {
			push.Run(ctx, collector, max(opts.interval, leastPush), func(err error) { fmt.Fprintf(env.Stderr, "plimsoll: %v\n", err) })
		})
	}
	err = server.Serve(ctx)
	stop()
	wait()
	sent.Wait()
	return err
}

// leastPush is the shortest time between two messages to a collector.
const leastPush = 10 * time.Second

// exporter is where metrics are sent beside being served; nil: nowhere. Headers come from OpenTelemetry's own variable.
func (o metricsOptions) exporter(env Env) (*otlp.Exporter, error) {
	if o.otlp == "" {
		return nil, nil
	}
	host, _ := os.Hostname()
	e, err := otlp.New(o.otlp, env.Getenv("OTEL_EXPORTER_OTLP_HEADERS"), Version, host, time.Now())
	if err != nil {
		return nil, usageError("--otlp: %w", err)
	}
	return e, nil
}
