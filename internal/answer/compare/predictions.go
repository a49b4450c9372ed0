package compare

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Predictions tells what changed between two predictions.
func Predictions(before, after *report.Prediction) *report.PredictDiff {
	d := &report.PredictDiff{
		Schema: report.PredictDiffSchema, Title: after.Title, Card: after.Card, Capacity: after.Capacity, FitBefore: before.Fits, Fits: after.Fits,
		Peak:       report.AmountChange{Before: before.Peak.Reserved, After: after.Peak.Reserved},
		Params:     report.AmountChange{Before: units.Bytes(before.Params), After: units.Bytes(after.Params)},
		ByCategory: []report.NamedDiff{},
	}
	if before.Title != after.Title {
		d.Was = before.Title
	}
	for _, category := range categories(before, after) {
		c := report.AmountChange{Before: before.ByCategory[category], After: after.ByCategory[category]}
		if c.Before != 0 || c.After != 0 {
			d.ByCategory = append(d.ByCategory, report.NamedDiff{Category: category, AmountChange: c})
		}
	}
	slices.SortStableFunc(d.ByCategory, func(a, b report.NamedDiff) int { return cmp.Compare(size(b), size(a)) })
	return d
}

func size(c report.NamedDiff) units.Bytes { return max(c.After-c.Before, c.Before-c.After) }

// categories are the names of both, in order.
func categories(before, after *report.Prediction) []string {
	var all []string
	for _, p := range []*report.Prediction{before, after} {
		for name := range p.ByCategory {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
