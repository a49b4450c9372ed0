package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/show/mcpserver"
)

func newMCPCommand(env Env) *cobra.Command {
	var roots []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "mcp [--root FOLDER]...",
		Short: "serve explain, replay, predict, fit, lint and doctor to coding agents (MCP)",
		Long: `Mcp is a Model Context Protocol server on standard input and output. A coding agent
starts it and gets six tools: explain, replay, predict, fit, lint and doctor, with
typed inputs and short structured answers.

The tools only read. They read files under the folders that the client names as its
roots, and nothing else; with --root only under these folders, whatever the client
names. They run no command and no Python. Each answer has a time limit.`,
		Example: `  claude mcp add plimsoll -- plimsoll mcp
  plimsoll mcp --root ~/work/training
  plimsoll mcp --timeout 5m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runMCP(cmd.Context(), env, roots, timeout)
		},
	}
	cmd.Flags().StringArrayVar(&roots, "root", nil, "folder that may be read (repeatable; without it: the client's roots)")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "most time for one answer")
	return cmd
}

func runMCP(ctx context.Context, env Env, roots []string, timeout time.Duration) error {
	if timeout < time.Second {
		return usageError("--timeout must be at least 1s")
	}
	for _, r := range roots {
		if info, err := os.Stat(r); err != nil || !info.IsDir() {
			return usageError("--root %s: there is no such folder", r)
		}
	}
	if len(env.Helper) == 0 {
		return errors.New("plimsoll cannot find its own file, which answers the questions")
	}
	if env.StdinIsTerminal {
		fmt.Fprintln(env.Stderr, "plimsoll: this is a server for coding agents; it waits for a client on standard input (Ctrl-C ends it)")
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	o := mcpserver.Options{Version: Version, Roots: roots, Timeout: timeout, Command: env.Helper[:1], Env: env.environ()}
	return mcpserver.Serve(ctx, o, io.NopCloser(env.Stdin), unclosed{env.Stdout})
}

// unclosed is a stream that stays open when the server closes it.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
