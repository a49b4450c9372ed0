package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	card "github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/cudnn"
	"github.com/plimsoll/plimsoll/internal/script/modelcode"
	"github.com/plimsoll/plimsoll/scripts/gpu"
)

// measureWorkspaces measures what cuDNN takes on this machine's card: the rows, and the table that predict reads.
func measureWorkspaces(ctx context.Context, env Env, opts doctorOptions) error {
	if !strings.HasSuffix(opts.out, ".jsonl.gz") {
		return usageError("--out %s: the name of a file of rows ends in .jsonl.gz", opts.out)
	}
	python, err := (&modelcode.Reader{Python: opts.python, Env: env.environ()}).Bare()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, python, "-", "--minutes", fmt.Sprint(opts.minutes), "--out", opts.out)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = bytes.NewReader(gpu.Workspaces), env.Stderr, env.Stderr, env.environ()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s did not measure: %w", python, err)
	}
	measured, rows, err := readMeasured(opts.out)
	if err != nil {
		return fmt.Errorf("%s: %w", opts.out, err)
	}
	table := strings.TrimSuffix(opts.out, ".jsonl.gz") + ".table"
	grown, err := cudnn.Grow(rows, cudnn.Growth{Card: measured, Trees: 6, Tries: 30, Least: 2, Seed: 1})
	if err != nil {
		return fmt.Errorf("%s: %w; measure for longer with --minutes", opts.out, err)
	}
	if err := os.WriteFile(table, grown.Encode(), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%d convolutions measured on %s with cuDNN %d.\n%s has the rows, %s what predict reads:\n  plimsoll predict --workspaces %s …\n",
		len(rows), measured.Name, measured.CuDNN, opts.out, table, table)
	return err
}

func readMeasured(name string) (cudnn.Card, []cudnn.Row, error) {
	f, err := os.Open(name)
	if err != nil {
		return cudnn.Card{}, nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return cudnn.Card{}, nil, err
	}
	return cudnn.ReadRows(z)
}

// readWorkspaces reads a table of workspaces, which must be of the card's kind.
func readWorkspaces(name string, c card.Card) (*cudnn.Table, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	t, err := cudnn.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; plimsoll doctor --measure-workspaces writes one", name, err)
	}
	if want := [2]int{c.Major, c.Minor}; t.Card.Capability != want {
		return nil, fmt.Errorf("%s was measured on a card of compute capability %d.%d, but %s has %d.%d", name, t.Card.Capability[0], t.Card.Capability[1], c.Title, c.Major, c.Minor)
	}
	return t, nil
}
