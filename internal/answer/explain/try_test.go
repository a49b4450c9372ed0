package explain

import (
	"encoding/json"
	"fmt"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"os"
	"strings"
	"testing"
)

func TestTry(t *testing.T) {
	p := os.Getenv("TRY")
	if p == "" {
		t.Skip()
	}
	b, _ := os.ReadFile(p)
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		var m struct {
			ID, Message, Truth, Kind string
			Expect                   map[string]any
			Answered                 map[string]any
		}
		json.Unmarshal([]byte(l), &m)
		log, _ := oomtext.Read(strings.NewReader(m.Message))
		r := Build([]Evidence{{Name: m.ID, Messages: log.Messages, Hints: log.Hints}})
		fmt.Printf("== %s | %s | truth: %s | was: %v\n", m.ID, m.Kind, m.Truth, m.Answered["first"])
		if r.Message != nil {
			fmt.Printf("   fw=%s work=%s os=%s backend=%s fmt=%s phase=%s\n", r.Message.Framework, r.Message.Work, r.Message.OS, r.Message.Backend, r.Message.Format, r.Message.Phase)
		}
		for i, f := range r.Findings {
			fmt.Printf("   %d %s %s %.2f %s\n", i, f.ID, f.Severity, f.Confidence, f.Title)
			if i == 0 {
				for _, e := range f.Evidence {
					fmt.Printf("       . %s\n", e)
				}
				for _, x := range f.Remedies {
					fmt.Printf("       > %s\n", x.Action)
				}
			}
		}
	}
}
