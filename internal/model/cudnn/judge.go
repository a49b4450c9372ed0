package cudnn

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Verdict counts how a table answers for measured passes.
type Verdict struct {
	Passes, Good    int // good: within 2 % or 1 MiB
	Said, Were      units.Bytes
	Sure, SureRight int // answers at least nine of ten trees agree on, and those of them that are good
}

func (v *Verdict) add(n Need, bytes units.Bytes) {
	off := max(n.Takes-bytes, bytes-n.Takes)
	good := off <= max(bytes/50, units.MiB)
	v.Passes++
	v.Said += n.Takes
	v.Were += bytes
	if good {
		v.Good++
	}
	if n.Sure >= 0.9 {
		v.Sure++
		if good {
			v.SureRight++
		}
	}
}

// Share is the good answers of all.
func (v Verdict) Share() float64 { return float64(v.Good) / float64(max(1, v.Passes)) }

// Off is how far the sum over all passes is.
func (v Verdict) Off() float64 {
	if v.Were == 0 {
		return 0
	}
	return float64(v.Said)/float64(v.Were) - 1
}

func (v Verdict) String() string {
	return fmt.Sprintf("%6d passes, %5.1f %% within 2 %% or 1 MiB, sum %+5.1f %%; sure of %d, right in %.1f %% of them",
		v.Passes, 100*v.Share(), 100*v.Off(), v.Sure, 100*float64(v.SureRight)/float64(max(1, v.Sure)))
}

// Verdicts are those of the passes apart, and of all.
type Verdicts struct {
	Pass [passes]Verdict
	All  Verdict
}

// Judge compares a table with measurements of a mode.
func Judge(t *Table, rows []Row, m Mode) Verdicts {
	var out Verdicts
	for _, r := range rows {
		c, ok := r.Conv()
		measured, has := r.In(m)
		if !ok || !has {
			continue
		}
		for _, p := range Passes() {
			n := t.Need(c, p, m)
			out.Pass[p].add(n, measured.Of(p))
			out.All.add(n, measured.Of(p))
		}
	}
	return out
}

func (v Verdicts) String() string {
	var b strings.Builder
	for i, name := range []string{"forward", "input gradient", "weight gradient"} {
		fmt.Fprintf(&b, "%-16s %s\n", name, v.Pass[i])
	}
	fmt.Fprintf(&b, "%-16s %s\n", "all", v.All)
	return b.String()
}
