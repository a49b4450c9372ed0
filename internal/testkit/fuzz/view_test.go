package fuzz

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/show/page"
	"github.com/plimsoll/plimsoll/internal/show/viewdata"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
	"github.com/plimsoll/plimsoll/snapshot"
)

var questions = []string{"curve?by=line&from=-3&to=1e300", "curve?axis=time&from=NaN&to=Inf&columns=7", "curve?by=match&word=f", "alive?at=7", "map?at=7", "map?at=-9", "events?n=-4", "allocation?at=3"}

// viewing asks everything the page asks about recordings that nearly make sense: what cannot be answered is refused, and answers are JSON.
func viewing(f fuzzer) {
	whole := hostile.New(hostile.Snapshot())
	hostile.Seed(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		s, err := snapshot.Read(bytes.NewReader(whole.JSON(hostile.FromBytes(choices))))
		if err != nil {
			return
		}
		var all []page.Recording
		for _, d := range recording.Devices(s) {
			all = append(all, page.Recording{Input: "a", Index: viewdata.New(timeline.New(recording.New(s, d), callsite.NewTable(&s.Stacks)))})
		}
		b := page.NewBook(all)
		for d := range min(len(all), 4) {
			for _, question := range questions {
				name, query, _ := strings.Cut(question, "?")
				q, _ := url.ParseQuery(query)
				q.Set("d", fmt.Sprint(d))
				v, err := b.Ask(name, q)
				if err == nil {
					err = hostile.CheckJSON(v)
				} else if name == "allocation" {
					err = nil // there need not be one
				}
				if err != nil {
					t.Fatalf("%s: %v", question, err)
				}
			}
		}
		if len(choices)%8 == 0 {
			if err := page.Export(io.Discard, page.Summary{Kind: page.Recorded, Report: &report.Explain{}}, b); err != nil {
				t.Fatal(err)
			}
		}
	})
}
