package snapshot

import (
	"errors"
	"fmt"
	"math"

	"github.com/plimsoll/plimsoll/internal/evidence/pickle"
)

// builder turns the containers of a snapshot into records as they are completed. What a dict is follows from its
// keys alone ("action": an event, "filename": a frame, …), so the order of keys and the version do not matter.
type builder struct {
	strings textTable
	dicts   parts[ref]  // what became of each dict
	lists   parts[list] // what is in each list
	tuples  [][2]int64
	loose   []looseDict // dicts that are none of the known records
	pairs   int         // key-value pairs kept in loose dicts
	members []uint32    // members of lists of lists, of segments and of dicts, one run after another

	stacks      stackTable
	events      events // of all devices, one after another
	trace       Trace  // what they share, and the events themselves once all are there
	streams     map[uint64]uint16
	lastStream  uint16 // of the event before
	poolIDs     map[[2]int64]uint16
	sawTime     bool
	sawPool     bool
	segments    []Segment
	blockRuns   [][2]uint32 // blocks of each segment
	blocks      []Block
	histories   []history
	annotations []Annotation
	strange     map[string]int // unknown things met, by description
	spent       int64          // bytes of memory taken, about
	limit       int64          // and how many there may be
}

// Kinds of references on the pickle machine's stack.
const (
	kindString = pickle.FirstReference + iota
	kindDict
	kindList
	kindTuple
)

// ref packs what a dict became and its index.
type ref struct {
	kind recordKind
	n    uint32
}

type recordKind uint8

const (
	recNone recordKind = iota // an empty dict
	recEvent
	recFrame
	recBlock
	recSegment
	recAnnotation
	recHistory
	recLoose
	recTop // the dict at the top of the file: loose, but expected
)

// list is a list under construction: the kind of its members and the run they occupy.
type list struct {
	kind       recordKind
	ofLists    bool
	stack      bool // start is a StackID: the list of frames has been interned
	start, end uint32
}

type looseDict struct {
	keys   []uint32 // string ids
	values []pickle.Value
}

// history is a previous occupant of a block (PyTorch 1.13 and 2.0).
type history struct {
	addr  uint64
	size  int64
	stack StackID
}

const (
	maxLoosePairs = 1 << 16
	maxMembers    = 1 << 26
	maxRecords    = 1<<28 - 1
)

func newBuilder(l Limits) *builder {
	b := &builder{limit: l.memory(), strange: map[string]int{}, streams: map[uint64]uint16{}, poolIDs: map[[2]int64]uint16{}}
	b.strings.init()
	b.stacks.init()
	return b
}

// String interns a text.
func (b *builder) String(text []byte) (pickle.Value, error) {
	before := len(b.strings.texts)
	id, err := b.strings.intern(text)
	if err == nil && len(b.strings.texts) > before {
		err = b.spend(int64(len(text)) + costText)
	}
	return pickle.Value{Kind: kindString, N: uint64(id)}, err
}

// Dict begins a dict.
func (b *builder) Dict() pickle.Value {
	return pickle.Value{Kind: kindDict, N: b.dicts.add()}
}

// List begins a list.
func (b *builder) List() pickle.Value {
	return pickle.Value{Kind: kindList, N: b.lists.add()}
}

// Tuple keeps a pair of integers, the only tuple a snapshot has (a pool id).
func (b *builder) Tuple(items []pickle.Value) (pickle.Value, error) {
	var pair [2]int64
	if len(items) == 2 {
		pair = [2]int64{asInt(items[0]), asInt(items[1])}
	}
	if n := len(b.tuples); n > 0 && b.tuples[n-1] == pair {
		return pickle.Value{Kind: kindTuple, N: uint64(n - 1)}, nil
	}
	if len(b.tuples) >= maxRecords {
		return pickle.Value{}, ErrFormat
	}
	b.tuples = append(b.tuples, pair)
	return pickle.Value{Kind: kindTuple, N: uint64(len(b.tuples) - 1)}, nil
}

// SetItems gives a dict its fields.
func (b *builder) SetItems(dict pickle.Value, pairs []pickle.Value) error {
	if dict.Kind != kindDict {
		return errors.New("keys and values are set on something that is not a dict")
	}
	r := b.dicts.at(dict.N)
	if r.kind == recNone {
		kind, err := b.classify(pairs)
		if err != nil {
			return err
		}
		if err := b.spend(costOf[kind]); err != nil {
			return err
		}
		*r = ref{kind, b.newRecord(kind)}
		if r.n >= maxRecords {
			return errors.New("more records than a snapshot can have")
		}
	}
	switch r.kind {
	case recEvent:
		return b.setEvent(int(r.n), pairs)
	case recFrame:
		id, err := b.setFrame(pairs)
		r.n = id
		return err
	case recBlock:
		return b.setBlock(&b.blocks[r.n], pairs)
	case recSegment:
		return b.setSegment(r.n, pairs)
	case recAnnotation:
		return b.setAnnotation(&b.annotations[r.n], pairs)
	case recHistory:
		return b.setHistory(&b.histories[r.n], pairs)
	}
	return b.setLoose(&b.loose[r.n], pairs)
}

