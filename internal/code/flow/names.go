package flow

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// collectImports notes what each imported name stands for, wherever in the file it is imported.
func (m *Module) collectImports() {
	for _, imp := range m.File.Imports {
		for _, a := range imp.Aliases {
			m.takeImport(imp, a)
		}
	}
}

func (m *Module) takeImport(imp *pysource.Import, a pysource.Alias) {
	local := a.As
	switch {
	case imp.From && a.Name == "*":
		m.importAll(imp.Module)
	case imp.From:
		if local == "" {
			local = a.Name
		}
		m.Imports[local] = strings.TrimSuffix(imp.Module, ".") + "." + a.Name
		if strings.Trim(imp.Module, ".") == "" {
			m.Imports[local] = imp.Module + a.Name
		}
	case local != "":
		m.Imports[local] = a.Name
	default:
		top, _, _ := strings.Cut(a.Name, ".")
		m.Imports[top] = top
	}
}

// importAll takes over the names of "from utils import *" where utils is a file of the project.
func (m *Module) importAll(module string) {
	e := m.lookup(module)
	if e == nil {
		return
	}
	for name := range e.Functions {
		m.Imports[name] = module + "." + name
	}
	for name := range e.Classes {
		m.Imports[name] = module + "." + name
	}
}

// usual are names so settled in PyTorch code that a fragment without imports may use them.
var usual = map[string]string{
	"nn": "torch.nn", "F": "torch.nn.functional", "optim": "torch.optim", "DataLoader": "torch.utils.data.DataLoader",
	"torch": "torch", "np": "numpy", "autocast": "autocast", "GradScaler": "GradScaler",
}

// Dotted resolves an expression to a dotted name through the imports; empty where it is not a plain chain of names.
func (m *Module) Dotted(x pysource.Expr) string {
	switch x := x.(type) {
	case *pysource.Name:
		if origin, ok := m.Imports[x.ID]; ok {
			return origin
		}
		if m.Functions[x.ID] == nil && m.Classes[x.ID] == nil && usual[x.ID] != "" {
			return usual[x.ID]
		}
		return x.ID
	case *pysource.Attribute:
		if x.Path == "" {
			return ""
		}
		if known, ok := m.dotted[x.Path]; ok {
			return known
		}
		out := m.Dotted(x.X)
		if len(out)+1+len(x.Attr) == len(x.Path) && strings.HasPrefix(x.Path, out) {
			out = x.Path
		} else {
			out += "." + x.Attr
		}
		m.dotted[x.Path] = out
		return out
	}
	return ""
}

// Last is the last part of a dotted name.
func Last(dotted string) string { return dotted[strings.LastIndexByte(dotted, '.')+1:] }

// Key names a place a value can stay in: a name, or an attribute of self; empty for anything else.
func Key(x pysource.Expr) string {
	switch x := x.(type) {
	case *pysource.Name:
		return x.ID
	case *pysource.Attribute:
		return x.Path
	}
	return ""
}

