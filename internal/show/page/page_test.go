package page

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/show/viewdata"
	"github.com/plimsoll/plimsoll/snapshot"
)

func open(t testing.TB, path string) Recording {
	t.Helper()
	f, err := os.Open(filepath.Join("../../../testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := snapshot.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return Recording{Input: path, Index: viewdata.New(timeline.New(recording.New(s, 0), callsite.NewTable(&s.Stacks)))}
}

func exported(t testing.TB, r Recording) []byte {
	t.Helper()
	var out bytes.Buffer
	s := Summary{Kind: Recorded, Headline: "</script><script>alert(1)</script>", Report: &report.Explain{Inputs: []report.Input{{Name: r.Input}}}}
	if err := Export(&out, s, NewBook([]Recording{r})); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAMillionEventsFitIntoTenMegabytes(t *testing.T) {
	t.Parallel()
	n := len(exported(t, open(t, "big.pickle.gz")))
	t.Logf("%.1f MB", float64(n)/1e6)
	if n > 10_000_000 {
		t.Errorf("the page has %d bytes", n)
	}
}

func TestTheFileNeedsNothingElse(t *testing.T) {
	t.Parallel()
	text := string(exported(t, open(t, "snapshots/leak-loss-list.pickle.gz")))
	for _, foreign := range []string{`src="`, `href="http`, "@import", "url(http"} {
		if strings.Contains(text, foreign) {
			t.Errorf("the page refers to something outside: %s", foreign)
		}
	}
	if n := strings.Count(text, "<script"); n != 2 { // the data and the bundle
		t.Errorf("%d script elements, want 2", n)
	}
	if !strings.Contains(text, hash(script)) || !strings.Contains(text, hash(style)) {
		t.Error("the policy does not name the script and the style by their hashes")
	}
	_, rest, _ := strings.Cut(text, `id="data">`)
	data, _, _ := strings.Cut(rest, "</script>")
	var doc stored
	if err := json.Unmarshal([]byte(data), &doc); err != nil {
		t.Fatalf("the data in the page: %v", err)
	}
	if len(doc.Data) != 1 || len(doc.Data[0].Instants) < 10 || doc.Data[0].WhatIf.Replay == nil {
		t.Error("the data in the page is not complete")
	}
}

func TestEveryQuestionIsAnsweredAndNonsenseRefused(t *testing.T) {
	t.Parallel()
	b := NewBook([]Recording{open(t, "snapshots/oom-batch.pickle.gz")})
	for _, good := range []string{"overview", "curve?by=line&from=1&to=90&columns=20", "curve?by=match&word=train", "alive", "alive?at=-1", "map?at=100", "allocation?at=3", "events?at=5&n=9", "whatif"} {
		name, query, _ := strings.Cut(good, "?")
		q, _ := url.ParseQuery(query)
		if v, err := b.Ask(name, q); err != nil || v == nil {
			t.Errorf("%s: %v", good, err)
		} else if _, err := json.Marshal(v); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"nonsense", "alive?d=7", "alive?d=-1", "alive?at=x", "curve?from=x", "curve?columns=x", "allocation?at=99999999", "curve?d=a"} {
		name, query, _ := strings.Cut(bad, "?")
		q, _ := url.ParseQuery(query)
		if _, err := b.Ask(name, q); err == nil {
			t.Errorf("%s was answered", bad)
		}
	}
}
