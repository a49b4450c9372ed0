package traceout

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
)

// path is the way to a storage, outermost first: its holder, the operation and module or kind of state, its own name.
func path(t *timeline.Timeline, h *timeline.Held, id int) []string {
	out := []string{h.Holder.Title()}
	if part := h.Holder.Part(); part != "" {
		out = append(out, part)
	}
	if name := t.Holders.Names[id]; name != "" && name != h.Holder.Name.Name {
		out = append(out, name)
	}
	return out
}

// amount is memory under one path.
type amount struct {
	path  []string
	bytes units.Bytes
	count int
}

// errNobodyLooked is the answer where a recording has no holders.
var errNobodyLooked = errors.New("this recording has no holders: they are written by plimsoll run and plimsoll.stop(), beside NAME.pickle as NAME.holders.json.zlib")

// held gathers what is alive at the end by path, in the order of holders.
func held(t *timeline.Timeline) []*amount {
	index := map[string]*amount{}
	var out []*amount
	for _, h := range t.ByHolder() {
		for _, id := range h.IDs {
			p := path(t, &h, id)
			key := strings.Join(p, "\x00")
			if index[key] == nil {
				index[key] = &amount{path: p}
				out = append(out, index[key])
			}
			index[key].bytes += t.Size(id)
			index[key].count++
		}
	}
	return out
}

// HolderProfile writes what is alive at the end as a gzipped pprof profile whose frames are holders.
func HolderProfile(w io.Writer, t *timeline.Timeline) error {
	p := &profile.Profile{
		SampleType:        []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		DefaultSampleType: "inuse_space",
	}
	if t.Holders == nil {
		return errNobodyLooked
	}
	locations := map[string]*profile.Location{}
	for _, a := range held(t) {
		s := &profile.Sample{Value: []int64{int64(a.count), int64(a.bytes)}}
		for i := len(a.path) - 1; i >= 0; i-- { // pprof wants the leaf first
			name := a.path[i]
			if locations[name] == nil {
				f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, SystemName: name}
				p.Function = append(p.Function, f)
				locations[name] = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
				p.Location = append(p.Location, locations[name])
			}
			s.Location = append(s.Location, locations[name])
		}
		p.Sample = append(p.Sample, s)
	}
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("build pprof profile: %w", err)
	}
	return p.Write(w)
}

// HolderFolded writes the same as folded lines.
func HolderFolded(w io.Writer, t *timeline.Timeline) error {
	if t.Holders == nil {
		return errNobodyLooked
	}
	out := bufio.NewWriter(w)
	for _, a := range held(t) {
		parts := make([]string, len(a.path))
		for i, name := range a.path {
			parts[i] = foldedName(name)
		}
		fmt.Fprintf(out, "%s %d\n", strings.Join(parts, ";"), a.bytes)
	}
	return out.Flush()
}
