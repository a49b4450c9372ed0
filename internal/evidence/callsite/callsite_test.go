package callsite

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/snapshot"
)

var frame = regexp.MustCompile(`^(.*?):(\d+) (.*)$`)

// table reads one stack. Frames are "file:line function", innermost first.
func table(t *testing.T, frames []string) *Table {
	t.Helper()
	var out []map[string]any
	for _, f := range frames {
		part := frame.FindStringSubmatch(f)
		if part == nil {
			t.Fatalf("%q is no frame", f)
		}
		line, _ := strconv.Atoi(part[2])
		out = append(out, map[string]any{"filename": part[1], "line": line, "name": part[3]})
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Read(strings.NewReader(fmt.Sprintf(`{"segments":[],"device_traces":[[{"action":"alloc","addr":512,"size":512,"stream":0,"frames":%s}]]}`, b)))
	if err != nil {
		t.Fatal(err)
	}
	return NewTable(&s.Stacks)
}

const (
	unix    = "/home/me/venv/lib/python3.11/site-packages/"
	windows = `C:\Users\me\AppData\Local\Programs\Python\Python311\Lib\site-packages\`
)

func TestTheUsersLineIsFoundHoweverTheProgramIsStarted(t *testing.T) {
	t.Parallel()
	call := []string{unix + "torch/nn/modules/linear.py:134 forward", unix + "torch/nn/modules/module.py:1790 _call_impl", unix + "torch/nn/modules/module.py:1779 _wrapped_call_impl"}
	notebook := []string{unix + "IPython/core/interactiveshell.py:3577 run_code", unix + "ipykernel/ipkernel.py:449 do_execute", unix + "ipykernel_launcher.py:18 <module>", "<frozen runpy>:88 _run_code", "<frozen runpy>:198 _run_module_as_main"}
	for _, c := range []struct {
		name   string
		frames []string
		want   string // "" for no line of the user's
	}{
		{"a script", append(call, "train.py:72 main", "train.py:99 <module>"), "train.py:72"},
		{"a script with a path", append(call, "/home/me/job/net.py:20 forward", "/home/me/job/train.py:99 <module>"), "/home/me/job/net.py:20"},
		{"a project in a folder called lib", append(call, "/home/me/lib/python-jobs/train.py:7 main"), "/home/me/lib/python-jobs/train.py:7"},
		{"an old notebook", append(append(call, "<ipython-input-7-5d1e0>:3 <module>"), notebook...), "<ipython-input-7-5d1e0>:3"},
		{"a notebook", append(append(call, "/tmp/ipykernel_4242/1234567.py:5 train"), notebook...), "/tmp/ipykernel_4242/1234567.py:5"},
		{"python -c", append(call, "<string>:1 <module>"), "<string>:1"},
		{"python -m of an installed package", append(call, unix+"transformers/models/gpt2/modeling_gpt2.py:307 forward", unix+"mylab/loop.py:40 fit", unix+"mylab/train.py:12 main", unix+"mylab/train.py:30 <module>", "<frozen runpy>:88 _run_code", "<frozen runpy>:198 _run_module_as_main"), unix + "mylab/loop.py:40"},
		{"a command of an installed package", append(call, unix+"mylab/loop.py:40 fit", unix+"mylab/cli.py:12 main", "/home/me/venv/bin/mylab-train:8 <module>"), unix + "mylab/loop.py:40"},
		{"a command on Windows", append(call, windows+`mylab\loop.py:40 fit`, `C:\Users\me\venv\Scripts\mylab-train.exe\__main__.py:7 <module>`), windows + `mylab\loop.py:40`},
		{"an editable install of one's own", append(call, "/home/me/mylab/src/mylab/loop.py:40 fit", "/home/me/venv/bin/mylab-train:8 <module>"), "/home/me/mylab/src/mylab/loop.py:40"},
		{"transformers from its sources", append(call, "/home/me/transformers/src/transformers/trainer.py:3700 training_step", "train.py:40 <module>"), "train.py:40"},
		{"a build of PyTorch from source", []string{"/opt/pytorch/torch/_tensor.py:630 backward", "train.py:75 main"}, "train.py:75"},
		{"Windows", []string{windows + `torch\nn\modules\linear.py:134 forward`, windows + `torch\nn\modules\module.py:1790 _call_impl`, `D:\jobs\train.py:72 main`, `C:\Users\me\AppData\Local\Programs\Python\Python311\Lib\runpy.py:88 _run_code`}, `D:\jobs\train.py:72`},
		{"C++ frames in between", []string{"??:0 c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long)", "/pytorch/aten/src/ATen/native/Linear.cpp:50 at::native::linear", "??:0 torch::autograd::THPVariable_linear", "train.py:20 forward", "??:0 _PyEval_EvalFrameDefault", "train.py:72 main", "??:0 Py_BytesMain"}, "train.py:20"},
		{"code that torch.compile wrote", []string{"/tmp/torchinductor_me/ab/cabc.py:300 call", unix + "torch/_dynamo/eval_frame.py:838 compile_wrapper", "train.py:72 main"}, "train.py:72"},
		{"code that torch.fx wrote", []string{"<eval_with_key>.3:12 forward", unix + "torch/fx/graph_module.py:820 call_wrapped", "train.py:72 main"}, "train.py:72"},
		{"Trainer", append(call, unix+"transformers/trainer.py:3700 training_step", unix+"transformers/trainer.py:2500 _inner_training_loop", unix+"transformers/trainer.py:2200 train", "finetune.py:88 <module>"), "finetune.py:88"},
		{"a thread of a library", []string{unix + "transformers/core_model_loading.py:600 _materialize_copy", "/usr/lib/python3.11/concurrent/futures/thread.py:58 run", "/usr/lib/python3.11/threading.py:1002 _bootstrap"}, ""},
		{"a debugger", []string{"train.py:72 main", "/home/me/.vscode-server/extensions/ms-python.debugpy/bundled/libs/debugpy/_vendored/pydevd/pydevd.py:1500 run"}, "train.py:72"},
	} {
		f, ok := table(t, c.frames).UserFrame(1)
		got := ""
		if ok {
			got = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if got != c.want {
			t.Errorf("%s: the user's line is %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAStackSaysWhatTheProgramWasDoing(t *testing.T) {
	t.Parallel()
	torch := unix + "torch/"
	call := torch + "nn/modules/module.py:1790 _call_impl"
	adam := torch + "optim/adam.py:238 step"
	for _, c := range []struct {
		name   string
		frames []string
		want   Phase
	}{
		{"a layer", []string{torch + "nn/modules/linear.py:134 forward", call, "train.py:72 main"}, Forward},
		{"a loss without a module", []string{torch + "nn/functional.py:3462 cross_entropy", "train.py:73 main"}, Forward},
		{"the root of backward", []string{torch + "autograd/__init__.py:222 _make_grads", torch + "autograd/__init__.py:344 backward", torch + "_tensor.py:630 backward", "train.py:75 main"}, Backward},
		{"autograd.grad inside forward, as physics losses do", []string{torch + "autograd/graph.py:860 _engine_run_backward", torch + "autograd/__init__.py:502 grad", "net.py:20 forward", call, "train.py:72 main"}, Backward},
		{"the forward of a custom function", []string{"flash.py:30 forward", torch + "autograd/function.py:581 apply", "net.py:20 forward", call, "train.py:72 main"}, Forward},
		{"the backward of a custom function", []string{"flash.py:50 backward", torch + "autograd/function.py:302 apply"}, Backward},
		{"recomputing a checkpointed layer", []string{torch + "nn/modules/linear.py:134 forward", call, "net.py:20 forward", torch + "utils/checkpoint.py:1588 recompute_fn", torch + "utils/checkpoint.py:1200 unpack_hook"}, Backward},
		{"running a checkpointed layer", []string{torch + "nn/modules/linear.py:134 forward", call, torch + "utils/checkpoint.py:496 checkpoint", "net.py:20 forward", call, "train.py:72 main"}, Forward},
		{"the engine, in C++ frames", []string{"??:0 at::native::mm", "??:0 torch::autograd::Engine::evaluate_function", "??:0 torch::autograd::python::PythonEngine::thread_init"}, Backward},
		{"Adam", []string{torch + "optim/adam.py:178 _init_group", adam, "train.py:76 main"}, Optimizer},
		{"an optimizer of one's own", []string{"lion.py:30 step", torch + "optim/optimizer.py:533 wrapper", "train.py:76 main"}, Optimizer},
		{"Lightning's forward, inside the optimizer's step", []string{torch + "nn/modules/linear.py:134 forward", call, "net.py:20 training_step", unix + "lightning/pytorch/loops/optimization/automatic.py:317 _training_step", unix + "lightning/pytorch/loops/optimization/automatic.py:126 closure", adam, unix + "lightning/pytorch/core/optimizer.py:154 step", "train.py:40 main"}, Forward},
		{"Lightning's loss, inside the optimizer's step", []string{torch + "nn/functional.py:3462 cross_entropy", "net.py:22 training_step", unix + "lightning/pytorch/loops/optimization/automatic.py:126 closure", adam, "train.py:40 main"}, Forward},
		{"Lightning's backward", []string{torch + "_tensor.py:630 backward", unix + "lightning/pytorch/loops/optimization/automatic.py:130 closure", adam, "train.py:40 main"}, Backward},
		{"moving a model", []string{torch + "nn/modules/module.py:1361 convert", torch + "nn/modules/module.py:942 _apply", torch + "nn/modules/module.py:1373 to", "train.py:60 main"}, Load},
		{"building a model on the card", []string{torch + "nn/modules/linear.py:109 __init__", "net.py:12 __init__", "train.py:60 main"}, Load},
		{"a deep copy", []string{torch + "nn/parameter.py:68 __deepcopy__", "/usr/lib/python3.11/copy.py:153 deepcopy", "train.py:61 main"}, Load},
		{"a checkpoint read", []string{torch + "serialization.py:430 _cuda_deserialize", torch + "serialization.py:1500 load", "train.py:64 resume"}, Load},
		{"a checkpoint written", []string{torch + "serialization.py:900 _save", "train.py:90 save"}, Save},
		{"a batch", []string{torch + "utils/data/_utils/pin_memory.py:60 pin_memory", torch + "utils/data/dataloader.py:700 __next__", "train.py:70 main"}, Data},
		{"a tensor of the script's own", []string{"train.py:70 main"}, User},
	} {
		if got := table(t, c.frames).Of(1).Phase; got != c.want {
			t.Errorf("%s: phase %d, want %d", c.name, got, c.want)
		}
	}
}

func TestEvaluationIsHeardInNamesThatMeanIt(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"evaluate": true, "validation_step": true, "run_eval": true, "_evaluate": true, "prediction_step": true, "test": true, "generate": true, "evaluation_loop": true,
		"train": false, "train_and_eval": false, "predict_noise": false, "generate_mask": false, "invalidate_cache": false, "contest": false, "fit": false, "main": false,
	} {
		if got := table(t, []string{"train.py:3 " + name}).Of(1).Eval; got != want {
			t.Errorf("%s: evaluation %v, want %v", name, got, want)
		}
	}
}
