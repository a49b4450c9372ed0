// Package mcpserver offers plimsoll's answers to coding agents over the Model Context Protocol.
//
// It takes the streams of a client and the folders that may be read and returns short structured answers of explain, replay, predict, fit, lint and doctor.
// Every question is answered by a process of its own with a time limit, which gets its inputs as flags with values and absolute paths. Nothing is
// written, no command of the client's is run, no Python is started, and no file is read that is not under a root.
package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Options say what a server may do.
type Options struct {
	Version string
	Roots   []string      // folders that may be read; empty: those that the client names
	Timeout time.Duration // of one answer
	Command []string      // the command line that is plimsoll
	Env     []string      // its environment
}

// Limits of one answer.
const (
	maxText    = 4 << 20  // bytes of text in a question
	maxInput   = 4 << 30  // bytes of all files a question names
	maxFiles   = 20_000   // files of the folders a question names
	maxOutput  = 64 << 20 // bytes that a verb may answer before it is shortened
	atOnce     = 2        // questions answered at the same time
	killedLate = 2 * time.Second
)

const instructions = `Plimsoll answers questions about GPU memory of PyTorch training. Sizes are in bytes.
explain: why a run failed with "CUDA out of memory", from a memory snapshot, a log or the error text. replay: whether other allocator settings would have saved it.
predict: whether a training job fits on a card. fit: the fastest configuration that fits. lint: what in training code wastes memory. doctor: what is wrong on this machine.
All of them only read, and only files under the client's roots.`

// Serve answers one client until it leaves.
func Serve(ctx context.Context, o Options, in io.ReadCloser, out io.WriteCloser) error {
	err := newServer(o).Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// server is what the tools share.
type server struct {
	Options
	turns chan struct{}
}

func newServer(o Options) *mcp.Server {
	s := &server{Options: o, turns: make(chan struct{}, atOnce)}
	m := mcp.NewServer(&mcp.Implementation{Name: "plimsoll", Title: "Plimsoll", Version: o.Version}, &mcp.ServerOptions{Instructions: instructions})
	add(s, m, "explain", "Why a PyTorch run ran out of GPU memory, with evidence and what to change. Give paths of memory snapshots, logs or folders of them, or the error text itself.", explain)
	add(s, m, "replay", "Whether other settings of PyTorch's caching allocator would have saved a recorded run. Needs a memory snapshot with a history.", replay)
	add(s, m, "predict", "Whether a training job fits on a GPU: its peak memory by phase and category, and the largest batch that fits. Give a model name, a config.json or an exported graph.", predict)
	add(s, m, "fit", "The fastest way to run a training job that fits on a GPU: micro-batch, accumulation, checkpointing, optimizer, sharding.", fit)
	add(s, m, "lint", "What in Python training code wastes GPU memory, by line, with the fix. Give files or folders.", lint)
	add(s, m, "doctor", "What is wrong or risky about GPU memory on the machine this server runs on: driver, cards, PyTorch, allocator variables.", doctor)
	return m
}

// question is what a tool makes of its input: a command line of plimsoll.
type question struct {
	args   []string
	stdin  []byte
	config []byte // of a model: written to configFile
	whole  bool   // needs the programs on the PATH
}

// configFile is where a process finds the configuration of its question, in the folder it runs in.
const configFile = "config.json"

// add registers a tool whose answer is the JSON of a verb, made shorter.
func add[In asker, Out any, P shortener[Out]](s *server, m *mcp.Server, name, description string, _ func() (In, P)) {
	tool := &mcp.Tool{Name: name, Description: description, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(bool)}}
	mcp.AddTool(m, tool, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		var out Out
		roots, first, err := s.roots(req)
		if err != nil || first != nil {
			return first, out, err
		}
		q, err := in.ask(roots)
		if err != nil {
			return nil, out, err
		}
		answer, err := s.answer(ctx, q)
		if err != nil {
			return nil, out, err
		}
		if err := json.Unmarshal(answer, &out); err != nil {
			return nil, out, fmt.Errorf("the answer of plimsoll %s could not be read: %w", name, err)
		}
		P(&out).shorten()
		return nil, out, nil
	})
}

// asker is a tool's input.
type asker interface{ ask(roots) (question, error) }

// shortener is a tool's answer.
type shortener[T any] interface {
	*T
	shorten()
}

// answer runs plimsoll and returns what it printed. Exit code 3 is an answer too: a finding, or a job that does not fit.
func (s *server) answer(ctx context.Context, q question) ([]byte, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	// A folder with nothing else in it: names of models are looked up in the hub's cache, never beside where the server was started.
	empty, err := os.MkdirTemp("", "plimsoll-mcp")
	if err != nil {
		return nil, fmt.Errorf("make a folder to run in: %w", err)
	}
	defer os.RemoveAll(empty)
	if q.config != nil {
		if err := os.WriteFile(filepath.Join(empty, configFile), q.config, 0o600); err != nil {
			return nil, fmt.Errorf("write the configuration: %w", err)
		}
	}
	args := append(s.Command[1:len(s.Command):len(s.Command)], q.args...)
	cmd := exec.CommandContext(ctx, s.Command[0], args...)
	var errs bytes.Buffer
	printed := limited{most: maxOutput, over: cancel}
	cmd.Dir, cmd.Env, cmd.WaitDelay = empty, s.environment(q.whole), killedLate
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(q.stdin), &printed, &limitedTail{to: &errs}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case printed.full:
		return nil, errors.New("the answer is too long; ask about fewer files")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("no answer within %s (plimsoll mcp --timeout sets another limit)", s.Timeout)
	case err == nil, errors.As(err, &exit) && exit.ExitCode() == 3:
		return printed.data.Bytes(), nil
	case errors.As(err, &exit) && errs.Len() > 0:
		return nil, errors.New(strings.TrimSpace(strings.ReplaceAll(errs.String(), "plimsoll: ", "")))
	}
	return nil, fmt.Errorf("run plimsoll %s: %w", q.args[0], err)
}

// environment is that of the server, without the programs on the PATH where none may be run.
func (s *server) environment(whole bool) []string {
	env := []string{"GOMEMLIMIT=4GiB"}
	for _, entry := range s.Env {
		name, _, _ := strings.Cut(entry, "=")
		if whole || name != "PATH" && name != "VIRTUAL_ENV" && name != "CONDA_PREFIX" {
			env = append(env, entry)
		}
	}
	return env
}

// limited keeps what is written until it is too much.
type limited struct {
	data bytes.Buffer
	most int
	over func()
	full bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.data.Len()+len(p) > l.most {
		l.full = true
		l.over()
		return len(p), nil
	}
	return l.data.Write(p)
}

// limitedTail keeps the first kilobytes of what is said on stderr.
type limitedTail struct{ to *bytes.Buffer }

func (l *limitedTail) Write(p []byte) (int, error) {
	const most = 8 << 10
	l.to.Write(p[:min(len(p), most-min(most, l.to.Len()))])
	return len(p), nil
}
