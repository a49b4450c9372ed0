// Package spelling finds the word a person meant.
//
// It takes a word that is not known and the words that are, and returns the nearest one, for messages of the kind
// "did you mean adamw?". Words too far from all known ones get no suggestion: a wrong guess is worse than none.
package spelling

import (
	"slices"
	"strings"
)

// Nearest is the known word closest to word, or "" where none is close. Ties go to the earlier one.
func Nearest(word string, known []string) string {
	if near := Near(word, known); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Near is every known word that is closest to word; none where none is close.
func Near(word string, known []string) []string {
	var best []string
	distance := len(word)/3 + 1
	for _, k := range known {
		d := edits(strings.ToLower(word), strings.ToLower(k), distance+1)
		if d < distance {
			best, distance = best[:0], d
		}
		if d == distance && !slices.Contains(best, k) {
			best = append(best, k)
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
