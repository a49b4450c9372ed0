package cudnn

import (
	"bytes"
	"slices"
	"testing"
)

// TestLayersThatWereAskedAreRemembered gives a small table the rows it was grown from, and others: both are answered as they were measured, and a layer of neither as before.
func TestLayersThatWereAskedAreRemembered(t *testing.T) {
	t.Parallel()
	data, _ := measuredFile(t, "conv.jsonl.gz", `"cl"`)
	card, rows, err := ReadRows(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.DType != "fp32" || r.Last })
	grown, asked, others := rows[:600], rows[:1200], rows[1200:1400]
	table, err := Grow(grown, Growth{Card: card, Trees: 3, Tries: 10, Least: 3, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	before, apart := Judge(table, asked, Heuristic).All, Judge(table, others, Heuristic).All
	list := table.Remember(asked, 0, nil)
	after, still := Judge(table, asked, Heuristic).All, Judge(table, others, Heuristic).All
	t.Logf("before %v\nafter  %v\n%d bytes", before, after, len(list))
	if after.Share() < 0.9 || after.Share() <= before.Share() {
		t.Error("layers that were asked are not answered as they were")
	}
	if still != apart {
		t.Errorf("layers that were not asked are answered otherwise: %v, before %v", still, apart)
	}
	if again := table.Remember(nil, 0, table.Remembered()); !bytes.Equal(again, list) {
		t.Error("a list that is kept as it is is another one")
	}
	other, err := Grow(grown[:300], Growth{Card: card, Trees: 3, Tries: 10, Least: 3, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if other.recall(list) == nil {
		t.Error("a list of another table was taken")
	}
	for i := range list {
		if i%997 == 0 {
			broken := slices.Clone(list)
			broken[i] ^= 0x55
			_ = table.recall(broken[:len(broken)-i%5])
			Judge(table, others[:3], Heuristic)
		}
	}
}

// TestRowsOfTheListAreAnsweredAsTheyWereAsked compares the built-in list with rows it was written from.
func TestRowsOfTheListAreAnsweredAsTheyWereAsked(t *testing.T) {
	t.Parallel()
	hidden := map[string]bool{}
	for _, name := range []string{"h200-later.jsonl.gz", "h200-unseen.jsonl.gz", "h200-dims.jsonl.gz"} {
		for _, r := range rowsOf(t, name) {
			hidden[r.Name()] = true
		}
	}
	for _, r := range rowsOf(t, "conv.jsonl.gz") {
		if r.Aside() {
			hidden[r.Layer()] = true
		}
	}
	rows := slices.DeleteFunc(rowsOf(t, "h200-asked.jsonl.gz"), func(r Row) bool { return hidden[r.Name()] || hidden[r.Layer()] })
	found := Judge(For(9, 0), rows, Heuristic).All
	t.Logf("%d rows: %v", len(rows), found)
	if len(rows) < 4000 || found.Share() < 0.99 {
		t.Error("rows that the list was written from are not answered as they were")
	}
}

func rowsOf(t *testing.T, name string) []Row {
	t.Helper()
	data, _ := measuredFile(t, name, `"cl"`)
	_, rows, err := ReadRows(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestWorkspacesStayBelowTheirBound compares what a convolution takes at most with rows the table was not grown from.
func TestWorkspacesStayBelowTheirBound(t *testing.T) {
	t.Parallel()
	passes, above := 0, 0
	for _, name := range []string{"h200-later.jsonl.gz", "h200-unseen.jsonl.gz", "h200-dims.jsonl.gz"} {
		data, _ := measuredFile(t, name, `"cl"`)
		_, rows, err := ReadRows(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			c, ok := r.Conv()
			measured, has := r.In(Heuristic)
			if !ok || !has {
				continue
			}
			for _, p := range Passes() {
				passes++
				if need := For(9, 0).Need(c, p, Heuristic); measured.Of(p) > need.Bound+max(need.Bound/50, 1<<20) {
					above++
				}
			}
		}
	}
	t.Logf("%d of %d passes took more than their bound", above, passes)
	if above*100 > passes {
		t.Error("more than one pass in a hundred is above its bound")
	}
}
