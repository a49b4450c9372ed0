package textout

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// Doctor prints the answer of plimsoll doctor: what is wrong with its fix, then what is fine and what could not be known.
func Doctor(s *screen.Screen, d *report.Doctor) {
	s.Paragraph(0, s.Ink(screen.Bold, doctorVerdict(d)))
	s.Blank()
	for _, f := range d.Findings {
		doctorFinding(s, f)
	}
	for _, part := range []struct {
		lead  string
		items []string
	}{{"machine    ", machineWords(d.Machine)}, {"fine       ", d.Fine}, {"not known  ", d.Unknown}} {
		if len(part.items) > 0 {
			s.Hanging(part.lead, screen.Faint, screen.Clean(strings.Join(part.items, " · ")))
		}
	}
}

func doctorVerdict(d *report.Doctor) string {
	count := map[string]int{}
	for _, f := range d.Findings {
		count[f.Severity]++
	}
	var parts []string
	for _, p := range []struct{ severity, one, many string }{
		{report.Error, "1 thing is wrong", "%d things are wrong"}, {report.Warning, "1 is risky", "%d are risky"}, {report.Remark, "1 note", "%d notes"},
	} {
		switch n := count[p.severity]; n {
		case 0:
		case 1:
			parts = append(parts, p.one)
		default:
			parts = append(parts, fmt.Sprintf(p.many, n))
		}
	}
	if len(parts) == 0 {
		return "No problems found."
	}
	verdict := strings.Join(parts, ", ") + "."
	if count[report.Error] == 0 { // nothing before it says what is counted
		verdict = strings.Replace(strings.Replace(verdict, "1 is risky", "1 thing is risky", 1), " are risky", " things are risky", 1)
	}
	return verdict
}

func doctorFinding(s *screen.Screen, f report.Finding) {
	ink, lead := screen.Plain, "i   "
	switch f.Severity {
	case report.Error:
		ink, lead = screen.Red, "!!  "
	case report.Warning:
		ink, lead = screen.Yellow, "!   "
	}
	s.Hanging(lead, ink, screen.Clean(f.Title))
	for _, e := range f.Evidence {
		s.Hanging("    ", screen.Plain, screen.Clean(e))
	}
	for _, r := range f.Remedies {
		s.Hanging("    fix  ", screen.Green, screen.Clean(r.Action))
		if r.Command != "" {
			s.Line("         ", s.Ink(screen.Cyan, screen.Clean(r.Command)))
		}
	}
	s.Blank()
}

func machineWords(m report.Machine) []string {
	var out []string
	add := func(format, value string) {
		if value != "" {
			out = append(out, fmt.Sprintf(format, value))
		}
	}
	for _, c := range m.Cards {
		out = append(out, fmt.Sprintf("GPU %d %s %s", c.Index, c.Name, c.Total.Short()))
	}
	add("driver %s", m.Driver)
	add("CUDA %s", m.DriverCUDA)
	add("PyTorch %s", m.Torch)
	add("toolkit %s", m.Toolkit)
	add("Python %s", m.Python)
	add("kernel %s", m.Kernel)
	if m.HostTotal > 0 {
		out = append(out, "host "+m.HostAvailable.Short()+" free of "+m.HostTotal.Short())
	}
	if m.Shm > 0 {
		out = append(out, "/dev/shm "+m.Shm.Short())
	}
	return out
}
