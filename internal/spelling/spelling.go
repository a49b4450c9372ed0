// Package spelling finds the word a person meant.
//
// In go a word nobody knows and the words that are known; out comes the nearest one, for messages of the kind
// "did you mean adamw?". Words too far from all known ones get no suggestion: a wrong guess is worse than none.
package spelling

import (
	"slices"
	"strings"
)

// Nearest is the known word closest to word, or "" where none is close. Ties go to the earlier one.
func Nearest(word string, known []string) string {
	best, distance := "", len(word)/3+2
	for _, k := range known {
		if d := edits(strings.ToLower(word), strings.ToLower(k), distance); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// Hint is " (did you mean X?)", or " (known: …)" where nothing is near.
func Hint(word string, known []string) string {
	if n := Nearest(word, known); n != "" {
		return " (did you mean " + n + "?)"
	}
	return " (known: " + strings.Join(known, ", ") + ")"
}

// edits counts insertions, deletions, replacements and swaps of neighbours; it gives up at limit.
func edits(a, b string, limit int) int {
	if len(a) > 64 || len(b) > 64 || max(len(a)-len(b), len(b)-len(a)) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		if slices.Min(row) >= limit {
			return limit
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
