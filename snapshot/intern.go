package snapshot

import (
	"fmt"
	"hash/maphash"
)

// field is a key of a snapshot that means something to us.
type field uint8

const (
	fieldNone field = iota
	fieldSegments
	fieldDeviceTraces
	fieldSettings
	fieldAnnotations
	fieldHostSegments
	fieldHostTraces
	fieldDevice
	fieldAddress
	fieldTotalSize
	fieldAllocatedSize
	fieldActiveSize
	fieldRequestedSize
	fieldStream
	fieldSegmentType
	fieldSegmentPoolID
	fieldIsExpandable
	fieldFrames
	fieldBlocks
	fieldSize
	fieldState
	fieldHistory
	fieldRealSize
	fieldAction
	fieldAddr
	fieldDeviceFree
	fieldTimeUS
	fieldCompileContext
	fieldUserMetadata
	fieldPoolID
	fieldName
	fieldFilename
	fieldLine
	fieldStage
)

var fieldNames = map[string]field{
	"segments": fieldSegments, "device_traces": fieldDeviceTraces, "allocator_settings": fieldSettings,
	"external_annotations": fieldAnnotations, "host_segments": fieldHostSegments, "host_traces": fieldHostTraces,
	"device": fieldDevice, "address": fieldAddress, "total_size": fieldTotalSize, "allocated_size": fieldAllocatedSize,
	"active_size": fieldActiveSize, "requested_size": fieldRequestedSize, "stream": fieldStream,
	"segment_type": fieldSegmentType, "segment_pool_id": fieldSegmentPoolID, "is_expandable": fieldIsExpandable,
	"frames": fieldFrames, "blocks": fieldBlocks, "size": fieldSize, "state": fieldState, "history": fieldHistory,
	"real_size": fieldRealSize, "action": fieldAction, "addr": fieldAddr, "device_free": fieldDeviceFree,
	"time_us": fieldTimeUS, "compile_context": fieldCompileContext, "user_metadata": fieldUserMetadata,
	"pool_id": fieldPoolID, "name": fieldName, "filename": fieldFilename, "line": fieldLine, "stage": fieldStage,
}

var actionNames = map[string]Action{
	"alloc": ActionAlloc, "free_requested": ActionFreeRequested, "free_completed": ActionFreeCompleted,
	"segment_alloc": ActionSegmentAlloc, "segment_free": ActionSegmentFree, "segment_map": ActionSegmentMap,
	"segment_unmap": ActionSegmentUnmap, "snapshot": ActionSnapshot, "oom": ActionOOM,
	"annotate": ActionAnnotate, "user_defined": ActionUserDefined,
}

// textTable interns texts. Most texts of a large file are one of a few, repeated ("N/A" once an event).
type textTable struct {
	ids     map[string]uint32
	texts   []string
	fields  []field
	actions []Action
	total   int
	last    uint32 // the text interned last
}

// Distinct text that a snapshot may hold.
const (
	maxTextBytes = 256 << 20
	maxTexts     = 2 << 20
)

func (s *textTable) init() {
	s.ids = map[string]uint32{"": 0}
	s.texts = []string{""}
	s.fields = []field{fieldNone}
	s.actions = []Action{ActionUnknown}
}

func (s *textTable) intern(text []byte) (uint32, error) {
	if string(text) == s.texts[s.last] {
		return s.last, nil
	}
	if id, ok := s.ids[string(text)]; ok {
		s.last = id
		return id, nil
	}
	if s.total += len(text); s.total > maxTextBytes || len(s.texts) >= maxTexts {
		return 0, fmt.Errorf("%w: more distinct text than a memory snapshot has", ErrFormat)
	}
	id := uint32(len(s.texts))
	own := string(text)
	s.ids[own] = id
	s.texts = append(s.texts, own)
	s.fields = append(s.fields, fieldNames[own])
	s.actions = append(s.actions, actionNames[own])
	s.last = id
	return id, nil
}

func (s *textTable) field(id uint64) field { return s.fields[id] }
func (s *textTable) text(id uint64) string { return s.texts[id] }

// action is the kind of event that a text names; ActionUnknown where it names none.
func (s *textTable) action(id uint64) Action { return s.actions[id] }

// stackTable interns frames and stacks.
type stackTable struct {
	frames map[frameKey]FrameID
	keys   []frameKey
	index  map[uint64][]StackID // by hash of the frames
	ids    []FrameID
	start  []uint32
	basis  uint64 // random start of the hash, so that no file can aim at collisions
}

type frameKey struct {
	function, file uint32
	line           int32
}

func (t *stackTable) init() {
	t.frames = map[frameKey]FrameID{}
	t.index = map[uint64][]StackID{}
	t.start = []uint32{0, 0} // stack 0 is empty
	t.basis = maphash.String(maphash.MakeSeed(), "stacks")
}

func (t *stackTable) frame(k frameKey) FrameID {
	if id, ok := t.frames[k]; ok {
		return id
	}
	id := FrameID(len(t.keys))
	t.keys = append(t.keys, k)
	t.frames[k] = id
	return id
}

// stack interns a stack given as frame ids.
func (t *stackTable) stack(frames []uint32) StackID {
	if len(frames) == 0 {
		return 0
	}
	h := t.basis // FNV-1a over whole ids; a collision costs a comparison
	for _, f := range frames {
		h = (h ^ uint64(f)) * 1099511628211
	}
	for _, id := range t.index[h] {
		if t.equal(id, frames) {
			return id
		}
	}
	id := StackID(len(t.start) - 1)
	for _, f := range frames {
		t.ids = append(t.ids, FrameID(f))
	}
	t.start = append(t.start, uint32(len(t.ids)))
	t.index[h] = append(t.index[h], id)
	return id
}

func (t *stackTable) equal(id StackID, frames []uint32) bool {
	have := t.ids[t.start[id]:t.start[id+1]]
	if len(have) != len(frames) {
		return false
	}
	for i, f := range have {
		if uint32(f) != frames[i] {
			return false
		}
	}
	return true
}

// finish gives the public form.
func (t *stackTable) finish(s *textTable) Stacks {
	frames := make([]Frame, len(t.keys))
	for i, k := range t.keys {
		frames[i] = Frame{Function: s.texts[k.function], File: s.texts[k.file], Line: int(k.line)}
	}
	return Stacks{Frames: frames, ids: t.ids, start: t.start}
}
