package snapshot

import (
	"errors"
	"fmt"
	"math"

	"github.com/plimsoll/plimsoll/internal/evidence/pickle"
)

func (b *builder) setEvent(i int, pairs []pickle.Value) error {
	t, at := b.events.parts[i>>partBits], i&partMask
	for k := 0; k < len(pairs); k += 2 {
		v := pairs[k+1]
		switch b.fieldOf(pairs[k]) {
		case fieldAction:
			t.action[at] = b.action(v)
		case fieldAddr, fieldDeviceFree:
			t.addr[at] = asUint(v)
		case fieldSize:
			if v.Kind != pickle.Int {
				return fmt.Errorf("%w: event %d: its size is not a whole number", ErrFormat, i)
			}
			t.size[at] = int64(v.N)
		case fieldStream:
			stream, err := b.stream(asUint(v))
			if err != nil {
				return err
			}
			t.stream[at] = stream
		case fieldTimeUS:
			t.time[at] = asInt(v)
			b.sawTime = true
		case fieldFrames:
			stack, err := b.stack(v)
			if err != nil {
				return err
			}
			t.stack[at] = stack
		case fieldCompileContext:
			if text := b.text(v); text != "" && text != "N/A" {
				b.note(i).CompileContext = text
			}
		case fieldUserMetadata:
			if text := b.text(v); text != "" {
				b.note(i).UserMetadata = text
			}
		case fieldPoolID:
			if err := b.setPool(i, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) fieldOf(key pickle.Value) field {
	if key.Kind != kindString {
		return fieldNone
	}
	return b.strings.field(key.N)
}

func (b *builder) action(v pickle.Value) Action {
	a := ActionUnknown
	if v.Kind == kindString {
		a = b.strings.action(v.N)
	}
	if a == ActionUnknown {
		b.strange[fmt.Sprintf("events of unknown kind %q", clip(b.text(v)))]++
	}
	return a
}

func (b *builder) text(v pickle.Value) string {
	if v.Kind != kindString {
		return ""
	}
	return b.strings.text(v.N)
}

// note is the note of event i; notes are made in the order of events.
func (b *builder) note(i int) *Note {
	if n := len(b.trace.Notes); n > 0 && b.trace.Notes[n-1].Event == i {
		return &b.trace.Notes[n-1]
	}
	b.trace.Notes = append(b.trace.Notes, Note{Event: i})
	return &b.trace.Notes[len(b.trace.Notes)-1]
}

func (b *builder) stream(handle uint64) (uint16, error) {
	if n := int(b.lastStream); n < len(b.trace.Streams) && b.trace.Streams[n] == handle {
		return b.lastStream, nil
	}
	if id, ok := b.streams[handle]; ok {
		b.lastStream = id
		return id, nil
	}
	if len(b.streams) == 0 && handle != 0 {
		b.streams[0] = 0
		b.trace.Streams = append(b.trace.Streams, 0)
	}
	if len(b.streams) > math.MaxUint16 {
		return 0, errors.New("more than 65,536 streams")
	}
	id := uint16(len(b.trace.Streams))
	b.streams[handle] = id
	b.trace.Streams = append(b.trace.Streams, handle)
	return id, nil
}

func (b *builder) setPool(i int, v pickle.Value) error {
	t := &b.trace
	if !b.sawPool {
		b.sawPool = true
		t.PoolIDs = [][2]int64{{}}
		b.poolIDs[[2]int64{}] = 0
	}
	pair := b.pair(v)
	id, ok := b.poolIDs[pair]
	if !ok {
		if len(t.PoolIDs) > math.MaxUint16 {
			return errors.New("more than 65,536 memory pools")
		}
		id = uint16(len(t.PoolIDs))
		b.poolIDs[pair] = id
		t.PoolIDs = append(t.PoolIDs, pair)
	}
	b.events.parts[i>>partBits].pool[i&partMask] = id
	return nil
}

// pair reads a pool id: a tuple in a pickle; the JSON reader makes tuples of its arrays of two numbers.
func (b *builder) pair(v pickle.Value) [2]int64 {
	if v.Kind != kindTuple {
		return [2]int64{}
	}
	return b.tuples[v.N]
}

// stack interns the frames of a list.
func (b *builder) stack(v pickle.Value) (StackID, error) {
	if v.Kind != kindList {
		return 0, nil
	}
	l := b.lists.at(v.N)
	if l.stack {
		return StackID(l.start), nil
	}
	if l.start == l.end || l.kind != recFrame {
		return 0, nil
	}
	id := b.stacks.stack(b.members[l.start:l.end])
	if int(l.end) == len(b.members) {
		b.members = b.members[:l.start]
	}
	*l = list{kind: recFrame, stack: true, start: uint32(id)}
	return id, nil
}

func (b *builder) setFrame(pairs []pickle.Value) (uint32, error) {
	var k frameKey
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i+1]
		switch b.fieldOf(pairs[i]) {
		case fieldName:
			k.function = b.stringID(v)
		case fieldFilename:
			k.file = b.stringID(v)
		case fieldLine:
			k.line = int32(min(max(asInt(v), 0), math.MaxInt32))
		}
	}
	id := b.stacks.frame(k)
	if id > maxRecords {
		return 0, errors.New("more distinct stack frames than a snapshot can have")
	}
	return uint32(id), nil
}

func (b *builder) stringID(v pickle.Value) uint32 {
	if v.Kind != kindString {
		return 0
	}
	return uint32(v.N)
}

func (b *builder) setBlock(block *Block, pairs []pickle.Value) error {
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i+1]
		switch b.fieldOf(pairs[i]) {
		case fieldAddress:
			block.Address = asUint(v)
		case fieldSize:
			block.Size = asInt(v)
		case fieldRequestedSize:
			block.Requested = asInt(v)
		case fieldState:
			block.State = b.blockState(v)
		case fieldFrames:
			stack, err := b.stack(v)
			if err != nil {
				return err
			}
			block.Stack = stack
		case fieldHistory:
			b.applyHistory(block, v)
		}
	}
	return nil
}

