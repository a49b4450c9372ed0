package flow_test

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

func analyze(code string) *flow.Module {
	return flow.Analyze("t.py", pysource.Parse([]byte(code)), nil)
}

// after gives what a name holds when the module's body has run.
func after(code, name string) flow.Value { return analyze(code).Scopes[0].Holds(name) }

func TestWhatDerivesFromAModelCallKeepsItsGraph(t *testing.T) {
	t.Parallel()
	for expr, graph := range map[string]bool{
		"model(x)":                           true,
		"model(x).mean() * 2 + 1":            true,
		"criterion(model(x), y)":             true,
		"torch.stack([model(x), y])":         true,
		"F.cross_entropy(model(x), y)":       true,
		"[model(x) for x in xs]":             true,
		"sum([model(x)])":                    true,
		"model(x) if flag else 0":            true,
		"model(x)[0]":                        true,
		"model(x).cpu()":                     true,
		"model(x).item()":                    false,
		"model(x).detach()":                  false,
		"model(x).data":                      false,
		"float(model(x))":                    false,
		"model(x).argmax(1)":                 false,
		"model(x).tolist()":                  false,
		"model(x) == y":                      false,
		"model(x).shape":                     false,
		"tokenizer(x)":                       false,
		"torch.randn(3)":                     false,
		"model.generate(x)":                  false,
		"helper(model(x))":                   false,
		"torch.max(model(x), 1)[1]":          false,
		"model(x).max(1)[1]":                 false,
		"model(x).max(1)[0]":                 true,
		"nn.Softmax(1)(model(x))":            true,
		"nn.CosineSimilarity()(x, y)":        false,
		"torch.autograd.grad(model(x), x)":   false,
		"nn.Linear(1, 2).to(device)(x)":      true,
		"(lambda z: z)(model(x))":            false,
		"torch.nn.functional.relu(model(x))": true,
	} {
		if got := after("import torch, torch.nn as nn\nimport torch.nn.functional as F\nv = "+expr+"\n", "v").HasGraph(); got != graph {
			t.Errorf("%s: graph %v, not %v", expr, got, graph)
		}
	}
}

func TestNothingIsRecordedWhereAutogradIsOff(t *testing.T) {
	t.Parallel()
	for code, graph := range map[string]bool{
		"with torch.no_grad():\n    v = model(x)":                                                                   false,
		"with torch.inference_mode(), open(f) as g:\n    v = model(x)":                                              false,
		"with torch.set_grad_enabled(False):\n    v = model(x)":                                                     false,
		"with torch.set_grad_enabled(train):\n    v = model(x)":                                                     true,
		"with torch.autocast('cuda'):\n    v = model(x)":                                                            true,
		"torch.set_grad_enabled(False)\nv = model(x)":                                                               false,
		"@torch.no_grad()\ndef f(x):\n    return model(x)\nv = f(x)":                                                false,
		"def f(x):\n    return model(x)\nv = f(x)":                                                                  true,
		"def f(x):\n    return model(x).item()\nv = f(x)":                                                           false,
		"def f(x):\n    return model(x)\nwith torch.no_grad():\n    v = f(x)":                                       false,
		"if a:\n    v = model(x)\nelse:\n    v = 0":                                                                 true,
		"v = model(x)\nif a:\n    v = v.detach()":                                                                   true,
		"v = model(x)\nv = v.detach()":                                                                              false,
		"v = model(x)\nif a:\n    v = v.detach()\nelse:\n    v = v.item()":                                          false,
		"def f(x):\n    return 1, model(x)\n_, v = f(x)":                                                            true,
		"def f(x):\n    return 1, model(x)\nv, _ = f(x)":                                                            false,
		"class A:\n    def g(self):\n        return model(x)\nv = A().g()":                                          true,
		"def f():\n    return {'a': model(x), 'b': 1}\nv = f()['b']":                                                false,
		"def f():\n    return {'a': model(x), 'b': 1}\nv = f()['a']":                                                true,
		"def f(t):\n    return t * 2\nv = f(model(x))":                                                              true,
		"def f(t, u):\n    return u\nv = f(model(x), 1)":                                                            false,
		"def f(t):\n    return t.detach()\nv = f(model(x))":                                                         false,
		"def f(t):\n    yield t.mean()\nfor v in f(model(x)):\n    pass":                                            true,
		"class M:\n    def add(self, t):\n        self.s += t\nm = M()\nfor x in xs:\n    m.add(model(x))\nv = m.s": true,
		"import functools\nf = functools.partial(criterion, a=1)\nv = f(model(x), y)":                               true,
		"for i, v in enumerate([model(x)]):\n    pass":                                                              true,
		"for v, t in enumerate([model(x)]):\n    pass":                                                              false,
		"v = torch.numel(model(x))":                                                                                 false,
		"y = model(x)\nwith torch.no_grad():\n    v = y * 2":                                                        false,
		"v = []\nfor x in xs:\n    v.append(model(x))":                                                              true,
		"v = {}\nv['k'] = model(x)":                                                                                 true,
		"v = 0\nfor x in xs:\n    v += model(x)":                                                                    true,
		"try:\n    v = model(x)\nexcept E:\n    v = None":                                                           true,
		"def f(n):\n    return f(n - 1)\nv = f(3)":                                                                  false,
		"model, loader = accelerator.prepare(model, loader)\nv = model(loader)":                                     true,
	} {
		if got := after("import torch\n"+code+"\n", "v").HasGraph(); got != graph {
			t.Errorf("%s\ngraph %v, not %v", code, got, graph)
		}
	}
}

