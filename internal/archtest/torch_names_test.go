package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/torch"
)

// version is a literal that is a release of PyTorch. Sentences may tell where a measurement was made.
var version = regexp.MustCompile(`^[0-2]\.\d{1,2}$`)

// TestNamesOfPyTorchStandInItsTables keeps names of optimizers, lists of them, and releases out of string literals: code asks internal/torch. Examples and
// sentences that mention one are fine.
func TestNamesOfPyTorchStandInItsTables(t *testing.T) {
	t.Parallel()
	names := torch.Optimizers()
	for _, a := range torch.Algorithms() {
		names = append(names, a.Spelled.Class, a.Spelled.Class[strings.LastIndex(a.Spelled.Class, ".")+1:])
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = regexp.QuoteMeta(n)
	}
	any := `(` + strings.Join(quoted, "|") + `)`
	optimizer := regexp.MustCompile(`^` + any + `([ ,…]+` + any + `)*[ ,…]*$`)
	for _, f := range sources(t) {
		if f.pkg == "internal/torch" || strings.HasPrefix(f.pkg, "tools") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if _, imports := n.(*ast.ImportSpec); imports {
				return false
			}
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(l.Value)
			if optimizer.MatchString(text) && !slices.Contains(otherMeaning, text) {
				t.Errorf("%s: %q names an optimizer; its place is the table of internal/torch", f.fset.Position(l.Pos()), text)
			}
			if version.MatchString(text) {
				t.Errorf("%s: %q names a release of PyTorch; its place is internal/torch", f.fset.Position(l.Pos()), text)
			}
			return true
		})
	}
}

// otherMeaning are literals that do not stand for one optimizer: a lint rule looks at files in which "Adam" occurs, which AdamW's name contains.
var otherMeaning = []string{"Adam"}
