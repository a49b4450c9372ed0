// Package textout prints reports for people at a terminal.
//
// It takes a report and a screen and returns lines that fit 80 columns and say the answer first, then the evidence, then what to do.
// It formats and never computes: every number on the screen stands in the report.
package textout

import (
	"fmt"
	"sort"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// maxCauses is how many causes a screen tells in full.
const maxCauses = 3

// Explain prints the answer of plimsoll explain.
func Explain(s *screen.Screen, r *report.Explain) {
	headline(s, r)
	if d := SpokenOf(r); d != nil { // the others have a line each
		s.Blank()
		levels(s, r, d)
		categories(s, d)
		held(s, d)
	}
	others(s, r)
	causes(s, r)
	remedies(s, r)
	notes(s, r)
	next(s, r.Next)
}

// next ends an answer with the one command to go on with, on a line of its own to be copied.
func next(s *screen.Screen, n *report.NextStep) {
	if n == nil {
		return
	}
	s.Blank()
	s.Line(s.Ink(screen.Bold, "Next: "), n.Why)
	for _, line := range commandLines(screen.Clean(n.Command), s.Width()) {
		s.Line(line)
	}
}

// commandLines breaks a command before its flags, as a shell reads it.
func commandLines(command string, width int) []string {
	var lines []string
	line := "  "
	for i, part := range strings.Split(command, " --") {
		if i > 0 {
			part = "--" + part
		}
		switch {
		case i == 0:
			line += part
		case screen.Columns(line)+1+screen.Columns(part)+2 <= width:
			line += " " + part
		default:
			lines = append(lines, line+` \`)
			line = "    " + part
		}
	}
	return append(lines, line)
}

// Headline says in one or two sentences what happened, for any kind of page.
func Headline(r *report.Explain) string {
	text, _ := verdict(r)
	return text
}

// headline says in one or two sentences what happened.
func headline(s *screen.Screen, r *report.Explain) {
	text, ink := verdict(r)
	for _, line := range screen.Wrap(text, s.Width()) {
		s.Line(s.Ink(ink, line))
	}
}

func verdict(r *report.Explain) (string, screen.Ink) {
	if d, o := lastOOM(r); o != nil {
		return oomVerdict(r, d, o), screen.Bold
	}
	if r.Message != nil {
		return messageVerdict(r), screen.Bold
	}
	if len(r.Devices) == 0 {
		return "No out-of-memory error and no snapshot was found in the input.", screen.Bold
	}
	d := SpokenOf(r)
	if d.Events == 0 {
		return fmt.Sprintf("The file has no history of GPU %d, only its state when it was written: %s in use, %s reserved by PyTorch.", d.Device, d.End.Requested, d.End.Reserved), screen.Bold
	}
	text := fmt.Sprintf("GPU %d never ran out of memory here: at most %s in use, %s reserved by PyTorch.", d.Device, d.Peak.Requested, d.Peak.Reserved)
	if worst := firstOf(r, report.Error, report.Warning); worst != nil {
		text += " But " + lowerFirst(worst.Title) + "."
	}
	return text, screen.Bold
}

// SpokenOf is the device that the headline, the first numbers and the first cause speak of: the one that failed, or the one with the highest peak; nil where
// there is none.
func SpokenOf(r *report.Explain) *report.Device {
	if d, o := lastOOM(r); o != nil {
		return d
	}
	var highest *report.Device
	for i := range r.Devices {
		if highest == nil || r.Devices[i].Peak.Requested > highest.Peak.Requested {
			highest = &r.Devices[i]
		}
	}
	return highest
}

func oomVerdict(r *report.Explain, d *report.Device, o *report.OOM) string {
	who := fmt.Sprintf("GPU %d", d.Device)
	if len(r.Devices) > 1 {
		who = fmt.Sprintf("%s: ", shortNames(r)[d.Input]) + who
	}
	text := who + " ran out of memory" + during(o.Phase)
	left := max(0, o.Capacity-o.Held)
	text += fmt.Sprintf(": %s requested, %s left", o.Requested, left)
	if o.Segment > o.Requested && o.Requested <= left {
		text = fmt.Sprintf("%s ran out of memory%s: %s requested, which PyTorch takes from a new segment of %s, and %s left", who, during(o.Phase), o.Requested, o.Segment.Short(), left)
	}
	switch o.CapacityFrom {
	case "bounds":
		inferred := "inferred"
		if low, high := o.CapacityLow.Short(), o.CapacityHigh.Short(); low != high {
			inferred = fmt.Sprintf("inferred: between %s and %s", low, high)
		}
		return text + fmt.Sprintf(" of the %s this process may use (%s).", o.Capacity, inferred)
	case "driver":
		return text + fmt.Sprintf(" of the %s this process could have.", o.Capacity)
	}
	return text + fmt.Sprintf(" of the %s this process may use.", o.Capacity)
}

// during says when in the life of a job it happened, where that is known.
func during(phase string) string {
	where := map[string]string{"load": "while loading the model", "forward": "in the forward pass", "backward": "in the backward pass",
		"optimizer": "in the optimizer step", "eval": "in evaluation"}[phase]
	if where == "" {
		return ""
	}
	return " " + where
}

func messageVerdict(r *report.Explain) string {
	m := r.Message
	text := "Ran out of memory"
	if m.Device >= 0 {
		text = fmt.Sprintf("GPU %d ran out of memory", m.Device)
	}
	if f := firstOf(r, report.Error, report.Warning, report.Remark); f != nil && finding.Is(f.ID, finding.Verdict) {
		return upperFirst(f.Title) + "."
	}
	text += during(m.Phase)
	var parts []string
	if m.Requested != nil {
		parts = append(parts, fmt.Sprintf("%s requested", *m.Requested))
	}
	if m.Free != nil {
		parts = append(parts, fmt.Sprintf("%s free", *m.Free))
	}
	if m.Allowed != nil {
		parts = append(parts, fmt.Sprintf("%s allowed to this process", *m.Allowed))
	}
	if m.Capacity != nil {
		parts = append(parts, fmt.Sprintf("%s in all", *m.Capacity))
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text + "."
}

// levelWidth is the column of the first of two numbers side by side.
const levelWidth = 40

// levels prints the two numbers people mix up, side by side.
func levels(s *screen.Screen, r *report.Explain, d *report.Device) {
	if len(r.Devices) > 1 {
		s.Line("  ", s.Ink(screen.Bold, tail(screen.Clean(shortNames(r)[d.Input]), s.Width()-10)+fmt.Sprintf(", GPU %d", d.Device)))
	}
	left := fmt.Sprintf("%s in use at the peak", d.Peak.Requested)
	if d.Events == 0 {
		left = fmt.Sprintf("%s in use", d.End.Requested)
	}
	right := fmt.Sprintf("%s reserved by PyTorch", d.Peak.Reserved)
	if 2+levelWidth+screen.Columns(right) > s.Width() {
		s.Line("  ", left)
		s.Line("  ", right)
		return
	}
	s.Line("  ", screen.Pad(left, levelWidth), right)
}

// categories draws what held the memory at the peak.
func categories(s *screen.Screen, d *report.Device) {
	type row struct {
		name  string
		bytes units.Bytes
	}
	var rows []row
	var total units.Bytes
	for name, b := range d.AtPeak.ByCategory {
		total += b
		if b > 0 {
			rows = append(rows, row{name, b})
		}
	}
	sort.Slice(rows, func(i, j int) bool {
		return rows[i].bytes > rows[j].bytes || rows[i].bytes == rows[j].bytes && rows[i].name < rows[j].name
	})
	width := s.Width() - 44
	for _, row := range rows {
		if 1000*row.bytes < total {
			continue
		}
		bar := s.Ink(categoryInk(row.name), s.Bar(float64(row.bytes), float64(total), width))
		s.Line("  ", bar, " ", screen.Pad(row.name, 13), screen.PadLeft(row.bytes.Short(), 11), screen.PadLeft(units.Percent(row.bytes, total), 7))
	}
	if !d.AtPeak.Certain && len(rows) > 0 {
		s.Line("  ", s.Ink(screen.Faint, "(no stacks: categories inferred from lifetimes)"))
	}
}

func categoryInk(name string) screen.Ink {
	switch name {
	case "parameters":
		return screen.Blue
	case "gradients":
		return screen.Green
	case "optimizer":
		return screen.Purple
	case "activations":
		return screen.Yellow
	case "inputs":
		return screen.Cyan
	}
	return screen.Faint
}

// others prints a line for every rank that is not shown in full.
func others(s *screen.Screen, r *report.Explain) {
	if len(r.Devices) < 2 {
		return
	}
	s.Blank()
	names := shortNames(r)
	width := min(36, s.Width()-rankWidth)
	for i := range r.Devices {
		d := &r.Devices[i]
		mark := "  "
		if d.Input == r.Outlier {
			mark = "» "
		}
		state := "fine"
		if len(d.OOM) > 0 {
			state = "out of memory"
		}
		s.Line(mark, screen.Pad(tail(screen.Clean(names[d.Input]), width), width+1), screen.Pad(fmt.Sprintf("GPU %d", d.Device), 6),
			screen.PadLeft(d.Peak.Requested.String(), 11), "  ", state)
	}
}

// rankWidth is what a rank's line takes beside its name.
const rankWidth = 2 + 1 + 6 + 11 + 2 + 13

// shortNames are the inputs without the folders that they share.
func shortNames(r *report.Explain) map[string]string {
	names := map[string]string{}
	shared, first := "", true
	for i := range r.Devices {
		folder := r.Devices[i].Input
		folder = folder[:len(folder)-len(base(folder))]
		if first {
			shared, first = folder, false
		}
		for !strings.HasPrefix(folder, shared) {
			shared = strings.TrimRight(shared, `/\`)
			shared = shared[:len(shared)-len(base(shared))]
		}
	}
	for i := range r.Devices {
		name := r.Devices[i].Input
		names[name] = name[len(shared):]
	}
	return names
}

func causes(s *screen.Screen, r *report.Explain) {
	for i, f := range r.Findings {
		if i == maxCauses {
			s.Blank()
			s.Line(s.Ink(screen.Faint, fmt.Sprintf("%d more: %s", len(r.Findings)-i, strings.Join(ids(r.Findings[i:]), ", "))))
			return
		}
		s.Blank()
		cause(s, f, i == 0)
		if d := SpokenOf(r); len(r.Devices) > 1 && f.Input != "" && !about(&f, d) {
			s.Line("  ", s.Ink(screen.Faint, "in "+tail(screen.Clean(f.Input), s.Width()-6)))
		}
	}
}

func cause(s *screen.Screen, f report.Finding, first bool) {
	lead := "Also   "
	if first {
		lead = "Cause  "
	}
	if f.Severity == report.Remark {
		lead = "Note   "
	}
	s.Hanging(lead, severityInk(f.Severity), fmt.Sprintf("%s  (%s)", f.Title, certainty(f.Confidence)))
	for _, e := range f.Evidence {
		for _, line := range screen.Wrap(screen.Clean(upperFirst(e))+".", s.Width()-2) {
			s.Line("  ", line)
		}
	}
	for i, w := range f.Where {
		if i == 3 {
			break
		}
		function := screen.Fit(screen.Clean(w.Function), s.Width()/3)
		file := tail(screen.Clean(fmt.Sprintf("%s:%d", w.File, w.Line)), s.Width()-3-screen.Columns(function))
		s.Line("  ", s.Ink(screen.Cyan, file), " ", function)
	}
	for i, h := range f.Holders {
		if i == 2 {
			break
		}
		s.Hanging("  holder: ", screen.Plain, fmt.Sprintf("%s: %s", screen.Clean(h.Name), h.Bytes))
	}
	if len(f.Also) > 0 {
		s.Line("  ", s.Ink(screen.Faint, fmt.Sprintf("the same in %d other inputs", len(f.Also))))
	}
	if f.Refuted != "" && first {
		for _, line := range screen.Wrap("What would disprove it: "+f.Refuted+".", s.Width()-2) {
			s.Line("  ", s.Ink(screen.Faint, line))
		}
	}
}

func severityInk(severity string) screen.Ink {
	switch severity {
	case report.Error:
		return screen.Red
	case report.Warning:
		return screen.Yellow
	}
	return screen.Faint
}

// certainty says a confidence in words with the number behind it.
func certainty(c float64) string {
	word := "a hint"
	switch {
	case c >= 0.95:
		word = "certain"
	case c >= 0.85:
		word = "very likely"
	case c >= 0.7:
		word = "likely"
	case c >= 0.5:
		word = "possible"
	}
	return fmt.Sprintf("%s, %.0f %%", word, 100*c)
}

// remedies prints what to do about the causes, in their order, each once.
func remedies(s *screen.Screen, r *report.Explain) {
	var all []report.Remedy
	seen := map[string]bool{}
	for i, f := range r.Findings {
		if i == maxCauses {
			break
		}
		for _, m := range f.Remedies {
			if !seen[m.Action] {
				seen[m.Action] = true
				all = append(all, m)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	s.Blank()
	column := s.Width() - 26
	s.Line(s.Ink(screen.Bold, screen.Pad("What to do", column)), screen.PadLeft("saves", 11), "  ", "checked by")
	for i, m := range all {
		if i == 6 {
			break
		}
		remedy(s, i+1, m, column)
	}
}

func remedy(s *screen.Screen, n int, m report.Remedy, column int) {
	saves := ""
	if m.Saves > 0 {
		saves = m.Saves.Short()
	}
	action := m.Action
	if m.Numerics {
		action += " [changes numerics]"
	}
	action += enough(m)
	for i, line := range screen.Wrap(action, column-6) {
		if i == 0 {
			s.Line(screen.Pad(fmt.Sprintf("  %d  %s", n, line), column), screen.PadLeft(saves, 11), "  ", m.CheckedBy)
		} else {
			s.Line("     ", line)
		}
	}
}

// enough says whether a remedy makes the run fit.
func enough(m report.Remedy) string {
	with, combined := strings.CutPrefix(m.Enough, "with: ")
	switch {
	case m.Enough == "yes":
		return " — enough alone"
	case combined:
		return " — not enough alone; enough together with: " + with
	case m.Enough == "no" && m.Missing > 0:
		return fmt.Sprintf(" — not enough alone: %s short", m.Missing.Short())
	case m.Enough == "no":
		return " — not enough alone"
	}
	return ""
}

func notes(s *screen.Screen, r *report.Explain) {
	seen := map[string]bool{}
	for _, n := range r.Notes {
		if !seen[n] {
			seen[n] = true
			s.Blank()
			s.Paragraph(0, n)
		}
	}
	for _, in := range r.Inputs {
		for _, w := range in.Warnings {
			s.Hanging("Note: ", screen.Faint, screen.Clean(w)+".")
		}
	}
}

// lastOOM is the failure to speak of: of the device the first cause is about, else of the one that stands out, else of the first that failed.
func lastOOM(r *report.Explain) (*report.Device, *report.OOM) {
	var d *report.Device
	preference := 0
	for i := range r.Devices {
		c := &r.Devices[i]
		p := 1
		switch {
		case len(c.OOM) == 0:
			continue
		case len(r.Findings) > 0 && about(&r.Findings[0], c):
			p = 3
		case c.Input == r.Outlier:
			p = 2
		}
		if p > preference {
			d, preference = c, p
		}
	}
	if d == nil {
		return nil, nil
	}
	return d, &d.OOM[len(d.OOM)-1]
}

// about tells whether a finding was made in the recording of a device.
func about(f *report.Finding, d *report.Device) bool {
	return f.Input == d.Input && f.Device == d.Device
}

func firstOf(r *report.Explain, severities ...string) *report.Finding {
	for _, want := range severities {
		for i := range r.Findings {
			if r.Findings[i].Severity == want {
				return &r.Findings[i]
			}
		}
	}
	return nil
}

func ids(all []report.Finding) []string {
	var out []string
	for _, f := range all {
		out = append(out, f.ID)
	}
	return out
}

// lowerFirst makes a title go on a sentence; a name such as CUDA or WSL keeps its letters.
func lowerFirst(s string) string {
	if len(s) < 2 || strings.ToLower(s[1:2]) != s[1:2] {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// upperFirst begins a sentence; code that it begins with stays as it is written.
func upperFirst(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if word == "" || strings.ContainsAny(word[:len(word)-1], "_.(=:") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// tail keeps the end of a path, which says most, where the whole is too long.
func tail(path string, width int) string {
	all := []rune(path)
	for i := range all {
		if rest := string(all[i:]); screen.Columns(rest) < width || i == 0 && screen.Columns(rest) <= width {
			if i > 0 {
				return "…" + rest
			}
			return rest
		}
	}
	return path
}

// base is a file name without its folders.
func base(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
