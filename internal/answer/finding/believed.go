package finding

import (
	_ "embed"
	"math"
)

// Tally counts how often a finding that was named first was right, on recordings of programs whose mistake is known.
type Tally struct {
	Answers int
	Right   int // it was the mistake that the program's author had named
	AsWell  int // it was not, but is true of the program as well
}

// Doubt is what is believed of a finding that was never measured, and the weight of that belief in answers: seven right of ten. It is a little below what answers on programs that the rules had not
// seen came to (77 to 80 %), since the rules were mended where recordings showed them wrong.
const (
	doubtRight   = 7
	doubtAnswers = 10
)

// Rate is how often a finding is right, as far as the counts show it; true as well counts half. Few answers stay near what is believed of any finding.
func (t Tally) Rate() float64 {
	return (float64(t.Right) + float64(t.AsWell)/2 + doubtRight) / float64(t.Answers+doubtAnswers)
}

// Believed is the confidence of a finding of a recording: what its rule and the play claim, and no more than what was measured for the finding.
func Believed(id string, claimed float64) float64 {
	if len(measured) == 0 { // while it is being measured
		return claimed
	}
	return Least(measured[id], claimed)
}

// Least is the smaller of a claim and a measured rate, as a whole per cent.
func Least(t Tally, claimed float64) float64 {
	return math.Round(100*min(claimed, t.Rate())) / 100
}

//go:embed calibration.md
var calibration string
