package page

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
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
	doc := carried(t, text)
	if len(doc.Data) != 1 || len(doc.Data[0].Instants) < 10 || doc.Data[0].WhatIf.Replay == nil {
		t.Error("the data in the page is not complete")
	}
}

// carried unpacks what a page in one file carries.
func carried(t *testing.T, text string) (doc stored) {
	t.Helper()
	_, rest, _ := strings.Cut(text, `id="data">`)
	data, _, _ := strings.Cut(rest, "</script>")
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
	if err == nil {
		err = json.NewDecoder(z).Decode(&doc)
	}
	if err != nil {
		t.Fatalf("the data in the page: %v", err)
	}
	return doc
}

func TestASmallRecordingMakesASmallFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"formats/protocol4.pickle", "snapshots/oom-batch.pickle.gz"} {
		info, err := os.Stat("../../../testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		size := len(exported(t, open(t, name)))
		t.Logf("%s of %d kB makes a page of %d kB", name, info.Size()/1000, size/1000)
		if size > 300_000+int(info.Size()) {
			t.Errorf("%s of %d bytes makes a page of %d bytes", name, info.Size(), size)
		}
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