// classify tells from its keys what a dict is.
func (b *builder) classify(pairs []pickle.Value) (recordKind, error) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].Kind != kindString {
			return 0, fmt.Errorf("%w: a dict has a key that is not a string", ErrFormat)
		}
		switch b.strings.field(pairs[i].N) {
		case fieldAction:
			return recEvent, nil
		case fieldFilename:
			return recFrame, nil
		case fieldTotalSize:
			return recSegment, nil
		case fieldState:
			return recBlock, nil
		case fieldStage:
			return recAnnotation, nil
		case fieldRealSize:
			return recHistory, nil
		case fieldSegments, fieldDeviceTraces:
			return recTop, nil
		}
	}
	return recLoose, nil
}

func (b *builder) newRecord(kind recordKind) uint32 {
	switch kind {
	case recEvent:
		return b.events.add()
	case recBlock:
		b.blocks = append(b.blocks, Block{})
		return uint32(len(b.blocks) - 1)
	case recSegment:
		b.segments = append(b.segments, Segment{})
		b.blockRuns = append(b.blockRuns, [2]uint32{})
		return uint32(len(b.segments) - 1)
	case recAnnotation:
		b.annotations = append(b.annotations, Annotation{})
		return uint32(len(b.annotations) - 1)
	case recHistory:
		b.histories = append(b.histories, history{})
		return uint32(len(b.histories) - 1)
	case recFrame:
		return 0
	}
	b.loose = append(b.loose, looseDict{})
	return uint32(len(b.loose) - 1)
}

func (b *builder) setLoose(d *looseDict, pairs []pickle.Value) error {
	if b.pairs += len(pairs) / 2; b.pairs > maxLoosePairs {
		return fmt.Errorf("%w: it contains dicts of an unknown form", ErrFormat)
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].Kind != kindString {
			return fmt.Errorf("%w: a dict has a key that is not a string", ErrFormat)
		}
		d.keys = append(d.keys, uint32(pairs[i].N))
		d.values = append(d.values, pairs[i+1])
	}
	return nil
}

// Append adds members to a list. Records of one list are contiguous because they were built for it; a list that
// shares records with another is no snapshot.
func (b *builder) Append(target pickle.Value, items []pickle.Value) error {
	if target.Kind != kindList {
		return errors.New("items are appended to something that is not a list")
	}
	l := b.lists.at(target.N)
	if l.stack {
		return errors.New("a list of frames grows after it was used")
	}
	for _, item := range items {
		kind, n, ofLists := b.member(item)
		if kind == recNone && item.Kind == kindDict {
			return fmt.Errorf("%w: a list holds an empty dict", ErrFormat)
		}
		if l.start == l.end {
			l.kind, l.ofLists = kind, ofLists
		}
		if kind != l.kind || ofLists != l.ofLists {
			return fmt.Errorf("%w: a list mixes records of several kinds", ErrFormat)
		}
		if err := b.extend(l, n); err != nil {
			return err
		}
	}
	return nil
}

// member tells what an item of a list is.
func (b *builder) member(item pickle.Value) (kind recordKind, n uint32, ofLists bool) {
	switch item.Kind {
	case kindDict:
		r := *b.dicts.at(item.N)
		return r.kind, r.n, false // an empty dict is recNone
	case kindList:
		return recNone, uint32(item.N), true
	}
	return recNone, 0, false // texts and numbers in lists say nothing we need
}

// extend adds member n to a list: records that stand one after another become a run; frames and lists, which
// are shared, are written to a list of members.
func (b *builder) extend(l *list, n uint32) error {
	direct := !l.ofLists && l.kind != recFrame
	if l.start == l.end {
		l.start = n
		if !direct {
			l.start = uint32(len(b.members))
		}
		l.end = l.start
	}
	if direct {
		if l.kind != recNone && n != l.end {
			return fmt.Errorf("%w: a record is in two lists", ErrFormat)
		}
		l.end++
		return nil
	}
	if int(l.end) != len(b.members) {
		return fmt.Errorf("%w: lists grow in turns", ErrFormat)
	}
	if len(b.members) >= maxMembers {
		return errors.New("more stack frames than a snapshot can have")
	}
	b.members = append(b.members, n)
	l.end++
	return nil
}

func asInt(v pickle.Value) int64 {
	switch v.Kind {
	case pickle.Int, pickle.Bool:
		return int64(v.N)
	case pickle.Float:
		f := math.Float64frombits(v.N)
		if f >= math.MinInt64 && f <= math.MaxInt64 {
			return int64(f)
		}
	}
	return 0
}

func asUint(v pickle.Value) uint64 {
	if v.Kind == pickle.Int {
		return v.N
	}
	return 0
}
