package fuzz

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestReadersOverMutations reads mutated inputs in this process, many times as many a second as Go's fuzzer, which hands every input to another process. An
// input is kept and mutated further when a reader says something of it that it has not said before. A seed gives the same inputs on every machine.
// PLIMSOLL_MUTATIONS sets how many a reader gets, PLIMSOLL_MUTATION_SEED where they begin.
func TestReadersOverMutations(t *testing.T) {
	n, seed := number(t, "PLIMSOLL_MUTATIONS", 2_000), number(t, "PLIMSOLL_MUTATION_SEED", 1)
	for _, name := range slices.Sorted(maps.Keys(readers)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &mutator{Rand: rand.New(rand.NewPCG(uint64(seed), 0)), reader: readers[name], said: map[string]bool{}}
			if err := m.run(n); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d executions, %d inputs kept", n, len(m.kept))
		})
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// Inputs stay small, so that there are many, and the kept ones few enough that none is forgotten.
const (
	longest  = 4096
	mostKept = 2000
)

type mutator struct {
	*rand.Rand
	reader reader
	kept   [][]byte
	said   map[string]bool
}

func (m *mutator) run(n int) error {
	for _, s := range m.reader.seeds {
		m.kept = append(m.kept, []byte(s))
	}
	for range n {
		data := m.next()
		said, err := m.try(data)
		if err != nil {
			return fmt.Errorf("%q: %w", data, err)
		}
		if shape := shapeOf(said); !m.said[shape] && len(m.kept) < mostKept {
			m.said[shape] = true
			m.kept = append(m.kept, data)
		}
	}
	return nil
}

// try turns a panic into an error.
func (m *mutator) try(data []byte) (said string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return m.reader.try(data)
}

// shapeOf is what a reader says without its numbers and quoted words.
func shapeOf(said string) string {
	var b strings.Builder
	quoted := false
	for _, r := range said {
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && (r < '0' || r > '9'):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// edges are numbers and words that break readers.
var edges = []string{
	"0", "-1", "1e999", "NaN", "Infinity", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615", "0.1", "1e-9",
	"null", "true", "{}", "[]", `""`, `"\u0000"`, `"\ud800"`, "\x1b[2J", "\u202e", "\x00", "\xff\xfe", "\r\n", "'''", `\`, "(((((((((", "[[[[[[[[[",
	`{"a":{"a":`, "GiB", "CUDA out of memory. ", "Tried to allocate ", "\x80\x04\x95", "\x80\x02}q\x00(", "c__builtin__\nexec\n", "R.", "\x28\xb5\x2f\xfd",
	"\x1f\x8b\x08", "\t", ":", ",", "=",
}

// next is a kept input after one to eight changes.
func (m *mutator) next() []byte {
	data := slices.Clone(m.kept[m.IntN(len(m.kept))])
	for range 1 + m.IntN(8) {
		data = m.change(data)
	}
	return data[:min(len(data), longest)]
}

func (m *mutator) change(data []byte) []byte {
	from := m.IntN(len(data) + 1)
	to := from + m.IntN(min(len(data)-from, 32)+1)
	switch m.IntN(7) {
	case 0: // another byte
		if from < len(data) {
			data[from] = byte(m.Uint32())
		}
	case 1: // one bit
		if from < len(data) {
			data[from] ^= 1 << m.IntN(8)
		}
	case 2: // a piece less
		data = slices.Delete(data, from, to)
	case 3: // a piece twice
		data = slices.Insert(data, from, slices.Clone(data[from:to])...)
	case 4: // a piece of another input
		other := m.kept[m.IntN(len(m.kept))]
		start := m.IntN(len(other) + 1)
		data = slices.Insert(data, from, other[start:start+m.IntN(min(len(other)-start, 64)+1)]...)
	case 5: // something that breaks readers
		data = slices.Insert(data, from, []byte(edges[m.IntN(len(edges))])...)
	case 6: // the same in place of a piece
		data = slices.Replace(data, from, to, []byte(edges[m.IntN(len(edges))])...)
	}
	return data
}
