package page

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/setup"
)

const markup = "</script><script>alert(1)</script>"

func TestAnswersBecomeFilesThatCarryThemWhole(t *testing.T) {
	t.Parallel()
	for _, s := range []Summary{
		{Kind: Predicted, Headline: markup, Prediction: &report.Prediction{Title: markup, Capacity: 7, Batches: []report.BatchNeed{{Batch: 3, Fits: true}}}},
		{Kind: Planned, Headline: markup, Fit: &report.Fit{Title: markup, Plans: []report.Plan{{Setup: setup.Setup{MicroBatch: 2}, Why: markup, ChangesNumerics: true}}}},
	} {
		var out bytes.Buffer
		if err := Export(&out, s, NewBook(nil)); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "<script"); n != 2 { // the data and the bundle
			t.Errorf("%s: %d script elements, want 2", s.Kind, n)
		}
		doc := carried(t, out.String())
		if !reflect.DeepEqual(doc.Summary, s) {
			t.Errorf("%s: the page carries %+v", s.Kind, doc.Summary)
		}
	}
}
