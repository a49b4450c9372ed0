package textout

import (
	"fmt"
	"math"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// maxHolders is how many holders a screen names; one with less than a fiftieth of the memory is not worth a line.
const (
	maxHolders  = 6
	leastHolder = 50
)

// held says who keeps the memory alive, where the probe looked.
func held(s *screen.Screen, d *report.Device) {
	if d.Walk == nil || len(d.Holders) == 0 {
		return
	}
	s.Blank()
	s.Line("  ", s.Ink(screen.Bold, "Who holds it"), s.Ink(screen.Faint, fmt.Sprintf("  %s; %s of %s named", moment(d.Walk), percent(d.Walk.Share), d.End.Requested.Short())))
	for i, h := range d.Holders {
		if i == maxHolders || leastHolder*h.Bytes < d.End.Requested {
			break
		}
		s.Hanging("  "+screen.PadLeft(h.Bytes.Short(), 9)+"  ", screen.Plain, screen.Clean(HolderWords(&h)))
	}
	if !d.Walk.Complete {
		s.Hanging("             ", screen.Faint, "The search through the process's objects reached its limit: what it did not reach has no name.")
	}
}

// HolderWords describes a holder in a sentence: its name, how many tensors, how it grows, who else holds them.
func HolderWords(h *report.Holder) string {
	var more []string
	if h.Type != "" && h.Role == "variable" && h.Type != "Tensor" {
		more = append(more, h.Type)
	}
	if h.Count > 1 {
		more = append(more, units.Count(h.Count)+" tensors")
	}
	text := h.Name
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	if h.PerStep > 0 {
		text += fmt.Sprintf("; it grew by %s, %s per step", tensors(h.TensorsPerStep), h.PerStep.Short())
	}
	if len(h.Also) > 0 {
		text += "; also held by " + strings.Join(h.Also, ", ")
	}
	return text
}

func tensors(n float64) string {
	if math.Round(n) == 1 {
		return "1 tensor"
	}
	return fmt.Sprintf("%.0f tensors", n)
}

func moment(w *report.Walk) string {
	switch w.When {
	case "oom":
		return "when the request failed"
	case "growth":
		return fmt.Sprintf("in step %d, as memory grew", w.Step+1)
	case "peak":
		if w.Step > 0 {
			return fmt.Sprintf("in step %d, as %s began", w.Step+1, w.Phase)
		}
		return "at the end"
	}
	return fmt.Sprintf("in step %d", w.Step+1)
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", math.Floor(100*share)) }
