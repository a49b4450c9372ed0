package plan

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

// worthwhile is how much faster a plan that changes numerics has to be before it is worth a mention.
const worthwhile = 0.95

// AnyFits tells whether a report has a plan that fits.
func AnyFits(fit *report.Fit) bool {
	return slices.ContainsFunc(fit.Plans, func(p report.Plan) bool { return p.Fits })
}

// Beyond asks once more with numerics allowed, for what is not named, and gives the plan that buys: one that fits where none did, or is clearly faster. Nil where there is none.
func Beyond(fit *report.Fit, r Request) (*report.Plan, error) {
	r.Numerics, r.Plans = true, 1
	if AnyFits(fit) {
		r.within = worthwhile * fit.Plans[0].StepMS / 1000
	}
	s, err := newSearch(r)
	if err != nil {
		return nil, err
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	found := s.ordered()
	if len(found) == 0 {
		return nil, nil
	}
	first := s.reported(found, 0)
	if !first.Fits || !first.ChangesNumerics || r.within > 0 && first.StepMS >= 1000*r.within {
		return nil, nil
	}
	return &first, nil
}
