// Package origin reads a call stack as a person would: whose line is it, and what was the program doing?
//
// In go the stacks of a snapshot; out comes, for each, the innermost frame of the user's own code and the phase of
// training it belongs to (loading, forward, backward, optimizer, …). It looks at file and function names only. What it cannot tell
// it calls Unknown; it never guesses a phase from sizes or times (package timeline adds what order and lifetimes say).
package origin

import (
	"strings"

	"github.com/plimsoll/plimsoll/snapshot"
)

// Phase is what a training program is doing.
type Phase uint8

// Phases.
const (
	Unknown Phase = iota
	Load          // building the model, moving it to the device, loading a checkpoint
	Data          // making a batch
	Forward
	Backward
	Optimizer
	Save // writing a checkpoint
	User // directly in the user's code, outside any module
	phases
)

var phaseNames = [phases]string{"other", "load", "other", "forward", "backward", "optimizer", "other", "other"}

// String is the phase's name in the JSON contract.
func (p Phase) String() string { return phaseNames[p] }

// Origin is what a stack says.
type Origin struct {
	Phase Phase
	Eval  bool // inside a function whose name says evaluation
	State bool // optimizer state being created, as opposed to temporaries of a step
	Root  bool // the gradient that backward() starts from: its size is the loss's element size
	// Workspace is scratch memory of a library, known from C++ frames.
	Workspace bool
	Graph     bool // inside CUDA graph capture
	Gather    bool // FSDP or ZeRO gathering parameters
	Logits    bool // in the loss or the output head of a language model
	Attention bool // in an attention function
	Parallel  bool // inside nn.DataParallel's scatter, replicate or gather
	Compiled  bool // code that torch.compile generated

	User   int // index into the stack of the innermost frame of the user's code, -1 when there is none
	Python bool
}

// Table holds the origin of every stack of a snapshot.
type Table struct {
	origins []Origin
	Stacks  *snapshot.Stacks
	// Recorded says that some events carry stacks; then an empty stack means the autograd engine's own thread, which has no Python frames.
	Recorded bool
}

// NewTable reads all stacks once.
func NewTable(s *snapshot.Stacks) *Table {
	frames := make([]trait, len(s.Frames))
	for i := range s.Frames {
		frames[i] = traits(&s.Frames[i])
	}
	t := &Table{Stacks: s, origins: make([]Origin, s.Len()), Recorded: s.Len() > 1}
	for id := range t.origins {
		t.origins[id] = read(s.Stack(snapshot.StackID(id)), frames)
	}
	if t.Recorded {
		t.origins[0].Phase = Backward
	}
	return t
}

// Of gives the origin of a stack.
func (t *Table) Of(id snapshot.StackID) *Origin { return &t.origins[id] }

// UserFrame gives the innermost frame of the user's code.
func (t *Table) UserFrame(id snapshot.StackID) (snapshot.Frame, bool) {
	o := t.Of(id)
	if o.User < 0 {
		return snapshot.Frame{}, false
	}
	return t.Stacks.Frames[t.Stacks.Stack(id)[o.User]], true
}

// trait is what a single frame says.
type trait uint32

const (
	isUser trait = 1 << iota
	isPython
	isLibrary // neither the user's nor torch's: transformers, accelerate, …
	isModuleCall
	isModuleMove // Module._apply: .to(), .cuda(), .half()
	isConstructor
	isLoad
	isSave
	isOptimizer
	isOptimizerState
	isBackward
	isRecompute
	isRoot
	isData
	isWorkspace
	isEngine // C++ frame of the autograd engine
	isEval
	isGraph
	isGather
	isLoss
	isAttention
	isParallel
	isCompiled
)

// read combines the frames of a stack, innermost first.
func read(stack []snapshot.FrameID, frames []trait) Origin {
	o := Origin{User: -1}
	var all trait
	library := -1
	for i, id := range stack {
		f := frames[id]
		all |= f
		if f&isUser != 0 && o.User < 0 {
			o.User = i
		}
		if f&isLibrary != 0 && library < 0 {
			library = i
		}
	}
	if o.User < 0 {
		o.User = library // a program that is itself installed: its own frames are the best there are
	}
	o.Python = all&isPython != 0
	o.Eval = all&isEval != 0
	o.State = all&isOptimizerState != 0
	o.Root = all&isRoot != 0
	o.Workspace = all&isWorkspace != 0
	o.Graph = all&isGraph != 0
	o.Gather = all&isGather != 0
	o.Logits = all&isLoss != 0
	o.Attention = all&isAttention != 0
	o.Parallel = all&isParallel != 0
	o.Compiled = all&isCompiled != 0
	o.Phase = phase(all, len(stack))
	return o
}

// phase picks what the program was doing; what is more specific wins.
func phase(all trait, depth int) Phase {
	switch {
	case depth == 0:
		return Unknown
	case all&isOptimizer != 0:
		return Optimizer
	case all&(isBackward|isEngine) != 0, all&isRecompute != 0:
		return Backward
	case all&isSave != 0:
		return Save
	case all&isData != 0:
		return Data
	case all&isModuleCall != 0:
		return Forward
	case all&(isModuleMove|isLoad|isConstructor) != 0:
		return Load
	case all&isLoss != 0:
		return Forward
	case all&isUser != 0:
		return User
	}
	return Unknown
}

// Describe prints a frame as "train.py:132 leak", the file without its folders.
func Describe(f snapshot.Frame) string {
	return Base(f.File) + ":" + itoa(f.Line) + " " + f.Function
}

// Base is the file name without folders, for either kind of slash.
func Base(path string) string {
	if i := strings.LastIndexAny(path, `/\`); i >= 0 {
		return path[i+1:]
	}
	return path
}
