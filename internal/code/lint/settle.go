package lint

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
)

// Trait is something that one file of a project does and that decides what is known of another.
type Trait uint8

// The traits of files.
const (
	SavesModel  Trait = 1 << iota // it saves a model's weights as they are, so that they come back to the GPU they were on
	SavesOnCPU                    // it saves weights that were moved to the CPU, or never left it
	SwitchesOff                   // it switches autograd off for the rest of the run
)

// Project is what the files of a project show together.
type Project struct {
	Quiet  map[string]bool // functions that only run while autograd is off
	Traits Trait           // of any of its files
}

// Survey sums the reports of a project up.
func Survey(reports []*Report) *Project {
	p := &Project{Quiet: quietFunctions(reports)}
	for _, r := range reports {
		if r != nil {
			p.Traits |= r.Traits
		}
	}
	return p
}

// silences tells whether a finding is known not to hold: what its function would record is not recorded.
func (p *Project) silences(f Finding) bool { return p != nil && f.Within != "" && p.Quiet[f.Within] }

// settle is the severity of a finding after what it rests on was looked up. Tensors go back to a GPU only where they were saved from one,
// and nothing is recorded once autograd is off.
func (p *Project) settle(f Finding) Severity {
	if p == nil {
		return f.Severity
	}
	switch {
	case f.Needs&SavesModel != 0 && p.Traits&SavesModel == 0, f.Needs&SavesOnCPU != 0 && p.Traits&SavesOnCPU != 0:
		return Note
	case f.Needs&SwitchesOff != 0 && p.Traits&SwitchesOff != 0:
		return min(f.Severity, Warning)
	}
	return f.Severity
}

// traits looks a file through for what matters elsewhere.
func traits(m *flow.Module) Trait {
	var out Trait
	touches := contains(m.File.Source, "cuda", "device", "gpu", "GPU", "accelerat", "distributed")
	for _, s := range m.Scopes {
		for _, c := range s.Calls {
			switch {
			case c.Method == "set_grad_enabled" && len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value) && !c.Ctx.Within(func(x *flow.Context) bool { return x.With == c.Node }):
				out |= SwitchesOff
			case c.Name == "torch.save" && len(c.Node.Args) > 0 && savesWeights(c):
				out |= savedFrom(s, c, touches)
			}
		}
	}
	return out
}

// savesWeights tells whether what is saved is, or holds, a model's weights.
func savesWeights(c *flow.Call) bool {
	return c.Args[0].Kind == flow.Model || words(c.Node.Args[0].Value, func(w string) bool {
		return containsAny(strings.ToLower(w), "state", "model", "net", "ckpt", "checkpoint", "weight", "param", "snapshot", "save")
	})
}

// savedFrom tells where weights lie when they are saved: on the CPU where the body says so or the file knows no other device, else where
// whoever made them put them.
func savedFrom(s *flow.Scope, c *flow.Call, touches bool) Trait {
	if bodyHas(s.Body, func(w string) bool { return w == "cpu" }) {
		return SavesOnCPU
	}
	given := s.Func != nil && (s.Func.Class != nil || words(c.Node.Args[0].Value, func(w string) bool { return hasParam(s.Func.Node, w) }))
	if touches || given {
		return SavesModel
	}
	return SavesOnCPU
}

// quietFunctions names the functions of a project that only run while autograd is off: every call known stands there, or in such a
// function.
func quietFunctions(reports []*Report) map[string]bool {
	callers := map[string][]flow.Use{}
	wanted := map[string]bool{}
	for _, r := range reports {
		if r == nil {
			continue
		}
		for _, u := range r.Uses {
			callers[u.Target] = append(callers[u.Target], u)
		}
		for _, f := range r.Findings {
			if f.Within != "" {
				wanted[f.Within] = true
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	quiet := map[string]bool{}
	for changed := true; changed; {
		changed = false
		for target := range callers {
			if !quiet[target] && onlyQuiet(callers[target], quiet) {
				quiet[target], changed = true, true
			}
		}
	}
	for id := range wanted {
		if len(callers[id]) == 0 && quiet[byName(id)] {
			quiet[id] = true
		}
	}
	return quiet
}

func onlyQuiet(uses []flow.Use, quiet map[string]bool) bool {
	for _, u := range uses {
		if u.Grad == flow.Recording && !quiet[u.In] && !quiet[byName(u.In)] {
			return false
		}
	}
	return len(uses) > 0
}

// byName is how a method is called on something whose class is not known.
func byName(id string) string {
	name, _, _ := strings.Cut(id, "@")
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return ""
	}
	return name[i:]
}
