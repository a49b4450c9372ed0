package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStepsOfTheGateShareWhatIsCompiled: with cgo in one step and without it in another, 45 packages are compiled twice.
func TestStepsOfTheGateShareWhatIsCompiled(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"test.sh", "test-torch.sh", "test-browser.sh", "fuzz.sh"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "scripts", step))
		if err != nil {
			t.Fatal(err)
		}
		before, _, found := strings.Cut(string(text), "\nexport CGO_ENABLED=0")
		if !found || strings.Contains(before, "\ngo test") || strings.Contains(before, "\ngo build") {
			t.Errorf("scripts/%s builds before it says export CGO_ENABLED=0", step)
		}
	}
}
