package snapshot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/plimsoll/plimsoll/internal/evidence/pickle"
)

// finish turns the value left by the pickle or JSON into a Snapshot.
func (b *builder) finish(top pickle.Value) (*Snapshot, error) {
	b.cutBlocks()
	b.events.columns(&b.trace, b.sawTime, b.sawPool)
	s := &Snapshot{}
	switch {
	case top.Kind == kindList: // PyTorch 1.13, and torch.cuda.memory_snapshot()
		l := *b.lists.at(top.N)
		if l.start != l.end && l.kind != recSegment {
			return nil, fmt.Errorf("%w: byte 0: it is a list of something other than segments", ErrFormat)
		}
		s.Segments = b.run(l)
	case top.Kind == kindDict && b.dicts.at(top.N).kind == recTop:
		if err := b.finishTop(s, b.loose[b.dicts.at(top.N).n]); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: it has neither segments nor device_traces (write one with torch.cuda.memory._dump_snapshot(\"oom.pickle\"))", ErrFormat)
	}
	s.Stacks = b.stacks.finish(&b.strings)
	for what, n := range b.strange {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s (%d)", what, n))
	}
	slices.Sort(s.Warnings)
	if err := s.validate(); err != nil {
		return nil, err
	}
	return s, nil
}

func (b *builder) finishTop(s *Snapshot, top looseDict) error {
	for i, key := range top.keys {
		v := top.values[i]
		switch b.strings.field(uint64(key)) {
		case fieldSegments:
			s.Segments = b.run(b.listOf(v))
		case fieldHostSegments:
			s.HostSegments = b.run(b.listOf(v))
		case fieldDeviceTraces:
			all, err := b.traces(b.listOf(v))
			if err != nil {
				return err
			}
			s.Traces = all
		case fieldHostTraces:
			all, err := b.traces(b.listOf(v))
			if err != nil {
				return err
			}
			if len(all) > 0 {
				s.HostTrace = all[0]
			}
		case fieldAnnotations:
			if l := b.listOf(v); l.kind == recAnnotation {
				s.Annotations = b.annotations[l.start:l.end]
			}
		case fieldSettings:
			b.settings(&s.Settings, v)
		}
	}
	return nil
}

func (b *builder) listOf(v pickle.Value) list {
	if v.Kind != kindList {
		return list{}
	}
	return *b.lists.at(v.N)
}

func (b *builder) run(l list) []Segment {
	if l.kind != recSegment {
		return nil
	}
	return b.segments[l.start:l.end]
}

// cutBlocks gives every segment its blocks; before PyTorch 2.1 blocks have no address of their own.
func (b *builder) cutBlocks() {
	for i := range b.segments {
		s, run := &b.segments[i], b.blockRuns[i]
		s.Blocks = b.blocks[run[0]:run[1]:run[1]]
		at := s.Address
		for k := range s.Blocks {
			if s.Blocks[k].Address == 0 {
				s.Blocks[k].Address = at
			}
			at = s.Blocks[k].Address + uint64(s.Blocks[k].Size)
		}
	}
}

// traces cuts the columns into one history a device.
func (b *builder) traces(l list) ([]Trace, error) {
	if !l.ofLists {
		if l.kind == recEvent { // one flat history
			return []Trace{b.cut(l)}, nil
		}
		return nil, nil
	}
	if n := l.end - l.start; n > maxDevices {
		return nil, fmt.Errorf("%w: it has histories of %d devices", ErrFormat, n)
	}
	var all []Trace
	seen := map[uint32]int{}
	for d, n := range b.members[l.start:l.end] {
		events := *b.lists.at(uint64(n))
		if first, again := seen[events.start]; again && events.kind == recEvent {
			return nil, fmt.Errorf("%w: devices %d and %d share one list of events", ErrFormat, first, d)
		}
		if events.start != events.end {
			seen[events.start] = d
		}
		all = append(all, b.cut(events))
	}
	return all, nil
}

func (b *builder) cut(l list) Trace {
	if len(b.trace.Streams) == 0 { // no event names its stream
		b.trace.Streams = []uint64{0}
	}
	if l.kind != recEvent {
		return Trace{Streams: b.trace.Streams}
	}
	whole, lo, hi := &b.trace, l.start, l.end
	t := Trace{
		Action: whole.Action[lo:hi:hi], Addr: whole.Addr[lo:hi:hi], Size: whole.Size[lo:hi:hi],
		Stream: whole.Stream[lo:hi:hi], Stack: whole.Stack[lo:hi:hi],
		Streams: whole.Streams, PoolIDs: whole.PoolIDs,
	}
	if b.sawTime {
		t.TimeUS = whole.TimeUS[lo:hi:hi]
	}
	if b.sawPool {
		t.Pool = whole.Pool[lo:hi:hi]
	}
	for _, n := range whole.Notes {
		if n.Event >= int(lo) && n.Event < int(hi) {
			n.Event -= int(lo)
			t.Notes = append(t.Notes, n)
		}
	}
	return t
}

func (b *builder) settings(s *Settings, v pickle.Value) {
	if v.Kind != kindDict || b.dicts.at(v.N).kind != recLoose {
		return
	}
	s.Known = true
	s.MaxSplitSize = -1
	s.Raw = map[string]string{}
	d := b.loose[b.dicts.at(v.N).n]
	for i, key := range d.keys {
		name, value := b.strings.text(uint64(key)), d.values[i]
		if value.Kind == kindDict {
			s.RoundupPower2 = b.divisions(value)
			continue
		}
		s.Raw[name] = b.scalar(value)
		switch name {
		case "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF":
			s.Conf = b.text(value)
		case "max_split_size":
			s.MaxSplitSize = asInt(value)
		case "garbage_collection_threshold":
			s.GarbageCollection = asFloat(value)
		case "expandable_segments":
			s.Expandable = value.Kind == pickle.Bool && value.N == 1
		}
	}
}

func (b *builder) divisions(v pickle.Value) map[int]int {
	if b.dicts.at(v.N).kind != recLoose {
		return nil
	}
	d := b.loose[b.dicts.at(v.N).n]
	out := map[int]int{}
	for i, key := range d.keys {
		if mib, err := strconv.Atoi(b.strings.text(uint64(key))); err == nil {
			out[mib] = int(asInt(d.values[i]))
		}
	}
	return out
}

func (b *builder) scalar(v pickle.Value) string {
	switch v.Kind {
	case kindString:
		return b.text(v)
	case pickle.Bool:
		return strconv.FormatBool(v.N == 1)
	case pickle.Int:
		return strconv.FormatInt(int64(v.N), 10)
	case pickle.Float:
		return strconv.FormatFloat(math.Float64frombits(v.N), 'g', -1, 64)
	}
	return ""
}

func asFloat(v pickle.Value) float64 {
	if v.Kind == pickle.Float {
		return math.Float64frombits(v.N)
	}
	return float64(asInt(v))
}

// sortByTime puts the events in order of time; events of the same microsecond keep their order.
func (t *Trace) sortByTime() {
	order := make([]int, t.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.TimeUS[a], t.TimeUS[b]) })
	t.Action = permute(t.Action, order)
	t.Addr = permute(t.Addr, order)
	t.Size = permute(t.Size, order)
	t.Stream = permute(t.Stream, order)
	t.Stack = permute(t.Stack, order)
	t.TimeUS = permute(t.TimeUS, order)
	if t.Pool != nil {
		t.Pool = permute(t.Pool, order)
	}
	where := make([]int, len(order))
	for to, from := range order {
		where[from] = to
	}
	for i := range t.Notes {
		t.Notes[i].Event = where[t.Notes[i].Event]
	}
	slices.SortFunc(t.Notes, func(a, b Note) int { return cmp.Compare(a.Event, b.Event) })
}

func permute[T any](column []T, order []int) []T {
	out := make([]T, len(column))
	for to, from := range order {
		out[to] = column[from]
	}
	return out
}
