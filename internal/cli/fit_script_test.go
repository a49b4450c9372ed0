package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

// A script that does not fit as it is gets a plan in its own options.
func TestFitOfACommandSaysThePlanInItsOptions(t *testing.T) {
	t.Parallel()
	python := probetest.Warm(t)
	got := runs(t, nil, "fit", "--gpu", "rtx-4090", "--memory", "3GiB", "--", python, filepath.Join("testdata", "capture", "mlp.py"), "--batch-size", "4096")
	got.wants(t, 0)
	for _, want := range []string{"Run plan 1", "--batch-size", "--accum_steps="} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
}

func TestFitTakesAModelOrACommand(t *testing.T) {
	t.Parallel()
	runs(t, nil, "fit", "--job", "job.json", "--", "python", "train.py").wants(t, 2, "not both")
	runs(t, nil, "fit", "--").wants(t, 2, "no command after --")
	runs(t, nil, "fit", "one", "two").wants(t, 2, "plimsoll fit -- python train.py")
}
