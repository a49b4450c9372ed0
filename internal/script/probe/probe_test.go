package probe

import (
	"os"
	"slices"
	"strings"
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

func TestTheProbeAndTheReaderOfHoldersHaveOneDictionary(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../../evidence/holders/dictionary.txt")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("python/plimsoll/_holdersfile.py")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(source), `DICTIONARY = b"""`)
	if got, _, _ := strings.Cut(after, `"""`); got != string(want) {
		t.Error("dictionary.txt and DICTIONARY in _holdersfile.py differ")
	}
}
