package traceout

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/plimsoll/plimsoll/internal/memory/timeline"
)

// The file format of speedscope: https://github.com/jlfwong/speedscope/blob/v1.22.0/src/lib/file-format-spec.ts
type speedscopeFile struct {
	Schema   string `json:"$schema"`
	Name     string `json:"name"`
	Exporter string `json:"exporter"`
	Shared   struct {
		Frames []speedscopeFrame `json:"frames"`
	} `json:"shared"`
	Profiles []speedscopeProfile `json:"profiles"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

type speedscopeProfile struct {
	Type    string  `json:"type"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Start   int64   `json:"startValue"`
	End     int64   `json:"endValue"`
	Samples [][]int `json:"samples"` // frames, outermost first
	Weights []int64 `json:"weights"`
}

// Speedscope writes what was alive at the peak for speedscope.app: one sample a stack, its category outermost, weighed in bytes.
func Speedscope(w io.Writer, t *timeline.Timeline) error {
	f := speedscopeFile{Schema: "https://www.speedscope.app/file-format-schema.json", Name: fmt.Sprintf("GPU %d at the peak", t.Device), Exporter: "plimsoll"}
	p := speedscopeProfile{Type: "sampled", Name: f.Name, Unit: "bytes", Samples: [][]int{}, Weights: []int64{}}
	seen := map[speedscopeFrame]int{}
	number := func(frame speedscopeFrame) int {
		n, ok := seen[frame]
		if !ok {
			n = len(f.Shared.Frames)
			seen[frame] = n
			f.Shared.Frames = append(f.Shared.Frames, frame)
		}
		return n
	}
	for _, g := range t.ByStack(t.Peak.Event) {
		sample := []int{number(speedscopeFrame{Name: g.Category.String()})}
		ids := t.Snapshot.Stacks.Stack(g.Stack)
		for i := len(ids) - 1; i >= 0; i-- {
			frame := t.Snapshot.Stacks.Frames[ids[i]]
			sample = append(sample, number(speedscopeFrame{frame.Function, frame.File, frame.Line}))
		}
		p.Samples = append(p.Samples, sample)
		p.Weights = append(p.Weights, int64(g.Bytes))
		p.End += int64(g.Bytes)
	}
	f.Profiles = []speedscopeProfile{p}
	return json.NewEncoder(w).Encode(f)
}
