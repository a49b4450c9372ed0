package flow

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// collectImports notes what each imported name stands for, wherever in the file it is imported.
func (m *Module) collectImports() {
	pysource.WalkBody(m.File.Body, func(n pysource.Node) bool {
		if _, isExpr := n.(pysource.Expr); isExpr {
			return false
		}
		imp, ok := n.(*pysource.Import)
		if !ok {
			return true
		}
		for _, a := range imp.Aliases {
			local := a.As
			switch {
			case imp.From && a.Name != "*":
				if local == "" {
					local = a.Name
				}
				m.Imports[local] = strings.TrimSuffix(imp.Module, ".") + "." + a.Name
				if strings.Trim(imp.Module, ".") == "" {
					m.Imports[local] = imp.Module + a.Name
				}
			case !imp.From && local != "":
				m.Imports[local] = a.Name
			case !imp.From:
				top, _, _ := strings.Cut(a.Name, ".")
				m.Imports[top] = top
			}
		}
		return false
	})
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
		if base := m.Dotted(x.X); base != "" {
			return base + "." + x.Attr
		}
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
		if base := Key(x.X); base != "" {
			return base + "." + x.Attr
		}
	}
	return ""
}

// collectModels notes the names on which eval() or parameters() is called: only modules have both.
func (m *Module) collectModels() {
	m.models = map[string]bool{}
	pysource.WalkBody(m.File.Body, func(n pysource.Node) bool {
		c, ok := n.(*pysource.Call)
		if !ok || len(c.Args) > 0 {
			return true
		}
		if a, ok := c.Func.(*pysource.Attribute); ok && anyOf(a.Attr, "eval", "parameters", "named_parameters") {
			if key := Key(a.X); key != "" && key != "self" && m.Imports[key] == "" && !strings.HasPrefix(key, "super") {
				m.models[key] = true
			}
		}
		return true
	})
}

// guess is what a name promises: by how the file uses it, else by the name itself.
func (m *Module) guess(key string) Value {
	if v := named(key); v.Kind != Unknown || !m.models[key] {
		return v
	}
	return Value{Kind: Model, Guess: true}
}

func (m *Module) paramValue(p pysource.Param) Value {
	if p.Star > 0 {
		return Value{}
	}
	return m.guess(p.Name)
}

// named guesses what a value is from its name alone.
func named(name string) Value {
	n := strings.ToLower(Last(name))
	kind := Unknown
	switch {
	case anyOf(n, "loader", "dataloader") || strings.HasSuffix(n, "_dl") || strings.HasSuffix(n, "loader") || strings.HasPrefix(n, "loader_"):
		kind = Loader
	case anyOf(n, "criterion", "loss_fn", "loss_func", "loss_function", "loss_fct", "lossfn") || strings.HasPrefix(n, "criterion_") ||
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

// collectDefinitions notes every class and function, however deep.
func (m *Module) collectDefinitions(body []pysource.Stmt, class *Class, outer *Function) {
	for _, s := range body {
		m.collectDefinition(s, class, outer)
	}
}

func (m *Module) collectDefinition(s pysource.Stmt, class *Class, outer *Function) {
	switch s := s.(type) {
	case *pysource.Class:
		c := &Class{Name: s.Name, Node: s, Methods: map[string]*Function{}}
		for _, a := range s.Args {
			if a.Name == "" && a.Star == 0 {
				c.Bases = append(c.Bases, m.Dotted(a.Value))
			}
		}
		if other, taken := m.Classes[s.Name]; taken {
			other.Ambiguous = true
		} else {
			m.Classes[s.Name] = c
		}
		m.collectDefinitions(s.Body, c, outer)
	case *pysource.Function:
		fn := &Function{Name: s.Name, Node: s, Class: class, Outer: outer, NoGrad: m.noGradDecorated(s)}
		m.All = append(m.All, fn)
		m.byNode[s] = fn
		if class != nil {
			class.Methods[s.Name] = fn
		} else if outer == nil {
			m.Functions[s.Name] = fn
		} else {
			m.nested[nestedKey{outer, s.Name}] = fn
		}
		m.collectDefinitions(s.Body, nil, fn)
	default:
		pysource.Children(s, func(n pysource.Node) {
			if inner, ok := n.(pysource.Stmt); ok {
				m.collectDefinition(inner, class, outer)
			}
		})
	}
}

func (m *Module) noGradDecorated(f *pysource.Function) bool {
	for _, d := range f.Decorators {
		if c, ok := d.(*pysource.Call); ok {
			d = c.Func
		}
		if noGradName(Last(m.Dotted(d))) {
			return true
		}
	}
	return false
}

func noGradName(last string) bool {
	l := strings.ToLower(last)
	return strings.Contains(l, "no_grad") || strings.Contains(l, "nograd") || strings.Contains(l, "inference_mode") || l == "inferencemode"
}

// classify decides what each class derives from; bases of this file are followed, others go by name.
func (m *Module) classify() {
	for _, c := range m.Classes {
		facts := m.classFacts(c, map[*Class]bool{})
		c.Module, c.Dataset, c.Lightning = facts.Module, facts.Dataset, facts.Lightning
	}
}

func (m *Module) classFacts(c *Class, seen map[*Class]bool) ClassFacts {
	if seen[c] {
		return ClassFacts{}
	}
	seen[c] = true
	var out ClassFacts
	for _, b := range c.Bases {
		f := m.baseFacts(b, seen)
		out.Module, out.Dataset, out.Lightning = out.Module || f.Module, out.Dataset || f.Dataset, out.Lightning || f.Lightning
	}
	return out
}

func (m *Module) baseFacts(base string, seen map[*Class]bool) ClassFacts {
	if c := m.Classes[base]; c != nil {
		return m.classFacts(c, seen)
	}
	if i := strings.LastIndexByte(base, '.'); i > 0 && !strings.HasPrefix(base, "torch.") {
		if e := m.lookup(base[:i]); e != nil {
			if f, ok := e.Classes[base[i+1:]]; ok {
				return f
			}
		}
	}
	last := Last(base)
	lightning := anyOf(last, "LightningModule", "LightningDataModule") || strings.HasSuffix(last, "LightningModule")
	torchModule := strings.HasPrefix(base, "torch.nn.") && !strings.Contains(base, "functional")
	return ClassFacts{
		Module:    lightning || torchModule || last == "Module" || strings.HasSuffix(last, "PreTrainedModel") || strings.HasSuffix(last, "PretrainedModel"),
		Dataset:   anyOf(last, "Dataset", "IterableDataset", "VisionDataset", "ImageFolder", "DatasetFolder") || strings.HasPrefix(base, "torchvision.datasets."),
		Lightning: lightning,
	}
}
