package recordtest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// maxLine is more than any measurement has bytes.
const maxLine = 1 << 20

// Lines reads a gzipped file of one measurement as JSON a line.
func Lines[T any](t testing.TB, file string) []T {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var rows []T
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var r T
		if err := json.Unmarshal(hfconfig.StandardJSON(lines.Bytes()), &r); err != nil {
			t.Fatalf("%s: line %d: %v", file, len(rows)+1, err)
		}
		rows = append(rows, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return rows
}
