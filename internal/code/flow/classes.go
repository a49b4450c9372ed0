package flow

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

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

// classify decides what each class derives from; bases of the project are followed, others go by name.
func (m *Module) classify() {
	for _, c := range m.Classes {
		facts := m.derived(c, map[*Class]bool{})
		c.Module, c.Dataset, c.Lightning, c.Foreign = facts.Module, facts.Dataset, facts.Lightning, facts.Foreign
		c.Bare = c.Module && !m.parameterised(c)
		c.Frozen = c.Module && m.freezes(c)
		c.Passive = c.Bare || c.Module && m.passive(c)
		c.Plain = m.plain(c)
	}
}

func (c *Class) facts() ClassFacts {
	return ClassFacts{Module: c.Module, Dataset: c.Dataset, Lightning: c.Lightning, Bare: c.Bare, Frozen: c.Frozen, Passive: c.Passive, Foreign: c.Foreign}
}

func (m *Module) derived(c *Class, seen map[*Class]bool) ClassFacts {
	if seen[c] {
		return ClassFacts{}
	}
	seen[c] = true
	var out ClassFacts
	for _, b := range c.Bases {
		f := m.baseFacts(b, seen)
		out.Module, out.Dataset, out.Lightning = out.Module || f.Module, out.Dataset || f.Dataset, out.Lightning || f.Lightning
		out.Foreign = append(out.Foreign, f.Foreign...)
	}
	return out
}

func (m *Module) baseFacts(base string, seen map[*Class]bool) ClassFacts {
	if c := m.Classes[base]; c != nil {
		return m.derived(c, seen)
	}
	if facts := m.remoteClass(base); facts != nil {
		return *facts
	}
	last := Last(base)
	lightning := anyOf(last, "LightningModule", "LightningDataModule") || strings.HasSuffix(last, "LightningModule")
	torchModule := strings.HasPrefix(base, "torch.nn.") && !strings.Contains(base, "functional")
	return ClassFacts{
		Module:    lightning || torchModule || anyOf(last, "Module", "BaseModule") || strings.HasSuffix(last, "PreTrainedModel") || strings.HasSuffix(last, "PretrainedModel"),
		Dataset:   anyOf(last, "Dataset", "IterableDataset", "VisionDataset", "ImageFolder", "DatasetFolder") || strings.HasPrefix(base, "torchvision.datasets."),
		Lightning: lightning,
		Foreign:   []string{base},
	}
}

// parameterised tells whether a module may have parameters: it derives from something other than nn.Module, or its __init__ makes
// a layer, a parameter or something we do not know.
func (m *Module) parameterised(c *Class) bool {
	for _, b := range c.Bases {
		if b != "torch.nn.Module" && b != "torch.nn.modules.loss._Loss" {
			return true
		}
	}
	init, run := c.Methods["__init__"], c.Methods["forward"]
	if run == nil {
		run = c.Methods["__call__"]
	}
	if init == nil || run == nil {
		return run == nil
	}
	found := false
	pysource.WalkBody(init.Node.Body, func(n pysource.Node) bool {
		a, ok := n.(*pysource.Assign)
		if !ok || found || !strings.HasPrefix(Key(a.Targets[0]), "self.") {
			return !found
		}
		found = !m.plainAttribute(init.Node, a.Value)
		return !found
	})
	return found
}

// plainAttribute tells whether an attribute certainly holds no parameters: a number, a string, a parameter passed through, a
// loss or activation of torch.nn, a tensor of a factory.
func (m *Module) plainAttribute(init *pysource.Function, x pysource.Expr) bool {
	switch x := x.(type) {
	case *pysource.Call:
		name := m.Dotted(x.Func)
		last := Last(name)
		if strings.HasPrefix(name, "torch.nn.") && capital(last) {
			return !parametric(last) && last != "Parameter" && last != "Module"
		}
		return strings.HasPrefix(name, "torch.") && factories[last] || anyOf(name, "float", "int", "list", "dict", "len", "max", "min") || strings.HasPrefix(name, "numpy.")
	case *pysource.Name:
		return plainParam(init, x.ID)
	case *pysource.Attribute:
		return firstName(x) != "self" && named(x.Attr).Kind == Unknown
	case *pysource.Lambda, *pysource.Comprehension:
		return false
	}
	return true
}

