package watch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Severity orders findings.
type Severity string

// Severities, as everywhere in the tool.
const (
	SevereError   Severity = "error"
	SevereWarning Severity = "warning"
	SevereNote    Severity = "note"
)

// Finding is something about the machine's memory that a person should know now.
type Finding struct {
	ID         string
	Severity   Severity
	Confidence float64
	CardID     string
	PID        int // 0 when no single process is meant
	Title      string
	Advice     string
	Bytes      units.Bytes
}

// How near the end must be. Ten minutes is time enough to save a checkpoint; beyond a day most runs have ended.
const (
	nearEnd = 10 * time.Minute
	farEnd  = 24 * time.Hour
)

func findings(v View) []Finding {
	var out []Finding
	for _, c := range v.Cards {
		out = append(out, growthFindings(c)...)
		out = append(out, orphanFindings(c)...)
		out = append(out, strangerFindings(c)...)
	}
	out = append(out, contextFindings(v)...)
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(weight(a.Severity), weight(b.Severity)) })
	return out
}

func weight(s Severity) int {
	return slices.Index([]Severity{SevereError, SevereWarning, SevereNote}, s)
}

func growthFindings(c CardView) []Finding {
	var out []Finding
	for _, p := range c.Processes {
		if !p.Trend.Steady || loading(p.Use) {
			continue
		}
		out = append(out, growthFinding(c, p.Name(), p.PID, p.Trend))
	}
	if c.Own.Steady {
		out = append(out, growthFinding(c, "something that cannot be seen from here", 0, c.Own))
	}
	return out
}

func growthFinding(c CardView, who string, pid int, t Trend) Finding {
	f := Finding{
		ID: "growth", Severity: SevereWarning, Confidence: t.Confidence, CardID: c.ID, PID: pid, Bytes: units.Bytes(t.Slope * 60),
		Title: fmt.Sprintf("%s grows %s on %s: full in %s", who, Rate(t.Slope), c.Label(), Ago(c.TimeLeft)),
		Advice: fmt.Sprintf("it has grown without giving back for %s; look for tensors kept from step to step (a loss added up without .item(), "+
			"a list of outputs), or run it under plimsoll run to see which line holds them", Ago(t.Span)),
	}
	switch {
	case c.TimeLeft < nearEnd:
		f.Severity = SevereError
	case c.TimeLeft > farEnd:
		f.Severity = SevereNote
	}
	return f
}

// orphanFindings names the dead: each of a few, a crowd as one.
func orphanFindings(c CardView) []Finding {
	advice := fmt.Sprintf("find what still has the card open: fuser -v /dev/nvidia%d (often a worker or a defunct child of it); end that, or reset the card", c.Index)
	if len(c.Orphans) > 3 {
		f := Finding{ID: "orphan-memory", Severity: SevereWarning, Confidence: 0.9, CardID: c.ID, Advice: advice}
		for _, o := range c.Orphans {
			f.Bytes += o.Bytes
		}
		f.Title = fmt.Sprintf("%s on %s is held by %d dead processes (pids %d, %d, %d …)", f.Bytes.Short(), c.Label(), len(c.Orphans),
			c.Orphans[0].PID, c.Orphans[1].PID, c.Orphans[2].PID)
		return []Finding{f}
	}
	var out []Finding
	for _, o := range c.Orphans {
		amount, confidence := o.Bytes.Short(), 0.9
		if o.Bytes == 0 {
			amount = "memory"
		}
		if o.Listed {
			confidence = 0.99
		}
		out = append(out, Finding{
			ID: "orphan-memory", Severity: SevereWarning, Confidence: confidence, CardID: c.ID, PID: o.PID, Bytes: o.Bytes, Advice: advice,
			Title: fmt.Sprintf("%s on %s is held by %s, which is dead", amount, c.Label(), o.name()),
		})
	}
	return out
}

// strangerFindings name processes that share a card with a training process.
func strangerFindings(c CardView) []Finding {
	training := slices.ContainsFunc(c.Processes, func(p ProcessView) bool { return p.Training() })
	if !training {
		return nil
	}
	var out []Finding
	for _, p := range c.Processes {
		if p.Training() || p.Who.Gone || (p.Known && p.Bytes < orphanLeast) {
			continue
		}
		out = append(out, Finding{
			ID: "other-process", Severity: SevereWarning, Confidence: 0.9, CardID: c.ID, PID: p.PID, Bytes: p.Bytes,
			Title:  fmt.Sprintf("%s shares %s with a training process and holds %s", p.Name(), c.Label(), p.Amount()),
			Advice: "it takes memory that the training needs; move one of them to another card with CUDA_VISIBLE_DEVICES",
		})
	}
	return out
}

// contextFindings name cards on which processes of other cards hold a small second context: the usual sign of ranks that touch
// cuda:0 before torch.cuda.set_device (pytorch/pytorch issue 23138).
func contextFindings(v View) []Finding {
	home := map[int]units.Bytes{}
	for _, c := range v.Cards {
		for _, p := range c.Processes {
			home[p.PID] = max(home[p.PID], p.Bytes)
		}
	}
	var out []Finding
	for _, c := range v.Cards {
		var n int
		var sum units.Bytes
		for _, p := range c.Processes {
			if p.Known && p.Bytes*4 <= home[p.PID] {
				n, sum = n+1, sum+p.Bytes
			}
		}
		if n < 2 {
			continue
		}
		out = append(out, Finding{
			ID: "rank0-contexts", Severity: SevereWarning, Confidence: 0.9, CardID: c.ID, Bytes: sum,
			Title:  fmt.Sprintf("%d processes of other cards hold %s on %s", n, sum.Short(), c.Label()),
			Advice: "call torch.cuda.set_device(local_rank) before any other CUDA call and load checkpoints with map_location",
		})
	}
	return out
}
