package oomtext

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/torch"
)

// Phase is the part of a training job a message falls into.
type Phase = torch.Phase

// The phases, as reports spell them.
const (
	PhaseLoad      = torch.PhaseLoad
	PhaseForward   = torch.PhaseForward
	PhaseBackward  = torch.PhaseBackward
	PhaseOptimizer = torch.PhaseOptimizer
	PhaseEval      = torch.PhaseEval
	PhaseOther     = torch.PhaseOther
)

// Phase infers the phase from the traceback and returns the frame that decided. Backward wins over what
// runs inside it (checkpointing runs forward again there). An optimizer's frames count only where nothing runs
// inside them: Lightning and LBFGS call the whole step from optimizer.step as a closure.
func (m Message) Phase() (Phase, Frame) {
	if len(m.Tracebacks) == 0 {
		return PhaseOther, Frame{}
	}
	frames := m.Tracebacks[len(m.Tracebacks)-1].Frames
	var inner, eval, load Frame
	phase, loads := PhaseOther, false
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		switch got := f.phase(); {
		case got == PhaseBackward && phase != PhaseOptimizer:
			return PhaseBackward, f
		case got == PhaseEval:
			eval = f
		case got == PhaseLoad:
			load, loads = f, true
		case got == PhaseOptimizer && (phase == PhaseForward || loads):
		case got != PhaseOther && phase == PhaseOther:
			phase, inner = got, f
		}
	}
	switch {
	case phase == PhaseOptimizer:
		return phase, inner
	case loads && phase != PhaseForward:
		return PhaseLoad, load
	case eval.File != "":
		return PhaseEval, eval
	}
	return phase, inner
}

// phase tells what one frame says on its own.
func (f Frame) phase() Phase {
	file := strings.ReplaceAll(f.File, `\`, "/")
	code := f.Code
	if f.Mark != "" {
		code = f.Mark // the carets tell which call of the line it was
	}
	switch {
	case strings.Contains(file, "/optim/") && !strings.HasSuffix(file, "lr_scheduler.py"), oneOf(code, optimizerCalls), strings.Contains(f.Function, "_optimizer_step"):
		return PhaseOptimizer
	case strings.Contains(file, "torch/autograd/") && strings.Contains(f.Function, "backward"), oneOf(code, backwardCalls):
		return PhaseBackward
	case f.loads(file, code):
		return PhaseLoad
	case evalNames[strings.TrimLeft(f.Function, "_")]:
		return PhaseEval
	case f.runsModule(file):
		return PhaseForward
	}
	return PhaseOther
}

var (
	optimizerCalls = []string{"optimizer.step(", "opt.step(", "optim.step(", "scaler.step(", ".optimizer_step(", "exp_avg", "_multi_tensor_", "_single_tensor_"}
	backwardCalls  = []string{".backward(", "run_backward(", "autograd.grad(", "manual_backward("}
	loadCalls      = []string{"from_pretrained(", "from_config(", "load_state_dict(", "torch.load(", "load_checkpoint(", "safe_open(",
		"model.to(", "model.cuda(", "net.to(", "net.cuda(", "self.cuda(", "self.to("}
	evalNames = map[string]bool{"evaluate": true, "evaluation": true, "validate": true, "validation": true, "validation_step": true, "test_step": true,
		"evaluation_loop": true, "eval_step": true, "prediction_step": true, "predict_step": true, "predict": true, "eval_epoch": true,
		"val_epoch": true, "validate_epoch": true, "run_eval": true, "do_eval": true, "run_validation": true, "generate": true, "test": true, "eval": true, "val": true}
)

// loads tells a frame that brings a model or a checkpoint to the device: Module._apply is what .to(),
// .cuda() and .half() of a module run (torch/nn/modules/module.py).
func (f Frame) loads(file, code string) bool {
	if strings.HasSuffix(file, "torch/nn/modules/module.py") {
		return f.Function == "_apply" || f.Function == "convert" || f.Function == "to" || f.Function == "cuda"
	}
	if strings.HasSuffix(file, "torch/serialization.py") {
		return true
	}
	if oneOf(code, loadCalls) {
		return true
	}
	return f.Function == "<module>" && (strings.Contains(code, ".cuda(") || strings.Contains(code, ".to("))
}

func (f Frame) runsModule(file string) bool {
	switch f.Function {
	case "forward", "training_step", "compute_loss", "_call_impl", "_wrapped_call_impl":
		return true
	case "__call__":
		return strings.HasSuffix(file, "torch/nn/modules/module.py")
	}
	return strings.HasSuffix(file, "torch/nn/functional.py")
}

func oneOf(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// UserFrame returns the innermost call that is the user's own code, not a library's.
func (m Message) UserFrame() (Frame, bool) {
	for i := len(m.Tracebacks) - 1; i >= 0; i-- {
		frames := m.Tracebacks[i].Frames
		for j := len(frames) - 1; j >= 0; j-- {
			if frames[j].File != "" && !frames[j].Library() {
				return frames[j], true
			}
		}
	}
	return Frame{}, false
}

// Library tells whether a frame lies in an installed package, Python itself or a launcher.
func (f Frame) Library() bool {
	file := strings.ReplaceAll(f.File, `\`, "/")
	if strings.HasPrefix(file, "<") && !strings.HasPrefix(file, "<ipython-input") && file != "<stdin>" {
		return true
	}
	return oneOf(file, []string{"site-packages/", "dist-packages/", "/lib/python", "/lib64/python", "torch/nn/modules/", "torch/autograd/"})
}
