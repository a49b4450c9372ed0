package page

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"slices"

	"github.com/plimsoll/plimsoll/internal/show/viewdata"
)

// stored is what a page in one file carries instead of a server: the answers to the questions it can ask.
type stored struct {
	Summary    Summary             `json:"summary"`
	Recordings []viewdata.Overview `json:"overview"`
	Data       []storedData        `json:"data"` // by recording
}

// storedData holds the answers about one recording.
type storedData struct {
	// Curves are the whole run by grouping and axis, coarse to fine; the page cuts out what it shows.
	Curves map[string][]viewdata.Curve `json:"curves"`
	// Instants are the moments that can be looked at, in order, with what is alive and the map at each.
	Instants    []viewdata.Alive               `json:"instants"`
	Maps        []viewdata.Map                 `json:"maps"`
	Allocations map[uint32]viewdata.Allocation `json:"allocations"`
	Events      []viewdata.Event               `json:"events"` // empty where there are too many
	WhatIf      *WhatIf                        `json:"whatif"`
}

// What a file carries. Curves are exact to the event for recordings up to finest; the budget for a million events is 10 MB.
const (
	maxInstants   = 40
	storedRows    = 60
	storedMaps    = 60 // segments a map
	storedEvents  = 4000
	replayAtMost  = 200_000 // events; a longer history is not replayed for a file
	finest        = 16384
	finestGrouped = 4096
)

// Export writes the page as one file.
func Export(w io.Writer, s Summary, b *Book) error {
	out := bufio.NewWriter(w)
	doc := stored{Summary: s, Recordings: b.Overviews(), Data: []storedData{}}
	for d := range b.recordings {
		doc.Data = append(doc.Data, b.store(d))
	}
	data, err := packed(doc)
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	fmt.Fprintf(out, `%s<meta http-equiv="Content-Security-Policy" content="%s"><style>%s</style></head><body>`+"\n",
		head(title(s)), html.EscapeString(filePolicy()), style)
	fmt.Fprintf(out, `<script type="application/gzip;base64" id="data">%s</script>`+"\n<script>%s</script></body></html>\n", data, script)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// packed is a document as gzipped JSON in base64, which the page's script unpacks: an eighth of the size, and no name can end the element.
func packed(doc any) (string, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if err := json.NewEncoder(z).Encode(doc); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}

// store answers in advance what can be asked about a recording.
func (b *Book) store(d int) storedData {
	x := b.recordings[d].Index
	s := storedData{Curves: map[string][]viewdata.Curve{}, Instants: []viewdata.Alive{}, Maps: []viewdata.Map{}, Allocations: map[uint32]viewdata.Allocation{}, Events: []viewdata.Event{}}
	for _, by := range x.Groups() {
		g := b.group(d, by, "")
		most := finestGrouped
		if by == viewdata.ByCategory {
			most = finest
		}
		s.Curves[string(by)+" event"] = pyramid(x, g, most, false)
		if x.T.Trace.TimeUS != nil {
			s.Curves[string(by)+" time"] = pyramid(x, g, finestGrouped, true)
		}
	}
	detail := viewdata.Detail{Rows: storedRows, Samples: 2, Fraction: 400, MaxFrames: 48}
	for _, at := range instants(x) {
		a := x.Alive(at, detail)
		s.Instants = append(s.Instants, a)
		s.Maps = append(s.Maps, x.Map(at, storedMaps))
		for _, row := range a.Rows[:min(len(a.Rows), 12)] {
			for _, id := range row.Largest {
				if one, err := x.Allocation(int(id)); err == nil {
					s.Allocations[id] = one
				}
			}
		}
	}
	if x.Events() <= storedEvents {
		for at := 0; at < x.Events(); at = s.Events[len(s.Events)-1].Event + 1 {
			next := x.List(at, 1000)
			if len(next) == 0 {
				break
			}
			s.Events = append(s.Events, next...)
		}
	}
	if x.Events() <= replayAtMost {
		s.WhatIf = b.whatIf(d)
	} else {
		s.WhatIf = &WhatIf{Refuse: "this history is too long to be replayed for a file; run plimsoll replay, or plimsoll view without --html", Event: []int{}, Time: []int64{}, Curves: []HeldCurve{}}
	}
	return s
}

// pyramid tells the whole run in 1024 columns and in finer ones, until each is an event or there are enough.
func pyramid(x *viewdata.Index, g *viewdata.Grouping, most int, byTime bool) []viewdata.Curve {
	var out []viewdata.Curve
	for columns := 1024; columns <= most; columns *= 4 {
		c := x.Curve(g, viewdata.Span{Columns: columns, ByTime: byTime})
		out = append(out, c)
		if c.Columns < columns || c.Exact || columns >= 4*x.Events() {
			break
		}
	}
	return out
}

// instants picks the moments worth looking at: the peak, failures, the ends of steps and, where these are few, moments in between.
func instants(x *viewdata.Index) []int {
	o := x.Overview("")
	all := []int{-1, o.Peak.Event, x.Events() - 1}
	for i, f := range o.Failures {
		if i < maxInstants/4 {
			all = append(all, f.Event)
		}
	}
	all = append(all, spread(o.Steps, maxInstants/2)...)
	for i := 1; len(all) < maxInstants; i++ {
		if i > x.Events() {
			break
		}
		all = append(all, i*x.Events()/maxInstants)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// spread takes n of a list, evenly.
func spread(list []int, n int) []int {
	if len(list) <= n {
		return list
	}
	out := make([]int, n)
	for i := range out {
		out[i] = list[i*(len(list)-1)/(n-1)]
	}
	return out
}
