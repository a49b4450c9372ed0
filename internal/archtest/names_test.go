package archtest

import (
	"encoding/json"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// otherNames are files whose words only look like model types, with the reason.
var otherNames = map[string]string{
	"internal/code/flow/names.go": "names of variables in people's scripts",
}

func TestModelTypesAreNamedInTheirTableOnly(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "model", "hfconfig", "families.json"))
	if err != nil {
		t.Fatal(err)
	}
	var families map[string]json.RawMessage
	if err := json.Unmarshal(data, &families); err != nil || len(families) == 0 {
		t.Fatalf("families.json: %v", err)
	}
	for _, f := range sources(t) {
		if otherNames[f.path] != "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if word, _ := strconv.Unquote(lit.Value); families[word] != nil {
				t.Errorf("%s names the model type %q; what is known about a family belongs in hfconfig/families.json", f.fset.Position(lit.Pos()), word)
			}
			return true
		})
	}
}
