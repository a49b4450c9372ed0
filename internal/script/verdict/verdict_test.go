package verdict

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
)

func TestTheEndOfARunIsJudged(t *testing.T) {
	t.Parallel()
	oom := []probenotes.Process{{Error: &probenotes.Failure{OutOfMemory: true}}}
	for _, c := range []struct {
		name string
		e    Evidence
		kind Kind
		says string
	}{
		{"fine", Evidence{}, Finished, ""},
		{"survived a failure", Evidence{Notes: oom}, Finished, ""},
		{"out of memory", Evidence{Notes: oom, Ending: Ending{Code: 1}}, OutOfMemory, ""},
		{"out of memory, then killed", Evidence{Notes: oom, Ending: Ending{Code: 137, Killed: true}}, OutOfMemory, ""},
		{"the kernel", Evidence{Ending: Ending{Code: 137, Killed: true, KernelKills: 1}}, HostMemory, "host memory ran out"},
		{"someone", Evidence{Ending: Ending{Code: 137, Killed: true}}, Killed, "SIGKILL"},
		{"itself", Evidence{Program: "sh", Ending: Ending{Code: 7}}, Failed, "sh ended with code 7"},
	} {
		v := Of(c.e)
		if said := strings.Join(v.Lines, "\n"); v.Kind != c.kind || !strings.Contains(said, c.says) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}
