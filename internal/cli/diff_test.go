package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

func TestDiffScreens(t *testing.T) {
	t.Parallel()
	for name, runs := range map[string][2]string{"other-program": {"oom-batch", "leak-oom"}, "same": {"mlp-adam", "mlp-adam"}} {
		r := plimsoll(t, "", "diff", recordings+runs[0]+".pickle.gz", recordings+runs[1]+".pickle.gz")
		for line := range strings.SplitSeq(r.stdout, "\n") {
			if screen.Columns(line) > 80 {
				t.Errorf("%s: a line of %d columns: %s", name, screen.Columns(line), line)
			}
		}
		if r.code != exitOK {
			t.Errorf("%s: exit %d, stderr %s", name, r.code, r.stderr)
		}
		goldentest.Check(t, "testdata/diff/"+name+".txt", []byte(r.stdout))
	}
}

func TestDiffJSONHasItsSchema(t *testing.T) {
	t.Parallel()
	r := plimsoll(t, "", "diff", "--json", recordings+"oom-batch.pickle.gz", recordings+"leak-oom.pickle.gz")
	var d report.Diff
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil || d.Schema != report.DiffSchema || len(d.ByLine) == 0 {
		t.Errorf("%v, schema %q, %d lines of code", err, d.Schema, len(d.ByLine))
	}
}

func TestDiffNeedsTwoSnapshots(t *testing.T) {
	t.Parallel()
	if r := plimsoll(t, "", "diff", recordings+"mlp-adam.pickle.gz", "no-such-file"); r.code != exitUnreadable || r.stdout != "" {
		t.Errorf("exit %d, stdout %q", r.code, r.stdout)
	}
}
