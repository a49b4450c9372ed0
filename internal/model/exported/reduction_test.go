package exported

import (
	"os"
	"path/filepath"
	"testing"
)

// The graphs were written by torch.export of PyTorch 2.11 from a linear layer with the loss of their name.
func TestALossTellsHowItIsReduced(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"losses/mean": Mean, "losses/average": Mean, "losses/sum": Sum, "losses/square": Sum, "losses/two": "", "llama-1b": Mean, "vit-large": Mean, "resnet18": "",
	} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".json.gz"))
		if err != nil {
			t.Fatal(err)
		}
		g, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Reduction(""); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
