package oomtext

import (
	"fmt"
	"strings"
	"testing"
)

const oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 8.00 MiB is free.\n"

// trace prints a traceback of file:line:function:code calls.
func trace(calls ...string) string {
	var b strings.Builder
	b.WriteString("Traceback (most recent call last):\n")
	for _, c := range calls {
		f := strings.SplitN(c, ":", 4)
		fmt.Fprintf(&b, "  File %q, line %s, in %s\n    %s\n", f[0], f[1], f[2], f[3])
	}
	return b.String()
}

const site = "/opt/conda/lib/python3.11/site-packages/"

func TestThePhaseComesFromTheTraceback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, trace string
		want        Phase
		by          string
	}{
		{"forward", trace("train.py:40:<module>:out = model(x)", site+"torch/nn/modules/module.py:1779:_wrapped_call_impl:return self._call_impl(*args)",
			"net.py:7:forward:return self.fc(x)"), PhaseForward, "net.py"},
		{"backward", trace("train.py:41:<module>:loss.backward()", site+"torch/_tensor.py:631:backward:torch.autograd.backward(",
			site+"torch/autograd/__init__.py:381:backward:_engine_run_backward("), PhaseBackward, site + "torch/autograd/__init__.py"},
		{"forward again inside backward", trace("train.py:41:<module>:loss.backward()", site+"torch/autograd/graph.py:869:_engine_run_backward:return run_backward(",
			site+"torch/utils/checkpoint.py:10:recompute_fn:fn(*args)", "net.py:7:forward:return self.fc(x)"), PhaseBackward, site + "torch/autograd/graph.py"},
		{"optimizer", trace("train.py:42:<module>:optimizer.step()", site+"torch/optim/adamw.py:99:step:self._init_group(group)"), PhaseOptimizer, site + "torch/optim/adamw.py"},
		{"a training step as closure of the optimizer", trace("train.py:9:<module>:trainer.fit(model)", site+"torch/optim/adamw.py:148:step:loss = closure()",
			"lit.py:30:training_step:y = self.net(x)", site+"torch/nn/modules/module.py:1779:_call_impl:return forward_call(*args)"), PhaseForward, site + "torch/nn/modules/module.py"},
		{"backward in a closure", trace("train.py:9:<module>:opt.step(closure)", site+"torch/optim/lbfgs.py:148:step:loss = closure()",
			"train.py:7:closure:loss.backward()"), PhaseBackward, "train.py"},
		{"model to the card", trace("train.py:12:main:model.to(device)", site+"torch/nn/modules/module.py:1174:to:return self._apply(convert)",
			site+"torch/nn/modules/module.py:805:_apply:param_applied = fn(param)"), PhaseLoad, "train.py"},
		{"checkpoint", trace("train.py:12:main:state = torch.load(path)", site+"torch/serialization.py:1014:load:return _load(opened_zipfile)"), PhaseLoad, "train.py"},
		{"evaluation", trace("train.py:80:<module>:main()", "train.py:60:evaluate:out = model(x)", "net.py:7:forward:return self.fc(x)"), PhaseEval, "train.py"},
		{"an allocation", trace("train.py:3:<module>:x = torch.zeros(10**10)"), PhaseOther, ""},
		{"none", "", PhaseOther, ""},
	} {
		messages := read(t, c.trace+oom)
		if len(messages) != 1 {
			t.Fatalf("%s: %d messages", c.name, len(messages))
		}
		if got, by := messages[0].Phase(); got != c.want || by.File != c.by {
			t.Errorf("%s: %s by %+v, want %s by %s", c.name, got, by, c.want, c.by)
		}
	}
}

