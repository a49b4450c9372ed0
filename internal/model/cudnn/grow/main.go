// Command grow makes the table of workspaces of one compute capability from measured rows.
//
// It takes files of rows (scripts/gpu/workspaces.py), gzipped or not and returns the table that the package cudnn embeds, and on the
// terminal how it answers for a fifth of the first file, whose layers are learned from no file, and for rows it is only compared with. Rows that cannot be read end it with an error.
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
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/cudnn"
)

func main() {
	out := flag.String("out", "", "file to write the table to")
	trees := flag.Int("trees", 5, "trees of each pass")
	tries := flag.Int("tries", 50, "random features a node chooses its question from")
	least := flag.Int("least", 3, "a node of fewer samples asks nothing more")
	whole := flag.Bool("whole", false, "learn from the fifth too: only the files of -judge say then how good the table is")
	seen := flag.String("seen", "", "file to write the list of layers to that the rows name, for the table that is built in: none is grown")
	wrong := flag.Int("wrong", 0, "with -seen: remember only layers of which so many passes are told wrongly (0: all that the table is not sure of)")
	keep := flag.Bool("keep", false, "with -seen: keep the layers that the built-in list has")
	judged := flag.String("judge", "", "files of rows, separated by commas, that the table is only compared with: none of them is learned from")
	flag.Parse()
	if err := run(listing{*seen, *wrong, *keep}, *out, flag.Args(), strings.FieldsFunc(*judged, func(r rune) bool { return r == ',' }), cudnn.Growth{Trees: *trees, Tries: *tries, Least: *least, Seed: 1}, *whole); err != nil {
		fmt.Fprintln(os.Stderr, "grow:", err)
		os.Exit(1)
	}
}

// listing is the list of layers that is asked for: its file, and what is remembered.
type listing struct {
	file  string
	wrong int
	keep  bool
}

func run(list listing, out string, files, judged []string, g cudnn.Growth, whole bool) error {
	var rows, kept, aside []cudnn.Row
	fifth, hidden := map[string]bool{}, map[string]bool{} // layers of the fifth of the first file; rows of the files to compare with
	for i, f := range files {
		card, read, err := open(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if g.Card.SMs != 0 && card.SMs != g.Card.SMs {
			return fmt.Errorf("%s: %s has %d multiprocessors, the rows before it %d: a table is of one card", f, card.Name, card.SMs, g.Card.SMs)
		}
		g.Card = card
		rows = append(rows, read...)
		for _, r := range read {
			if i == 0 && r.Aside() {
				fifth[r.Layer()] = true
				aside = append(aside, r)
			}
		}
	}
	seen := make([][]cudnn.Row, len(judged))
	for i, f := range judged {
		var err error
		if _, seen[i], err = open(f); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		for _, r := range seen[i] {
			hidden[r.Name()] = true
		}
	}
	rows = slices.DeleteFunc(rows, func(r cudnn.Row) bool { return hidden[r.Name()] })
	for _, r := range rows {
		if whole || !fifth[r.Layer()] {
			kept = append(kept, r)
		}
	}
	fmt.Printf("%d rows, %d of the first file in the fifth, %d to grow from\n", len(rows), len(aside), len(kept))
	if list.file != "" {
		return list.write(kept, judged, seen)
	}
	table, err := cudnn.Grow(kept, g)
	if err != nil {
		return err
	}
	if !whole {
		judge(table, "kept aside", aside)
	}
	for i, f := range judged {
		judge(table, f, seen[i])
	}
	if out == "" {
		return nil
	}
	data := table.Encode()
	fmt.Printf("%s: %d bytes\n", out, len(data))
	return os.WriteFile(out, data, 0o644)
}

// write makes the list for the table that is built in, and says how the rows it is made from are answered without it and with it.
func (l listing) write(rows []cudnn.Row, judged []string, others [][]cudnn.Row) error {
	table := cudnn.For(9, 0)
	kept := table.Remembered()
	if !l.keep {
		kept = nil
	}
	table.Remember(nil, 0, nil)
	judge(table, "without the list", rows)
	data := table.Remember(rows, l.wrong, kept)
	fmt.Printf("%s: %d layers (%d kept), %d bytes\n", l.file, len(table.Remembered()), len(kept), len(data))
	judge(table, "with it", rows)
	for i, f := range judged {
		judge(table, f, others[i])
	}
	return os.WriteFile(l.file, data, 0o644)
}

func judge(table *cudnn.Table, name string, rows []cudnn.Row) {
	for m, mode := range []string{"heuristic", "benchmark, first call", "benchmark, later calls"} {
		if v := cudnn.Judge(table, rows, cudnn.Mode(m)); v.All.Passes > 0 {
			fmt.Printf("%s, %s\n%s", name, mode, v)
		}
	}
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
