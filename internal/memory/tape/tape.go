// Package tape holds the one form every source of memory evidence is turned into: an ordered list of
// allocations and frees.
//
// It takes a recorded history (package recorded reads one out of a PyTorch snapshot) or a computed training step
// (package eager) and returns events that the allocator model, the timeline and the findings all read. A tape holds no addresses
// and no policy: what an allocator made of it is the business of package alloc.
package tape

import "github.com/plimsoll/plimsoll/internal/units"

// Kind says what an event does.
type Kind uint8

// Kinds of events. A Free is the moment the program gives the memory up; where another stream still uses the
// block, the memory returns to the pool only at a later FreeCompleted of the same allocation, and the Free
// carries Deferred. Every other Free is complete at once and has no FreeCompleted.
const (
	Alloc         Kind = iota // ID becomes live with Size bytes requested
	Free                      // ID is given up
	FreeCompleted             // a deferred Free of ID takes effect
	EmptyCache                // the program called torch.cuda.empty_cache()
	OOM                       // a request of Size bytes failed (recorded tapes only)
	Mark                      // a phase begins: Owner indexes Tape.Moments
)

// Event is one entry of a tape; 24 bytes, so that ten million of them stay small.
type Event struct {
	Kind     Kind
	Deferred bool   // a Free that waits for other streams
	Elastic  bool   // an Alloc that the program does without where it is refused: a workspace of cuDNN's, which then takes another plan
	Stream   uint16 // index into Tape.Streams
	Pool     uint16 // index into Tape.Pools; 0 is the default pool
	Owner    uint32 // index into Tape.Owners; 0 is unknown. For a Mark: index into Tape.Moments
	ID       uint32 // ordinal of the allocation the event is about; numbered from 0 in order of Alloc
	Size     units.Bytes
}

// Category is what a piece of memory is for.
type Category uint8

// Categories, in the order they are reported.
const (
	Other Category = iota
	Parameters
	Gradients
	Optimizer
	Activations
	Inputs
	Workspace
	categories
)

// Categories is the number of categories.
const Categories = int(categories)

var categoryNames = [categories]string{"other", "parameters", "gradients", "optimizer", "activations", "inputs", "workspace"}

// String is the category's name in the JSON contract.
func (c Category) String() string { return categoryNames[c] }

// Owner says who asked for memory.
type Owner struct {
	Category Category
	Module   string // dotted path of the module ("model.layers.3.mlp"), where known
	Op       string // operator or purpose ("aten::mm", "exp_avg"), where known
}

// Purposes with a meaning: what is taken ahead while a model is loaded is as large as all that is read after it.
const (
	OpAhead = "caching_allocator_warmup"
	OpRead  = "weight"
)

// Moment is what a Mark begins: a phase of a training step, or one outside of steps.
type Moment struct {
	Step  int // from 1; 0 outside of steps
	Phase string
}

// Tape is an ordered history of one device.
type Tape struct {
	Events  []Event
	Initial []Live      // allocations alive before the first event; their IDs come first
	Streams []uint64    // stream handles by index; index 0 exists and is the default stream
	Pools   [][2]uint64 // pool ids by index; index 0 is (0,0), the default pool
	Owners  []Owner     // by Event.Owner; index 0 is the unknown owner
	Moments []Moment    // what the Marks begin
	Allocs  int         // number of IDs: len(Initial) plus the number of Alloc events
}

// Live is an allocation that was alive when the tape began.
type Live struct {
	ID     uint32
	Stream uint16
	Pool   uint16
	Owner  uint32
	Size   units.Bytes
}

// Before is what was in use when the tape began.
func (t *Tape) Before() units.Bytes {
	var sum units.Bytes
	for _, l := range t.Initial {
		sum += l.Size
	}
	return sum
}

// Change is what an event adds to the bytes in use: a deferred Free takes nothing away until it is completed.
func (e *Event) Change() units.Bytes {
	switch {
	case e.Kind == Alloc:
		return e.Size
	case e.Kind == FreeCompleted, e.Kind == Free && !e.Deferred:
		return -e.Size
	}
	return 0
}
