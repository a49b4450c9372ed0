package verdict

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/units"
)

func TestTheEndOfARunIsJudged(t *testing.T) {
	t.Parallel()
	oom := []probenotes.Process{{Error: &probenotes.Failure{OutOfMemory: true}}}
	printed, err := oomtext.Read(strings.NewReader("RuntimeError: CUDA error: out of memory\n"))
	if err != nil || len(printed.Messages) != 1 {
		t.Fatal(printed, err)
	}
	for _, c := range []struct {
		name string
		e    Evidence
		kind Kind
		says string
	}{
		{"fine", Evidence{}, Finished, "no GPU memory was seen in use."},
		{"an error that is not about memory", Evidence{Program: "python", Notes: []probenotes.Process{{Error: &probenotes.Failure{Type: "ValueError"}}}, Ending: Ending{Code: 1},
			Printed: printed}, Failed, "python ended with code 1: ValueError, not a memory error."},
		{"printed by something else", Evidence{Program: "docker", Ending: Ending{Code: 1}, Printed: printed}, OutOfMemory, "docker ended with code 1 after it printed a memory error."},
		{"printed, and survived", Evidence{Printed: printed}, Finished, "no GPU memory was seen in use."},
		{"not read", Evidence{Program: "sh", Ending: Ending{Code: 7}}, Failed, "its own output was not read"},
		{"hidden from a container", Evidence{Driver: Driver{Asked: true, Blind: true, Risen: 7 * units.GiB}}, Finished,
			"not observed: the driver saw the memory used on GPU 0 rise by 7.0 GiB while it ran, and does not say which process used it."},
		{"survived a failure", Evidence{Notes: oom}, Finished, ""},
		{"out of memory", Evidence{Notes: oom, Ending: Ending{Code: 1}}, OutOfMemory, ""},
		{"out of memory, then killed", Evidence{Notes: oom, Ending: Ending{Code: 137, Killed: true}}, OutOfMemory, ""},
		{"the kernel", Evidence{Ending: Ending{Code: 137, Killed: true, KernelKills: 1}}, HostMemory, "host memory ran out"},
		{"someone", Evidence{Ending: Ending{Code: 137, Killed: true}}, Killed, "SIGKILL"},
		{"itself", Evidence{Heard: true, Program: "sh", Ending: Ending{Code: 7}}, Failed, "sh ended with code 7; no memory error was seen."},
	} {
		v := Of(c.e)
		if said := strings.Join(v.Lines, "\n"); v.Kind != c.kind || !strings.Contains(said, c.says) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}
