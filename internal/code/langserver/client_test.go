package langserver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

// A client that others wrote (pygls) talks to the program itself: scripts/test-lsp.sh installs the one and builds the other, and names them.
func TestAnotherClientUnderstandsTheServer(t *testing.T) {
	t.Parallel()
	python, program := os.Getenv("PLIMSOLL_LSP_PYTHON"), os.Getenv("PLIMSOLL_BINARY")
	if python == "" || program == "" {
		t.Skip("needs pygls and a built program: make test-lsp runs this test")
	}
	out, err := exec.Command(python, filepath.Join("testdata", "client.py"), program, filepath.Join("testdata", "train.py")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	goldentest.Check(t, filepath.Join("testdata", "client.golden"), out)
}