func TestLoopsAreKnownByWhatTheyRunOver(t *testing.T) {
	t.Parallel()
	for iter, kind := range map[string]flow.LoopKind{
		"loader": flow.LoaderLoop, "enumerate(train_loader)": flow.LoaderLoop, "tqdm(enumerate(val_dl), total=3)": flow.LoaderLoop,
		"DataLoader(data, 4)": flow.LoaderLoop, "range(3)": flow.RangeLoop, "models": flow.OtherLoop, "zip(loader, names)": flow.LoaderLoop,
		"itertools.islice(loader, 4)": flow.LoaderLoop, "tqdm.tqdm(loader)": flow.LoaderLoop,
	} {
		m := analyze("import tqdm, itertools\nfor i in " + iter + ":\n    pass\n")
		if got := m.Scopes[0].Loops[0].Kind; got != kind {
			t.Errorf("for i in %s: kind %d, not %d", iter, got, kind)
		}
	}
}

func TestKindsComeFromConstructorsBeforeNames(t *testing.T) {
	t.Parallel()
	for code, kind := range map[string]flow.Kind{
		"v = torch.optim.SGD(p)":                                      flow.Optimizer,
		"v = nn.CrossEntropyLoss()":                                   flow.Criterion,
		"v = AutoModelForCausalLM.from_pretrained('x')":               flow.Model,
		"v = AutoTokenizer.from_pretrained('x')":                      flow.Unknown,
		"class N(nn.Module):\n    pass\nv = N().to(d)":                flow.Model,
		"class B(nn.Module):\n    pass\nclass N(B):\n    pass\nv=N()": flow.Model,
		"v = torch.load('x')":                                         flow.Checkpoint,
		"v = torch.compile(DDP(nn.Linear(1, 2)))":                     flow.Model,
		"v = torch.amp.GradScaler('cuda')":                            flow.Scaler,
		"model = None\nv = model":                                     flow.Unknown,
	} {
		if got := after("import torch, torch.nn as nn\n"+code+"\n", "v").Kind; got != kind {
			t.Errorf("%s: kind %d, not %d", code, got, kind)
		}
	}
}

func TestNumbersAreFolded(t *testing.T) {
	t.Parallel()
	m := analyze("a = 16\nb = a * 2 ** 3 // 4 - (7 % 4)\nc = unknown * 2\n")
	if v := m.Scopes[0].Holds("b"); !v.HasNum || v.Num != 29 {
		t.Errorf("b is %+v", v)
	}
	if m.Scopes[0].Holds("c").HasNum {
		t.Error("an unknown number was computed with")
	}
}

func TestReachesFollowsCallsThroughTheFile(t *testing.T) {
	t.Parallel()
	m := analyze("def a(l):\n    b(l)\ndef b(l):\n    c(l)\ndef c(l):\n    l.backward()\ndef d(l):\n    d(l)\n")
	if !m.Reaches(m.Functions["a"], "backward") || m.Reaches(m.Functions["d"], "backward") {
		t.Error("the chain of calls is not followed rightly")
	}
}

func TestALongChainOfCallsEnds(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 20_000 {
		b.WriteString("def f" + strings.Repeat("x", i%7) + "(m):\n    return f" + strings.Repeat("x", (i+1)%7) + "(m(m))\n")
	}
	analyze(b.String())
}
