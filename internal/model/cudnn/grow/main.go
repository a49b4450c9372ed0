// Command grow makes the table of workspaces of one compute capability from measured rows.
//
// It takes files of rows (scripts/gpu/workspaces.py), gzipped or not and returns the table that the package cudnn embeds, and on the
// terminal how it answers for the fifth of the rows that it was not grown from. Rows that cannot be read end it with an error.
//
//	go run ./internal/model/cudnn/grow -out sm90.table rows.jsonl.gz …
//
// grows a table from files of rows.
package main

import (
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/cudnn"
)

func main() {
	out := flag.String("out", "", "file to write the table to")
	trees := flag.Int("trees", 12, "trees of each pass")
	tries := flag.Int("tries", 150, "random questions a node chooses from")
	whole := flag.Bool("whole", false, "write a table grown from all rows; without it a fifth is kept aside, which the tests look at")
	flag.Parse()
	if err := run(*out, flag.Args(), cudnn.Growth{Trees: *trees, Tries: *tries, Seed: 1}, *whole); err != nil {
		fmt.Fprintln(os.Stderr, "grow:", err)
		os.Exit(1)
	}
}

func run(out string, files []string, g cudnn.Growth, whole bool) error {
	var rows, kept, aside []cudnn.Row
	for _, f := range files {
		card, read, err := open(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if g.Card.SMs != 0 && card.SMs != g.Card.SMs {
			return fmt.Errorf("%s: %s has %d multiprocessors, the rows before it %d: a table is of one card", f, card.Name, card.SMs, g.Card.SMs)
		}
		g.Card = card
		rows = append(rows, read...)
	}
	for _, r := range rows {
		if r.Aside() {
			aside = append(aside, r)
		} else {
			kept = append(kept, r)
		}
	}
	table := cudnn.Grow(kept, g)
	fmt.Printf("%d rows, %d kept aside\n", len(rows), len(aside))
	for m, name := range []string{"heuristic", "benchmark, first call", "benchmark, later calls"} {
		fmt.Printf("%s\n%s", name, cudnn.Judge(table, aside, cudnn.Mode(m)))
	}
	if out == "" {
		return nil
	}
	if whole {
		table = cudnn.Grow(rows, g)
	}
	data := table.Encode()
	fmt.Printf("%s: %d bytes\n", out, len(data))
	return os.WriteFile(out, data, 0o644)
}

func open(name string) (cudnn.Card, []cudnn.Row, error) {
	f, err := os.Open(name)
	if err != nil {
		return cudnn.Card{}, nil, err
	}
	defer f.Close()
	var from io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if from, err = gzip.NewReader(f); err != nil {
			return cudnn.Card{}, nil, err
		}
	}
	return cudnn.ReadRows(from)
}