func (b *builder) blockState(v pickle.Value) BlockState {
	switch text := b.text(v); text {
	case "active_allocated":
		return Allocated
	case "active_pending_free", "active_awaiting_free":
		return PendingFree
	case "inactive":
		return Inactive
	default:
		b.strange[fmt.Sprintf("blocks in unknown state %q", clip(text))]++
		return Inactive
	}
}

// applyHistory takes size and stack of a block from the newest entry of its history (PyTorch 1.13 and 2.0).
func (b *builder) applyHistory(block *Block, v pickle.Value) {
	if v.Kind != kindList {
		return
	}
	l := *b.lists.at(v.N)
	if l.kind != recHistory || l.start == l.end {
		return
	}
	h := b.histories[l.start]
	block.Requested, block.Stack = h.size, h.stack
}

func (b *builder) setHistory(h *history, pairs []pickle.Value) error {
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i+1]
		switch b.fieldOf(pairs[i]) {
		case fieldAddr:
			h.addr = asUint(v)
		case fieldRealSize:
			h.size = asInt(v)
		case fieldFrames:
			stack, err := b.stack(v)
			if err != nil {
				return err
			}
			h.stack = stack
		}
	}
	return nil
}

func (b *builder) setSegment(n uint32, pairs []pickle.Value) error {
	s := &b.segments[n]
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i+1]
		switch b.fieldOf(pairs[i]) {
		case fieldDevice:
			s.Device = int(asInt(v)) // validate refuses what cannot be
		case fieldAddress:
			s.Address = asUint(v)
		case fieldTotalSize:
			s.TotalSize = asInt(v)
		case fieldAllocatedSize:
			s.AllocatedSize = asInt(v)
		case fieldActiveSize:
			s.ActiveSize = asInt(v)
		case fieldRequestedSize:
			s.RequestedSize = asInt(v)
		case fieldStream:
			s.Stream = asUint(v)
		case fieldSegmentType:
			s.Small = b.text(v) == "small"
		case fieldSegmentPoolID:
			s.PoolID = b.pair(v)
		case fieldIsExpandable:
			s.Expandable = v.Kind == pickle.Bool && v.N == 1
		case fieldFrames:
			stack, err := b.stack(v)
			if err != nil {
				return err
			}
			s.Stack = stack
		case fieldBlocks:
			b.setBlocks(int(n), v)
		}
	}
	return nil
}

// setBlocks notes which blocks are a segment's; the slice is cut when all blocks are there.
func (b *builder) setBlocks(segment int, v pickle.Value) {
	if v.Kind != kindList {
		return
	}
	if l := *b.lists.at(v.N); l.kind == recBlock {
		b.blockRuns[segment] = [2]uint32{l.start, l.end}
	}
}

func (b *builder) setAnnotation(a *Annotation, pairs []pickle.Value) error {
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i+1]
		switch b.fieldOf(pairs[i]) {
		case fieldStage:
			a.Start = b.text(v) == "START"
		case fieldName:
			a.Name = b.text(v)
		case fieldDevice:
			a.Device = int(asInt(v))
		case fieldTimeUS:
			a.TimeUS = asInt(v)
		}
	}
	return nil
}

// clip shortens a text from the file for a message.
func clip(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}
