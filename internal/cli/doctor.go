package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/doctor"
	"github.com/plimsoll/plimsoll/internal/machine"
	"github.com/plimsoll/plimsoll/internal/report"
	"github.com/plimsoll/plimsoll/internal/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

type doctorOptions struct {
	json bool
}

func newDoctorCommand(env Env) *cobra.Command {
	var opts doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor [--json]",
		Short: "what is wrong or risky on this machine, and the fix",
		Long: `Doctor looks once at the driver, the cards, the processes on them, the PyTorch
on the path, host memory, /dev/shm and the variables that steer PyTorch's
allocator, and reports what is wrong with the fix for each. It changes nothing
and needs no GPU; run it in the shell and environment you train in.

Exit codes: 0 nothing wrong, 3 something is.`,
		Example: `  plimsoll doctor
  plimsoll doctor --json | jq '.findings[].title'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), env, opts) },
	}
	cmd.Flags().BoolVar(&opts.json, "json", false, "print JSON")
	return cmd
}

func runDoctor(ctx context.Context, env Env, opts doctorOptions) error {
	found := doctor.Examine(machine.Here().Facts(ctx))
	if err := printDoctor(env, opts, found); err != nil {
		return err
	}
	for _, f := range found.Findings {
		if f.Severity == report.Error {
			return findingExit()
		}
	}
	return nil
}

func printDoctor(env Env, opts doctorOptions, d report.Doctor) error {
	if opts.json {
		e := json.NewEncoder(env.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(d)
	}
	s := screen.New(env.Stdout, env.Style)
	s.Paragraph(0, s.Ink(screen.Bold, doctorVerdict(d)))
	s.Blank()
	for _, f := range d.Findings {
		printDoctorFinding(s, f)
	}
	for _, part := range []struct {
		lead  string
		items []string
	}{{"machine    ", machineWords(d.Machine)}, {"fine       ", d.Fine}, {"not known  ", d.Unknown}} {
		if len(part.items) > 0 {
			s.Hanging(part.lead, screen.Faint, screen.Clean(strings.Join(part.items, " · ")))
		}
	}
	return s.Err()
}

func doctorVerdict(d report.Doctor) string {
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
		return "Nothing wrong was found."
	}
	return strings.Join(parts, ", ") + "."
}

func printDoctorFinding(s *screen.Screen, f report.Finding) {
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
	if m.Shm > units.Bytes(0) {
		out = append(out, "/dev/shm "+m.Shm.Short())
	}
	return out
}