func TestCaretsTellWhichCallOfALineItWas(t *testing.T) {
	t.Parallel()
	text := "Traceback (most recent call last):\n" +
		"  File \"train.py\", line 174, in step\n" +
		"    opt.zero_grad(); out = m(ids); out.loss.backward(); opt.step()\n" +
		"                     ^^^^^^^^\n" + // columns are counted behind the indentation
		"  File \"net.py\", line 3, in forward\n    return self.fc(x)\n" + oom
	m := read(t, strings.Replace(text, "                     ^^^^^^^^", "                           ^^^^^^", 1))[0]
	f := m.Tracebacks[0].Frames[0]
	if f.Mark != "m(ids)" {
		t.Errorf("mark %q of %q", f.Mark, f.Code)
	}
	if phase, _ := m.Phase(); phase != PhaseForward {
		t.Errorf("phase %s: backward stands on the line but was not the call", phase)
	}
	if user, ok := m.UserFrame(); !ok || user.File != "net.py" || user.Line != 3 {
		t.Errorf("user's line %+v", user)
	}
}

func TestChainedExceptionsStayTogether(t *testing.T) {
	t.Parallel()
	text := trace("old.py:1:gone:raise ValueError") + "ValueError: long over\nfine again\n" +
		trace("train.py:10:step:loss.backward()") + oom +
		"\nDuring handling of the above exception, another exception occurred:\n\n" +
		trace("train.py:14:retry:out = model(x)", "net.py:7:forward:return self.fc(x)") + strings.Replace(oom, "64.00", "32.00", 1)
	messages := read(t, text)
	if len(messages) != 2 {
		t.Fatalf("%d messages", len(messages))
	}
	if n := len(messages[0].Tracebacks); n != 1 || messages[0].Tracebacks[0].Frames[0].File != "train.py" {
		t.Errorf("first: %+v", messages[0].Tracebacks)
	}
	second := messages[1].Tracebacks
	if len(second) != 2 || second[1].Link != DuringHandling || !strings.HasPrefix(second[0].Error, "torch.OutOfMemoryError: CUDA") {
		t.Fatalf("second: %+v", second)
	}
	if phase, by := messages[1].Phase(); phase != PhaseForward || by.Line != 7 {
		t.Errorf("phase %s by %+v", phase, by)
	}
}

func TestATracebackThatEndedInAnotherErrorIsNotBorrowed(t *testing.T) {
	t.Parallel()
	m := read(t, trace("data.py:1:load:open(path)")+"FileNotFoundError: no such file\nretrying\n"+oom)[0]
	if len(m.Tracebacks) != 0 {
		t.Errorf("%+v", m.Tracebacks)
	}
}

func TestTracebacksOfNotebooksRichAndJSONLogsAreRead(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"IPython": "OutOfMemoryError                          Traceback (most recent call last)\nCell In[5], line 3\n      1 for x in data:\n      2     out = model(x)\n----> 3     loss.backward()\n\n" +
			"File ~/venv/lib/python3.11/site-packages/torch/_tensor.py:631, in Tensor.backward(self, gradient)\n    630 x\n--> 631 torch.autograd.backward(\n    632     self)\n\n" + oom,
		"old IPython": "<ipython-input-9-0a1b> in <module>\n      2     out = model(x)\n----> 3     loss.backward()\n\n" +
			"/usr/lib/python3/dist-packages/torch/tensor.py in backward(self, gradient)\n    194 x\n--> 195         torch.autograd.backward(self, gradient)\n" + oom,
		"rich":    "╭──── Traceback (most recent call last) ────╮\n│ /home/u/train.py:3 in <module>            │\n│                                           │\n│    2 out = model(x)                       │\n│ ❱  3 │   loss.backward()                  │\n│    4                                      │\n╰───────────────────────────────────────────╯\n" + oom,
		"JSON":    `{"level":"error","exc":"Traceback (most recent call last):\n  File \"train.py\", line 3, in main\n    loss.backward()\n` + "\"}\n" + oom,
		"wrapped": "Traceback (most recent call last):\n  File \"/home/someone/with/a/long/path/train.py\n\", line 3, in main\n    loss.backward()\n" + oom,
	} {
		messages := read(t, text)
		if len(messages) != 1 || len(messages[0].Tracebacks) == 0 {
			t.Errorf("%s: %+v", name, messages)
			continue
		}
		first := messages[0].Tracebacks[0].Frames[0]
		phase, _ := messages[0].Phase()
		if first.Line != 3 || first.Code != "loss.backward()" || phase != PhaseBackward {
			t.Errorf("%s: %+v, phase %s", name, first, phase)
		}
	}
}