// collectUses notes what names must be by how the file uses them: only modules have eval() and parameters(), only optimizers
// both step() and zero_grad(), and what gives the value that backward() is called on is a loss function.
func (m *Module) collectUses() {
	m.uses = map[string]Kind{}
	steps, zeros := map[string]bool{}, map[string]bool{}
	losses, made := map[string][]int{}, map[string][]string{}
	m.byHand = handwritten(m.File.Body)
	backs := func(x pysource.Expr, at *pysource.Call) {
		if key := Key(x); key != "" {
			losses[key] = append(losses[key], int(at.Pos().Start))
		}
	}
	pysource.WalkBody(m.File.Body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Assign:
			if c, ok := n.Value.(*pysource.Call); ok && n.Op == "" {
				noteMaker(made, n.Targets[0], c)
			}
		case *pysource.Call:
			a, ok := n.Func.(*pysource.Attribute)
			if !ok {
				return true
			}
			key := Key(a.X)
			if inner, ok := a.X.(*pysource.Call); ok && a.Attr == "backward" && len(inner.Args) > 0 { // scaler.scale(loss).backward()
				backs(inner.Args[0].Value, n)
			}
			if key == "" || key == "self" || m.Imports[key] != "" || strings.HasPrefix(key, "super") {
				return true
			}
			switch a.Attr {
			case "eval", "parameters", "named_parameters", "train":
				if len(n.Args) == 0 || a.Attr == "train" && len(n.Args) == 1 && isConstant(n.Args[0].Value) {
					m.uses[key] = Model
				}
			case "step":
				steps[key] = true
			case "zero_grad":
				zeros[key] = true
			case "backward":
				if m.byHand[len(n.Args)] {
					return true
				}
				backs(a.X, n)
				if len(n.Args) > 0 && n.Args[0].Name == "" {
					backs(n.Args[0].Value, n)
				}
			}
		}
		return true
	})
	m.losses = losses
	for key := range zeros {
		if steps[key] && m.uses[key] == Unknown {
			m.uses[key] = Optimizer
		}
	}
	for loss := range losses {
		for _, maker := range made[loss] {
			if m.uses[maker] == Unknown {
				m.uses[maker] = Criterion
			}
		}
	}
}

// backed tells whether backward() is called on a name where it means the same: in the function that binds it or one around it.
// The attributes of an object mean the same in the whole file.
func (m *Module) backed(fn *Function, key string) bool {
	at := m.losses[key]
	if strings.Contains(key, ".") || len(at) == 0 {
		return len(at) > 0
	}
	for _, pos := range at {
		if fn == nil && !m.inFunction(pos) {
			return true
		}
		for o := fn; o != nil; o = o.Outer {
			if span := o.Node.Pos(); pos >= int(span.Start) && pos < int(span.End) {
				return true
			}
		}
	}
	return false
}

func (m *Module) inFunction(pos int) bool {
	for _, fn := range m.All {
		if span := fn.Node.Pos(); pos >= int(span.Start) && pos < int(span.End) {
			return true
		}
	}
	return false
}

// noteMaker notes that a name is given what a call gives: loss = crit(out, y).
func noteMaker(made map[string][]string, target pysource.Expr, c *pysource.Call) {
	if seq, ok := target.(*pysource.Sequence); ok && len(seq.Items) > 0 {
		target = seq.Items[0]
	}
	name, maker := Key(target), Key(c.Func)
	if name != "" && maker != "" && len(c.Args) >= 2 && !strings.Contains(strings.TrimPrefix(maker, "self."), ".") {
		made[name] = append(made[name], maker)
	}
}

func isConstant(x pysource.Expr) bool { _, ok := x.(*pysource.Constant); return ok }

// guess is what a name promises: by how the file uses it, else by the name itself.
func (m *Module) guess(key string) Value {
	if v := named(key); v.Kind != Unknown {
		return v
	}
	kind := m.uses[key]
	if kind == Unknown || kind == Criterion && (m.Functions[key] != nil || m.Imports[key] != "") {
		return Value{}
	}
	return Value{Kind: kind, Guess: true}
}

// paramValue is what a parameter is: by its annotation, what the first call hands over, its name or its use.
func (m *Module) paramValue(fn *Function, i int, p pysource.Param, hint Value) Value {
	if p.Star > 0 {
		return Value{}
	}
	if i == 0 && p.Name == "self" && fn.Class != nil {
		return m.selfValue(fn.Class)
	}
	v := m.annotated(p.Annotation)
	if v.Kind == Unknown && v.Class == "" {
		v = m.guess(p.Name)
	}
	if v.Kind == Unknown && v.Class == "" || v.Guess && hint.Class != "" {
		v = asParameter(hint)
	}
	if v.Kind == Unknown || v.IsTensor() {
		v.From = bit(i)
	}
	return v
}

// selfValue is what self is inside a class's methods.
func (m *Module) selfValue(c *Class) Value {
	if c.Module || !c.Plain && c.Methods["forward"] != nil && (c.Methods["parameters"] != nil || c.Methods["train"] != nil || c.Methods["eval"] != nil) {
		return Value{Kind: Model, Class: c.Name} // or a wrapper around one
	}
	return Value{Class: c.Name}
}

