package probe

import (
	"slices"
	"testing"
)

func TestTheEnvironmentKeepsWhatWasThereAndPutsTheProbeFirst(t *testing.T) {
	t.Parallel()
	got := Environ([]string{"HOME=/home/me", "PYTHONPATH=/mine:/yours", "PLIMSOLL_FIT=stale", "PLIMSOLL_MODE=capture"}, "/probe",
		Settings{Mode: Observe, Report: "/report", Record: "auto"})
	want := []string{"HOME=/home/me", "PYTHONPATH=/probe:/mine:/yours", "PLIMSOLL_MODE=observe", "PLIMSOLL_REPORT=/report", "PLIMSOLL_RECORD=auto"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
