package families

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

func TestEveryFamilyHasAForwardPassAndEveryForwardPassAFamily(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, name := range hfconfig.Supported() {
		f, _ := hfconfig.FamilyOf(name)
		if forwards[f.Code] == nil {
			t.Errorf("%s: no forward pass is called %q", name, f.Code)
		}
		used[f.Code] = true
	}
	for code := range forwards {
		if !used[code] {
			t.Errorf("no family uses the forward pass %q", code)
		}
	}
}