// asParameter is what a function may rely on of a value it is handed: what it is, not what it was computed from.
func asParameter(v Value) Value {
	switch v.Kind {
	case Model, Criterion, Optimizer, Scaler, Loader, Dataset, Helper, Activation:
		return Value{Kind: v.Kind, Class: v.Class, Wrap: v.Wrap, Guess: true}
	case Unknown:
		return Value{Class: v.Class, Guess: v.Class != ""}
	}
	return Value{}
}

// annotated is what a type annotation says.
func (m *Module) annotated(x pysource.Expr) Value {
	switch x := x.(type) {
	case *pysource.Subscript: // Optional[X]
		if Last(m.Dotted(x.X)) == "Optional" {
			return m.annotated(x.Index)
		}
		return Value{}
	case *pysource.Binary: // X | None
		return m.annotated(x.Left)
	case *pysource.Name, *pysource.Attribute:
		return m.typed(m.Dotted(x))
	}
	return Value{}
}

func (m *Module) typed(dotted string) Value {
	switch dotted {
	case "torch.Tensor", "torch.autograd.Variable":
		return Value{}
	case "torch.nn.Module", "torch.jit.ScriptModule", "transformers.PreTrainedModel", "torch.nn.parallel.DistributedDataParallel":
		return Value{Kind: Model}
	case "torch.utils.data.DataLoader":
		return Value{Kind: Loader}
	case "torch.optim.Optimizer", "torch.optim.optimizer.Optimizer":
		return Value{Kind: Optimizer}
	case "accelerate.Accelerator":
		return Value{Kind: Helper}
	}
	if c := m.Classes[dotted]; c != nil {
		return instance(c.facts(), c.Name)
	}
	if facts := m.remoteClass(dotted); facts != nil {
		return instance(*facts, m.remoteClassName(dotted))
	}
	return Value{}
}

// settings are the names that people give to what holds options.
var settings = map[string]bool{"args": true, "opt": true, "opts": true, "cfg": true, "config": true, "hparams": true, "params": true, "flags": true, "FLAGS": true, "conf": true}

// named guesses what a value is from its name alone.
func named(name string) Value {
	n := strings.ToLower(Last(name))
	kind := Unknown
	switch {
	case anyOf(n, "loader", "dataloader") || strings.HasSuffix(n, "_dl") || strings.HasSuffix(n, "loader") || strings.HasPrefix(n, "loader_"):
		kind = Loader
	case anyOf(n, "criterion", "crit", "loss_fn", "loss_func", "loss_function", "loss_fct", "lossfn", "loss_criterion", "criterions") || strings.HasPrefix(n, "criterion_") ||
		strings.HasSuffix(n, "_criterion") || strings.HasSuffix(n, "_loss_fn"):
		kind = Criterion
	case anyOf(n, "optimizer", "optim", "opt") || strings.HasSuffix(n, "optimizer") || strings.HasPrefix(n, "optimizer_") || strings.HasPrefix(n, "optim_") ||
		strings.HasPrefix(n, "opt_") || strings.HasSuffix(n, "_opt"):
		kind = Optimizer
	case anyOf(n, "scaler", "grad_scaler", "loss_scaler"):
		kind = Scaler
	case anyOf(n, "accelerator", "fabric"):
		kind = Helper
	case modelName(n):
		kind = Model
	}
	return Value{Kind: kind, Guess: kind != Unknown}
}

func modelName(n string) bool {
	if anyOf(n, "model", "net", "network", "unet", "netg", "netd", "discriminator", "teacher", "student", "ddp_model",
		"model_without_ddp", "model_ema", "policy_net", "resnet", "lstm", "rnn", "gru", "bert", "transformer") {
		return true
	}
	return strings.HasSuffix(n, "_model") || strings.HasSuffix(n, "_net") || strings.HasSuffix(n, "_network")
}

func anyOf(s string, words ...string) bool {
	for _, w := range words {
		if s == w {
			return true
		}
	}
	return false
}
