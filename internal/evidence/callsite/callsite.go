// Package callsite reads a call stack as a person would: whose line is it, and what was the program doing?
//
// It takes the stacks of a snapshot and returns, for each, the innermost frame of the user's own code and the phase of
// training it belongs to (loading, forward, backward, optimizer, …). It looks at file and function names only. What it cannot tell
// it calls Unknown; it never guesses a phase from sizes or times (package timeline adds what order and lifetimes say).
package callsite

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
	Bucket    bool // asked for by DistributedDataParallel itself: its buckets
	Copy      bool // a deep copy of a module or tensor
	Recompute bool // a checkpointed stretch computed again in backward
	Loaded    bool // read from a file: torch.load, safetensors

	User   int // index into the stack of the innermost frame of the user's code, -1 when there is none
	Python bool
	start  bool
}

// Table holds the origin of every stack of a snapshot.
type Table struct {
	origins []Origin
	traits  []trait // by frame
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
	t := &Table{Stacks: s, traits: frames, origins: make([]Origin, s.Len()), Recorded: s.Len() > 1}
	for id := range t.origins {
		stack := s.Stack(snapshot.StackID(id))
		o := read(stack, frames)
		if o.User < 0 && o.start {
			o.User = t.program(stack, frames)
		}
		t.origins[id] = o
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

// Readable gives the frames of a stack that say something, innermost first: no C++ frames without a line, and not the
// functions that stand between every two lines anyone wrote.
func (t *Table) Readable(id snapshot.StackID) []snapshot.FrameID {
	var out []snapshot.FrameID
	for _, frame := range t.Stacks.Stack(id) {
		if f := &t.Stacks.Frames[frame]; f.Line != 0 && !plumbing[f.Function] {
			out = append(out, frame)
		}
	}
	return out
}

var plumbing = map[string]bool{
	"_call_impl": true, "_wrapped_call_impl": true, "__torch_function__": true, "_call_with_frames_removed": true,
	"exec_module": true, "_load_unlocked": true, "_find_and_load_unlocked": true, "_find_and_load": true, "_handle_fromlist": true,
}

// Caller is the index in a stack of the first frame outside the outermost call of a module: 0 where the stack has none.
func (t *Table) Caller(id snapshot.StackID) int {
	at := 0
	for i, f := range t.Stacks.Stack(id) {
		if t.InModule(f) {
			at = i + 1
		}
	}
	return at
}

// IsUser tells whether a frame is the user's own code.
func (t *Table) IsUser(id snapshot.FrameID) bool { return t.traits[id]&isUser != 0 }

// InModule tells whether a frame is the call of a module: what is inside it is the model, not the loop around it.
func (t *Table) InModule(id snapshot.FrameID) bool { return t.traits[id]&isModuleCall != 0 }

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
	isClosure // a whole step run from inside Optimizer.step, as Lightning and LBFGS do
	isBackward
	isApply // Function.apply: forward where the program called it, backward where the engine did
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
	isBucket
	isCopy
	isSaver // a function of the user's that saves, by its name
	isRead  // reads tensors from a file
	isStart // the beginning of a program: module level
)

// read combines the frames of a stack, innermost first.
func read(stack []snapshot.FrameID, traits []trait) Origin {
	o := Origin{User: -1}
	var all trait
	for i, id := range stack {
		f := traits[id]
		all |= f
		if f&isUser != 0 && o.User < 0 {
			o.User = i
		}
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
	o.Copy = all&isCopy != 0
	o.Loaded = all&isRead != 0
	o.Recompute = all&isRecompute != 0
	o.Bucket = len(stack) > 0 && bucket(stack, traits)
	o.start = all&isStart != 0
	o.Phase = phase(stack, traits, all)
	return o
}

// phase picks what the program was doing. Backward is the innermost of what may contain it, but for the optimizer: a step that
// runs a closure (Lightning, LBFGS) has forward and backward inside it.
func phase(stack []snapshot.FrameID, traits []trait, all trait) Phase {
	inside := false // of something that a step only calls through its closure
	for _, id := range stack {
		switch f := traits[id]; {
		case f&isOptimizer != 0 && !inside:
			return Optimizer
		case f&(isBackward|isEngine|isRecompute) != 0:
			return Backward
		case f&(isModuleCall|isClosure) != 0:
			inside = true
		}
	}
	switch {
	case len(stack) == 0:
		return Unknown
	case calledByEngine(stack, traits):
		return Backward
	case all&isSave != 0:
		return Save
	case all&isData != 0:
		return Data
	case all&isModuleCall != 0:
		return Forward
	case all&isSaver != 0:
		return Save
	case all&(isModuleMove|isLoad|isConstructor|isCopy) != 0:
		return Load
	case all&isLoss != 0:
		return Forward
	case all&(isUser|isLibrary) != 0:
		return User
	}
	return Unknown
}

// bucket tells whether the innermost Python frame is DistributedDataParallel: a forward pass goes through it too, but asks for memory
// further inside.
func bucket(stack []snapshot.FrameID, traits []trait) bool {
	for _, id := range stack {
		if traits[id]&isPython != 0 {
			return traits[id]&isBucket != 0
		}
	}
	return false
}

// calledByEngine tells a stack of the autograd engine's thread: its outermost Python frame is Function.apply, since nothing of the
// program called it (torch/autograd/function.py, BackwardCFunction.apply).
func calledByEngine(stack []snapshot.FrameID, traits []trait) bool {
	for i := len(stack) - 1; i >= 0; i-- {
		if f := traits[stack[i]]; f&isPython != 0 {
			return f&isApply != 0
		}
	}
	return false
}

// program finds the user's frame in a stack without code outside installed packages: the program itself is installed (python -m
// package, or a command of it). Its package is the one the program began in, and the frame the innermost of that package. Threads
// of a library have no beginning of a program in their stacks, and no line of the user's.
func (t *Table) program(stack []snapshot.FrameID, traits []trait) int {
	home, found := "", -1
	for i := len(stack) - 1; i >= 0; i-- {
		if traits[stack[i]]&isLibrary == 0 {
			continue
		}
		name := installedPackage(t.Stacks.Frames[stack[i]].File)
		if home == "" && !launchers[name] {
			home = name
		}
		if home != "" && name == home {
			found = i
		}
	}
	return found
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
