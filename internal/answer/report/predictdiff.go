package report

import "github.com/plimsoll/plimsoll/internal/units"

// PredictDiffSchema names the JSON of two predictions compared.
const PredictDiffSchema = "plimsoll.predict-diff/1"

// PredictDiff is what changed between two predictions of a job, as between two branches of a project.
type PredictDiff struct {
	Schema     string       `json:"schema"`
	Title      string       `json:"title,omitempty"` // the job after the change
	Was        string       `json:"was,omitempty"`   // before it, where its description differs
	Card       string       `json:"card,omitempty"`
	Capacity   units.Bytes  `json:"capacity"`
	Peak       AmountChange `json:"peak"` // reserved bytes: what PyTorch holds of the card
	Params     AmountChange `json:"params"`
	ByCategory []NamedDiff  `json:"by_category"` // of allocated bytes at the two peaks, the largest change first
	FitBefore  bool         `json:"fit_before"`
	Fits       bool         `json:"fits"`
}

// AmountChange is a number before and after.
type AmountChange struct {
	Before units.Bytes `json:"before"`
	After  units.Bytes `json:"after"`
}

// NamedDiff is an amount of a category before and after.
type NamedDiff struct {
	Category string `json:"category"`
	AmountChange
}
