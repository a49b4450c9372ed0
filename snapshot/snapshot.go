package snapshot

// Snapshot is one memory snapshot of one process. Sizes are bytes.
type Snapshot struct {
	Segments    []Segment
	Traces      []Trace // by device ordinal; empty where no history was recorded
	Settings    Settings
	Annotations []Annotation

	HostSegments []Segment // pinned host memory (PyTorch 2.14+)
	HostTrace    Trace

	Stacks   Stacks   // every distinct stack; stack 0 is the empty one
	Warnings []string // what was odd about the file but did not stop it from being read
}

// Segment is a contiguous range of device memory obtained from CUDA.
type Segment struct {
	Device        int
	Address       uint64
	TotalSize     int64
	AllocatedSize int64 // sum of rounded sizes of allocated blocks
	ActiveSize    int64 // allocated or waiting for another stream
	RequestedSize int64 // bytes asked for in active blocks (PyTorch 2.0+)
	Stream        uint64
	Small         bool     // of the pool for requests up to 1 MiB
	PoolID        [2]int64 // (0,0) is the default pool
	Expandable    bool
	Stack         StackID
	Blocks        []Block
}

// BlockState is the state of a block.
type BlockState uint8

// Block states as PyTorch names them.
const (
	Inactive    BlockState = iota
	Allocated              // active_allocated
	PendingFree            // active_pending_free: freed, but another stream may still use it
)

// Block is a part of a segment.
type Block struct {
	Address   uint64
	Size      int64
	Requested int64 // meaningless when Inactive
	State     BlockState
	Stack     StackID
}

// Action says what a history event is.
type Action uint8

// Actions of PyTorch's memory history.
const (
	ActionUnknown Action = iota
	ActionAlloc
	ActionFreeRequested
	ActionFreeCompleted
	ActionSegmentAlloc
	ActionSegmentFree
	ActionSegmentMap
	ActionSegmentUnmap
	ActionSnapshot
	ActionOOM
	ActionAnnotate
	ActionUserDefined
)

// String is the action as PyTorch writes it.
func (a Action) String() string {
	for name, action := range actionNames {
		if action == a {
			return name
		}
	}
	return "unknown"
}

// Trace is the recorded history of one device, one column a field: event i is Action[i], Addr[i], …
type Trace struct {
	Action []Action
	Addr   []uint64 // for an oom event: device_free, the bytes the driver said were free
	Size   []int64  // bytes asked for; for oom the rounded request
	Stream []uint16 // index into Streams
	Stack  []StackID
	TimeUS []int64 // microseconds since the Unix epoch; nil before PyTorch 2.2

	Streams []uint64 // stream handles by index

	// Pool is the pool of each event (PyTorch 2.12+), an index into PoolIDs; nil in older files.
	Pool    []uint16
	PoolIDs [][2]int64

	// Notes are the sparse texts of events: compile_context and user_metadata, where they say something.
	Notes []Note
}

// Len is the number of events.
func (t *Trace) Len() int { return len(t.Action) }

// Note is a text attached to event Event.
type Note struct {
	Event          int
	CompileContext string
	UserMetadata   string
}

// StackID names an interned stack.
type StackID uint32

// FrameID names an interned frame.
type FrameID uint32

// Frame is one level of a call stack.
type Frame struct {
	Function string
	File     string
	Line     int
}

// Stacks holds distinct stacks as slices of one array of frames.
type Stacks struct {
	Frames []Frame   // distinct frames
	ids    []FrameID // the stacks, one after another, innermost frame first
	start  []uint32  // start[i]:start[i+1] bounds stack i
}

// Len is the number of stacks, the empty stack 0 included.
func (s *Stacks) Len() int { return max(1, len(s.start)-1) }

// Stack gives the frames of a stack, innermost first, as indices into Frames.
func (s *Stacks) Stack(id StackID) []FrameID {
	if int(id)+1 >= len(s.start) {
		return nil
	}
	return s.ids[s.start[id]:s.start[id+1]]
}

// Settings are the allocator's settings at the time of the dump (PyTorch 2.3+).
type Settings struct {
	Known             bool   // the file carries settings
	Conf              string // PYTORCH_CUDA_ALLOC_CONF, verbatim
	MaxSplitSize      int64  // -1: unlimited
	GarbageCollection float64
	Expandable        bool
	RoundupPower2     map[int]int       // divisions by start of the interval in MiB
	Raw               map[string]string // every scalar setting of the file as text
}

// Annotation is a record_function scope (PyTorch 2.5+).
type Annotation struct {
	Start  bool
	Name   string
	Device int
	TimeUS int64
}
