package watch

import (
	"fmt"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Label names a card as people do: "GPU 0", "GPU 3/1" for instance 1 of card 3.
func (c Card) Label() string {
	if c.Instance >= 0 {
		return fmt.Sprintf("GPU %d/%d", c.Index, c.Instance)
	}
	return "GPU " + strconv.Itoa(c.Index)
}

// Name names a process by PID and command.
func (u Use) Name() string { return nameOf(u.PID, u.Who) }

func (o Orphan) name() string { return nameOf(o.PID, o.Who) }

func nameOf(pid int, who Identity) string {
	if who.Command == "" {
		return "pid " + strconv.Itoa(pid)
	}
	return fmt.Sprintf("%s (pid %d)", who.Command, pid)
}

// Amount is what a process holds, in words where the driver does not say.
func (u Use) Amount() string {
	if !u.Known {
		return "an unknown amount"
	}
	return u.Bytes.Short()
}

// Rate prints a growth: by the minute, as people watch it.
func Rate(bytesPerSecond float64) string {
	return units.Bytes(bytesPerSecond*60).Short() + "/min"
}

// Ago prints a duration with two units at most: "45 s", "12 min", "3 h 20 min", "5 d".
func Ago(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 10*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	case d >= maxForecast:
		return "over a year"
	}
	return fmt.Sprintf("%d d", int(d.Hours())/24)
}
