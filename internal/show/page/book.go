package page

import (
	"fmt"
	"net/url"
	"strconv"
	"sync"

	"github.com/plimsoll/plimsoll/internal/memory/replay"
	"github.com/plimsoll/plimsoll/internal/show/viewdata"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// Book answers the page's questions about recordings. It may be asked by several callers at once; groupings and replays are made when
// first asked for and kept.
type Book struct {
	recordings []Recording

	mu      sync.Mutex
	groups  map[groupKey]*viewdata.Grouping
	whatIfs map[int]*sync.Once
	answers map[int]*WhatIf
}

type groupKey struct {
	recording int
	by        viewdata.By
	word      string
}

// maxGroups bounds what is kept: a word typed letter by letter makes a grouping each time.
const maxGroups = 12

// NewBook opens a book on recordings. The curve by category, which every page shows first, is prepared.
func NewBook(recordings []Recording) *Book {
	b := &Book{recordings: recordings, groups: map[groupKey]*viewdata.Grouping{}, whatIfs: map[int]*sync.Once{}, answers: map[int]*WhatIf{}}
	for i := range recordings {
		b.group(i, viewdata.ByCategory, "")
	}
	return b
}

// Overviews describes the recordings.
func (b *Book) Overviews() []viewdata.Overview {
	out := []viewdata.Overview{}
	for _, r := range b.recordings {
		out = append(out, r.Index.Overview(r.Input))
	}
	return out
}

// Ask answers a question of the page, named as in its address.
func (b *Book) Ask(name string, q url.Values) (any, error) {
	if name == "overview" {
		return b.Overviews(), nil
	}
	d, err := integer(q, "d", 0)
	if err != nil || d < 0 || d >= len(b.recordings) {
		return nil, fmt.Errorf("there is no recording %q here: there are %d", q.Get("d"), len(b.recordings))
	}
	x := b.recordings[d].Index
	at, err := integer(q, "at", x.PeakEvent())
	if err != nil {
		return nil, err
	}
	switch name {
	case "curve":
		return b.curve(d, q)
	case "alive":
		return x.Alive(at, viewdata.Full()), nil
	case "map":
		return x.Map(at, maxSegments), nil
	case "allocation":
		return x.Allocation(at)
	case "events":
		n, err := integer(q, "n", 100)
		return x.List(at, n), err
	case "whatif":
		return b.whatIf(d), nil
	}
	return nil, fmt.Errorf("%q is not a question this page asks", name)
}

// maxSegments is how many segments a map shows; there are seldom as many.
const maxSegments = 400

func (b *Book) curve(d int, q url.Values) (viewdata.Curve, error) {
	var s viewdata.Span
	var err error
	if s.Columns, err = integer(q, "columns", 1000); err != nil {
		return viewdata.Curve{}, err
	}
	for key, to := range map[string]*float64{"from": &s.From, "to": &s.To} {
		if text := q.Get(key); text != "" {
			if *to, err = strconv.ParseFloat(text, 64); err != nil {
				return viewdata.Curve{}, fmt.Errorf("%s: %q is not a number", key, text)
			}
		}
	}
	s.ByTime = q.Get("axis") == "time"
	g := b.group(d, viewdata.By(q.Get("by")), q.Get("word"))
	return b.recordings[d].Index.Curve(g, s), nil
}

// group finds or makes a grouping.
func (b *Book) group(d int, by viewdata.By, word string) *viewdata.Grouping {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch by {
	case viewdata.ByLine, viewdata.ByPhase, viewdata.ByHolder, viewdata.ByModule:
		word = ""
	case viewdata.Match:
	default:
		by, word = viewdata.ByCategory, ""
	}
	key := groupKey{d, by, word}
	g := b.groups[key]
	if g == nil {
		if len(b.groups) >= maxGroups+len(b.recordings) {
			b.forget()
		}
		g = b.recordings[d].Index.Group(by, word)
		b.groups[key] = g
	}
	return g
}

// forget drops the groupings of words.
func (b *Book) forget() {
	for key := range b.groups {
		if key.by != viewdata.ByCategory {
			delete(b.groups, key)
		}
	}
}

// whatIf replays a recording, once.
func (b *Book) whatIf(d int) *WhatIf {
	b.mu.Lock()
	once := b.whatIfs[d]
	if once == nil {
		once = new(sync.Once)
		b.whatIfs[d] = once
	}
	b.mu.Unlock()
	once.Do(func() {
		answer := whatIf(b.recordings[d].Index)
		b.mu.Lock()
		b.answers[d] = answer
		b.mu.Unlock()
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answers[d]
}

// curvePoints is how finely the curve of a setting is told.
const curvePoints = 600

func whatIf(x *viewdata.Index) *WhatIf {
	out := &WhatIf{Event: []int{}, Time: []int64{}, Curves: []HeldCurve{}}
	c, err := replay.Open(x.T.Recording, replay.Options{})
	if err != nil {
		out.Refuse = err.Error()
		return out
	}
	settings := c.Sensible(torch.Version{}, c.Limit.Known())
	answer := c.Answer(replay.Question{Settings: settings})
	out.Replay = &answer
	for i := range curvePoints + 1 {
		event := i * x.Events() / curvePoints
		out.Event, out.Time = append(out.Event, event), append(out.Time, x.Time(min(event, x.Events()-1)))
	}
	for _, row := range answer.Settings {
		for _, s := range settings {
			if name := s.Text; name == row.Conf || name == "" && row.Conf == "default" {
				out.Curves = append(out.Curves, HeldCurve{Conf: row.Conf, Held: c.Held(s, replay.Target{}, out.Event)})
				break
			}
		}
	}
	return out
}

func integer(q url.Values, key string, otherwise int) (int, error) {
	text := q.Get(key)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a whole number", key, text)
	}
	return n, nil
}
