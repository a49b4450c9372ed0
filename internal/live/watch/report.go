package watch

import (
	"github.com/plimsoll/plimsoll/internal/answer/report"
)

// Report gives the view as the document of watch --json.
func (v View) Report() report.Watch {
	w := report.Watch{
		Schema: report.WatchSchema, Source: v.Origin, Driver: v.Driver, Watched: v.Watched.Seconds(), Readings: v.Readings,
		Cards: []report.WatchCard{}, Findings: []report.Finding{}, Problems: append([]string{}, v.Problems...), Error: v.Error,
	}
	if v.Readings > 0 {
		w.Time = float64(v.Time.UnixMilli()) / 1000
	}
	index := map[string]int{}
	for _, c := range v.Cards {
		index[c.ID] = c.Index
		w.Cards = append(w.Cards, c.report())
	}
	for _, f := range v.Findings {
		w.Findings = append(w.Findings, report.Finding{
			ID: f.ID, Severity: string(f.Severity), Confidence: f.Confidence, Title: f.Title, Evidence: []string{}, Where: []report.Place{},
			Bytes: f.Bytes, Device: index[f.CardID], Remedies: []report.Remedy{{Action: f.Advice, CheckedBy: report.ByRule}},
		})
	}
	return w
}

func (c CardView) report() report.WatchCard {
	out := report.WatchCard{
		ID: c.ID, Index: c.Index, Instance: natural(c.Instance), Name: c.Name, Total: c.Total, Used: c.Used, Free: c.Free, Reserved: c.Reserved,
		Peak: c.Peak, Utilization: natural(c.Utilization), Temperature: natural(c.Temperature),
		Orphans: []report.WatchOrphan{}, Processes: []report.WatchProcess{},
	}
	if c.Unattributed != unknown {
		out.Unattributed = &c.Unattributed
	}
	if c.Growth > 0 {
		left := c.TimeLeft.Seconds()
		out.GrowthPerSec, out.SecondsToFull = &c.Growth, &left
	}
	for _, o := range c.Orphans {
		out.Orphans = append(out.Orphans, report.WatchOrphan{PID: o.PID, Command: o.Who.Command, Bytes: o.Bytes, Listed: o.Listed})
	}
	for _, p := range c.Processes {
		out.Processes = append(out.Processes, p.report())
	}
	return out
}

func (p ProcessView) report() report.WatchProcess {
	out := report.WatchProcess{
		PID: p.PID, Command: p.Who.Command, User: p.Who.User, Container: p.Who.Container, Pod: p.Who.Pod, Job: p.Who.Job,
		Rank: natural(p.Who.Rank), Gone: p.Who.Gone, Hidden: p.Who.Hidden,
	}
	if p.Known {
		bytes, peak := p.Bytes, p.Peak
		out.Bytes, out.Peak = &bytes, &peak
	}
	if t := p.Trend; t.Steady {
		out.Trend = &report.WatchTrend{BytesPerSecond: t.Slope, Margin: t.Margin, Confidence: t.Confidence, Seconds: t.Span.Seconds()}
	}
	if t := p.Torch; t != nil {
		out.Torch = &report.WatchTorch{
			Allocated: t.Allocated, Reserved: t.Reserved, Cached: t.Cached(), PeakAllocated: t.PeakAllocated, Step: t.Step, Phase: t.Phase,
		}
		if t.Held != nil {
			for _, h := range t.Held.Holders {
				out.Torch.Holders = append(out.Torch.Holders, report.Holder{Name: h.Name, Bytes: h.Bytes, Count: h.Count})
			}
		}
	}
	return out
}

// natural gives nil for the -1 that stands for "none".
func natural(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