// plainParam tells whether a name is a parameter whose default or annotation says that it is a number, a text or a flag.
func plainParam(init *pysource.Function, name string) bool {
	for _, p := range init.Params {
		if p.Name != name {
			continue
		}
		if t, ok := p.Annotation.(*pysource.Name); ok {
			return anyOf(t.ID, "int", "float", "str", "bool")
		}
		switch d := p.Default.(type) {
		case *pysource.Number, *pysource.String, *pysource.Unary:
			return true
		case *pysource.Constant:
			return d.Text != "None"
		}
	}
	return false
}

// classAttrs is what self's attributes hold: what __init__ gives them, and what other methods do where it says nothing.
func (m *Module) classAttrs(c *Class) map[string]Value {
	if c.attrs != nil {
		return c.attrs
	}
	c.attrs = map[string]Value{}
	if init := c.Methods["__init__"]; init != nil {
		if m.analyze(init); init.Scope != nil {
			takeAttrs(c, init)
		}
	}
	for _, s := range c.Node.Body { // dataclass fields and class attributes
		a, ok := s.(*pysource.Assign)
		if !ok || a.Op != "" {
			continue
		}
		if name, ok := a.Targets[0].(*pysource.Name); ok && c.attrs[name.ID].Kind == Unknown {
			if v := m.annotated(a.Annotation); v.Kind != Unknown || v.Class != "" {
				c.attrs[name.ID] = v
			} else if made, ok := a.Value.(*pysource.Call); ok {
				c.attrs[name.ID] = m.typed(m.Dotted(made.Func))
			}
		}
	}
	return c.attrs
}

func takeAttrs(c *Class, fn *Function) {
	for _, at := range fn.Scope.env.entries {
		key, v := at.name, at.value
		rest, ok := strings.CutPrefix(key, "self.")
		if old, known := c.attrs[rest]; ok && !strings.Contains(rest, ".") && (!known || old.Kind == Unknown && old.Class == "") {
			v.Roots, v.From = nil, 0
			c.attrs[rest] = v
		}
	}
}

// attrOf is what an attribute of self holds in the class's methods.
func (m *Module) attrOf(c *Class, attr string, depth int) Value {
	if v := m.classAttrs(c)[attr]; v.Kind != Unknown || v.Class != "" {
		return v
	}
	for _, fn := range c.assigning(attr) {
		if m.analyze(fn); fn.state == done {
			takeAttrs(c, fn)
		}
	}
	if v := c.attrs[attr]; v.Kind != Unknown || v.Class != "" || depth > maxBases {
		return v
	}
	for _, base := range c.Bases {
		if parent := m.Classes[base]; parent != nil && parent != c {
			if v := m.attrOf(parent, attr, depth+1); v.Kind != Unknown || v.Class != "" {
				return v
			}
		}
		if facts := m.remoteClass(base); facts != nil {
			if v := m.findAttr(facts, attr, 0); v.Kind != Unknown || v.Class != "" {
				return v
			}
		}
	}
	return Value{}
}

// assigning lists the methods besides __init__ that give self.attr a value.
func (c *Class) assigning(attr string) []*Function {
	if c.setters == nil {
		c.setters = map[string][]*Function{}
		for _, s := range c.Node.Body {
			f, ok := s.(*pysource.Function)
			if !ok || f.Name == "__init__" {
				continue
			}
			fn := c.Methods[f.Name]
			if fn == nil || fn.Node != f {
				continue
			}
			pysource.WalkBody(f.Body, func(n pysource.Node) bool {
				if a, ok := n.(*pysource.Assign); ok {
					for _, t := range a.Targets {
						if rest, ok := strings.CutPrefix(Key(t), "self."); ok {
							c.setters[rest] = append(c.setters[rest], fn)
						}
					}
				}
				_, expr := n.(pysource.Expr)
				return !expr
			})
		}
	}
	return c.setters[attr]
}
