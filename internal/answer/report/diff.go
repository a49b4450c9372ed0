package report

import "github.com/plimsoll/plimsoll/internal/units"

// Diff is the answer of plimsoll diff.
type Diff struct {
	Schema     string   `json:"schema"`
	Before     Side     `json:"before"`
	After      Side     `json:"after"`
	ByCategory []Change `json:"by_category"`
	ByLine     []Change `json:"by_line"`
	// ByHolder says who held more or less at the ends of the recordings; absent where the probe did not look in both.
	ByHolder []HolderChange `json:"by_holder,omitempty"`
}

// HolderChange is what one holder held at the ends of the two recordings.
type HolderChange struct {
	Name        string      `json:"name"`
	Role        string      `json:"role,omitempty"`
	Before      units.Bytes `json:"before"`
	After       units.Bytes `json:"after"`
	CountBefore int         `json:"count_before"`
	CountAfter  int         `json:"count_after"`
}

// DiffSchema names the form of Diff.
const DiffSchema = "plimsoll.diff/1"

// Side is one of the two runs.
type Side struct {
	Input   string      `json:"input"`
	Device  int         `json:"device"`
	Events  int         `json:"events"`
	Peak    Level       `json:"peak"`
	End     Level       `json:"end"`
	Steps   int         `json:"steps"`
	PerStep units.Bytes `json:"growth_per_step"`
	Certain bool        `json:"certain"`
}

// Change is what one category or one line held at the two peaks.
type Change struct {
	Category    string      `json:"category"`
	Where       *Place      `json:"where,omitempty"`
	WasLine     int         `json:"was_line,omitempty"` // the line number in the first run, where it moved
	Before      units.Bytes `json:"before"`
	After       units.Bytes `json:"after"`
	CountBefore int         `json:"count_before,omitempty"`
	CountAfter  int         `json:"count_after,omitempty"`
}

// Amount is bytes in a number of tensors.
type Amount struct {
	Bytes units.Bytes
	Count int
}
