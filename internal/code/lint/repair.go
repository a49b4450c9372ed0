package lint

import "github.com/plimsoll/plimsoll/internal/code/pysource"

// Repair is a change of the source that removes a finding.
type Repair struct {
	Title string          // what it does, for a menu
	Edits []pysource.Edit // of the source that was checked; they do not overlap
	Safe  bool            // the program does what it did; otherwise somebody has to look at it
}
