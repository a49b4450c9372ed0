package cli

import (
	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
)

// grownShown is how many growing holders a run that lived is told.
const grownShown = 2

// sayGrowth names who keeps the memory of a run that grew and lived, from the recording made when that was sure.
func sayGrowth(env Env, recording string, say func(string)) {
	if recording == "" {
		return
	}
	all, err := readEvidence(env, []string{recording})
	if err != nil {
		return // the closing lines tell the growth itself
	}
	for _, h := range growing(all) {
		say("it grows here: " + screen.Clean(textout.HolderWords(&h)) + ", " + h.Bytes.Short() + " so far.")
	}
}

// growing lists the holders that every step adds to, largest first.
func growing(all []explain.Evidence) []report.Holder {
	var out []report.Holder
	for _, e := range all {
		if e.Holders == nil {
			continue
		}
		for _, c := range explain.Timelines(e) {
			rows, _ := explain.Holders(c)
			for _, h := range rows {
				if h.PerStep > 0 && len(out) < grownShown {
					out = append(out, h)
				}
			}
		}
	}
	return out
}
