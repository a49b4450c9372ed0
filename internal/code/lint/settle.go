package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Trait is something that one file of a project does and that decides what is known of another.
type Trait uint32

// The traits of files.
const (
	SavesModel     Trait = 1 << iota // it saves a model's weights as they are, so that they come back to the GPU they were on
	SavesMoved                       // it moves a model to the CPU, in a line of its own, before it saves it
	SavesOnCPU                       // it saves weights that were moved to the CPU, or never left it
	SwitchesOff                      // it switches autograd off for the rest of the run
	Trains                           // it runs a backward
	Differentiates                   // a module of it computes gradients itself, so that it cannot run while autograd is off
	Checkpoints                      // it switches activation checkpointing on by a flag of its own
	Ancient                          // it was written for PyTorch before 0.4
	Wraps                            // it wraps tensors in Variable, as every program had to before 0.4
	Since04                          // it has something that came with this release, as each of those below
	Since17
	Since111
	Since112
	Since20
	Since23
	Called          // some file calls the function that the finding is in
	DetachGrads     // it detaches gradients in place, which views of a buffer do not allow
	Freezes         // it freezes parameters, or trains adapters beside frozen ones
	Sums            // a loss in it is a sum unless somebody says otherwise
	SavesMovedToCPU // it moves what it saves to the CPU, tensor by tensor
)

// Project is what the files of a project show together.
type Project struct {
	Traits Trait                                         // of any of its files
	Torch  func(file string) (major, minor int, ok bool) // the newest PyTorch that the project allows at a file; nil: not known
	Oldest func(file string) (major, minor int, ok bool) // the oldest, where the project says so

	calling *calling // nil where no finding depends on who calls it
}

// Survey sums the reports of a project up.
func Survey(reports []*Report) *Project {
	p, wanted := &Project{}, false
	for _, r := range reports {
		if r != nil {
			p.Traits |= r.Traits
			wanted = wanted || slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Within != "" })
		}
	}
	if wanted {
		p.calling = newCalling(reports)
	}
	return p
}

// trains tells whether the project trains what a finding is about: a function that it rests on has to be called by something that does.
func (p *Project) trains(f Finding) bool {
	return p.Traits&Trains != 0 && (f.Within == "" || p.calling == nil || p.calling.trained(f.Within))
}

// muted tells whether something that calls the function of a finding, itself or through others, switches autograd off, or may.
func (p *Project) muted(f Finding) bool {
	return f.Within != "" && p.calling != nil && p.calling.muted(f.Within)
}

// called tells whether anything calls the function of a finding.
func (p *Project) called(f Finding) bool {
	return f.Within != "" && p.calling != nil && p.calling.called(f.Within)
}

// silences tells whether a finding is known not to hold: what its function would record is not recorded.
// Advice that an older PyTorch does not know is left out.
func (p *Project) silences(f Finding) bool {
	if p == nil {
		return false
	}
	if since, ok := advisedSince[f.Rule]; ok && p.ends(f.File, since) {
		return true
	}
	if f.Rule == "LM032" && p.Traits&DetachGrads != 0 {
		return true
	}
	return f.Within != "" && p.calling != nil && !p.calling.recorded(f.Within)
}

// advisedSince is the first PyTorch that has what a rule advises.
var advisedSince = map[string]release{
	"LM003": {0, 4},  // torch.no_grad: https://github.com/pytorch/pytorch/releases/tag/v0.4.0
	"LM024": {0, 4},  // map_location by name: the same release
	"LM025": {2, 3},  // torch.amp.GradScaler: https://github.com/pytorch/pytorch/blob/v2.3.0/torch/amp/grad_scaler.py
	"LM032": {1, 7},  // gradient_as_bucket_view: https://github.com/pytorch/pytorch/blob/v1.7.0/torch/nn/parallel/distributed.py
	"LM036": {1, 11}, // use_reentrant: https://github.com/pytorch/pytorch/blob/v1.11.0/torch/utils/checkpoint.py
}

// merged is the release that brought no_grad, item() and map_location by name: https://github.com/pytorch/pytorch/releases/tag/v0.4.0.
var merged = release{0, 4}

// repairedSince is the first PyTorch on which a repair runs, where the rule is not needed to know it.
func repairedSince(f Finding) (since release, ok bool) {
	switch {
	case f.Rule == "LM001", f.Rule == "LM009": // item()
		return merged, true
	case f.Rule == "LM025" && !strings.Contains(f.Fix, "GradScaler"):
		return release{1, 12}, true // torch.amp.autocast: https://github.com/pytorch/pytorch/blob/v1.12.0/torch/amp/__init__.py
	case f.Rule == "LM036" && strings.Contains(f.Source, "checkpoint_sequential"): // https://github.com/pytorch/pytorch/blob/v2.0.0/torch/utils/checkpoint.py
		return release{2, 0}, true
	}
	since, ok = advisedSince[f.Rule]
	return since, ok && f.Rule != "LM024" && f.Rule != "LM003"
}

// older tells whether the project says that it also runs on a PyTorch before a release.
func (p *Project) older(file string, since release) bool {
	if p.Oldest == nil {
		return false
	}
	major, minor, known := p.Oldest(file)
	return known && release{major, minor}.before(since)
}

// ends tells whether the newest PyTorch that the project allows is older than a release.
func (p *Project) ends(file string, before release) bool {
	if p.Torch == nil {
		return false
	}
	major, minor, known := p.Torch(file)
	return known && release{major, minor}.before(before)
}

// dated is a repair as far as the project's PyTorch is known to take it. One that needs a release from 1.7 on is left out where the project runs on
// older ones, and waits for a person, who is told the release, where nobody knows; one that needs 0.4 is safe unless something speaks of older ones.
func (p *Project) dated(f Finding, ancient bool) *Repair {
	since, ok := repairedSince(f)
	switch {
	case f.Repair == nil || !ok || p.has(f.File, since) || since == merged && !ancient:
		return f.Repair
	case p.older(f.File, since) && since != merged, p.Traits&Ancient != 0 && since != merged, since == release{2, 3}:
		return nil
	}
	r := *f.Repair
	r.Safe = false
	if since != merged {
		r.Title += fmt.Sprintf(" (PyTorch %d.%d or newer)", since[0], since[1])
	}
	return &r
}

// recordsGraph are the rules about graphs that are recorded where none is needed.
var recordsGraph = map[string]bool{"LM001": true, "LM003": true, "LM046": true}

// settle is a finding after what it rests on was looked up. Tensors go back to a GPU only where they were saved from one, nothing is recorded once
// autograd is off, a wrapper around a model matters where something is trained, and a forward that computes gradients itself needs autograd.
func (p *Project) settle(f Finding) Finding {
	if p == nil {
		return f
	}
	ancient := p.ancient(f)
	if ancient {
		f = inItsTime(f)
		if recordsGraph[f.Rule] { // volatile inputs, wherever they are made, record nothing there
			f.Severity = min(f.Severity, Warning)
		}
	}
	f.Repair = p.dated(f, ancient)
	switch {
	case f.Needs&SavesModel != 0 && p.Traits&SavesModel == 0, f.Needs&SavesOnCPU != 0 && p.Traits&SavesOnCPU != 0, f.Needs&SavesMoved != 0 && p.Traits&SavesMoved != 0, f.Needs&Trains != 0 && !p.trains(f), f.Needs&Checkpoints != 0 && p.Traits&Checkpoints == 0, f.Needs&Freezes != 0 && p.Traits&(Freezes|Trains) == Trains, f.Needs&SavesMovedToCPU != 0 && p.Traits&SavesMovedToCPU != 0:
		f.Severity = Note
	case f.Needs&Sums != 0 && p.Traits&Sums != 0:
		f.Severity, f.Repair = Note, nil
	case f.Needs&Since20 != 0 && p.ends(f.File, release{2, 0}): // an older one does not warn
		f.Severity = Note
	case f.Needs&Differentiates != 0 && p.Traits&Differentiates != 0:
		f.Severity, f.Repair = Note, nil
		f.Fix = "first see whether its forward computes gradients itself, as a module of this project does with torch.autograd.grad or enable_grad: then it needs autograd. If it does not, " + f.Fix
	case f.Needs&SwitchesOff != 0 && (p.Traits&SwitchesOff != 0 || p.muted(f)), f.Needs&Called != 0 && !p.called(f):
		f.Severity = min(f.Severity, Warning)
	}
	return f
}

// traits looks a file through for what matters elsewhere.
func traits(m *flow.Module, shared *known) Trait {
	var out Trait
	p := &pass{m: m, known: shared}
	touches := p.sourceHas("cuda", "device", "gpu", "GPU", "accelerat", "distributed")
	for _, s := range m.Scopes {
		list, known := shared.backs[s]
		if !known {
			list = findBackwards(s)
		}
		if len(list) > 0 {
			out |= Trains
		}
		for _, c := range s.Calls {
			switch {
			case c.Method == "set_grad_enabled" && len(c.Node.Args) > 0 && isFalse(c.Node.Args[0].Value) && !c.Ctx.Within(func(x *flow.Context) bool { return x.With == c.Node }):
				out |= SwitchesOff
			case c.Name == "torch.save" && len(c.Node.Args) > 0 && savesWeights(c):
				out |= savedFrom(s, c, touches)
				if bodyHas(s.Body, func(w string) bool { return w == "cpu" }) {
					out |= SavesMovedToCPU
				}
				if movedInPlace(s, c) {
					out |= SavesMoved
				}
			case trainsByName(c.Method):
				out |= Trains
			}
		}
	}
	for _, w := range spokenTraits {
		if p.sourceHas(w.words...) {
			out |= w.trait
		}
	}
	if checkpointsByFlag(m, shared) {
		out |= Checkpoints
	}
	if p.modulesDifferentiate() {
		out |= Differentiates
	}
	return out | age(p.sourceHas)
}

// spokenTraits are traits that the words of a file show.
var spokenTraits = []struct {
	trait Trait
	words []string
}{
	{DetachGrads, []string{".grad.detach_("}},
	{Freezes, []string{"requires_grad_(False", ".requires_grad = False", ".requires_grad=False", "get_peft_model", "LoraConfig"}},
	{Sums, []string{`reduction: str = "sum"`, `reduction: str = 'sum'`, `reduction="sum",`, `reduction='sum',`}},
}

// trainsByName knows the names of what trains out of sight: train, fit, train_one_epoch.
func trainsByName(method string) bool {
	if !containsAny(strings.ToLower(method), "train", "fit", "finetune") {
		return false
	}
	words := tokens(method)
	return len(words) > 0 && oneOf(words[0], "train", "fit", "finetune") && !slices.ContainsFunc(words, func(w string) bool {
		return strings.Contains(w, "load") || strings.Contains(w, "data") || oneOf(w, "transform", "set", "test", "split")
	})
}

// modulesDifferentiate tells whether a method of a module computes gradients, itself or through functions of the project, or switches autograd on.
func (p *pass) modulesDifferentiate() bool {
	if !p.sourceHas("grad", "register_hook", "torch.func") {
		return false
	}
	m := p.m
	for _, fn := range m.All {
		if fn.Class == nil || fn.Scope == nil || !fn.Class.Module && fn.Class.Methods["forward"] == nil || fn.Class.Derives("Function") {
			continue
		}
		if m.Reaches(fn, "grad") || fn.Name == "forward" && m.Reaches(fn, "backward") || slices.ContainsFunc(fn.Scope.Calls, differentiates) || slices.ContainsFunc(fn.Node.Decorators, func(d pysource.Expr) bool {
			return words(d, func(w string) bool { return w == "enable_grad" })
		}) {
			return true
		}
	}
	return false
}

// differentiates recognises what cannot run, or gives something else, while autograd is off.
func differentiates(c *flow.Call) bool {
	return strings.HasPrefix(c.Name, "torch.autograd.grad") || strings.HasPrefix(c.Name, "torch.func.") || strings.HasPrefix(c.Name, "functorch.") ||
		strings.HasPrefix(c.Name, "torch.autograd.functional.") || c.Method == "enable_grad" || c.Method == "register_hook" || isTrue(keyword(c.Node, "create_graph"))
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
	if bodyHas(s.Body, func(w string) bool { return w == "cpu" }) || movedToCPU(s) {
		return SavesOnCPU
	}
	given := s.Func != nil && (s.Func.Class != nil || words(c.Node.Args[0].Value, func(w string) bool { return hasParam(s.Func.Node, w) }))
	if touches || given {
		return SavesModel
	}
	return SavesOnCPU
}

// movedInPlace tells whether a body moves a module to the CPU, by a line of its own, before it saves.
func movedInPlace(s *flow.Scope, save *flow.Call) bool {
	found := false
	pysource.WalkBody(s.Body, func(n pysource.Node) bool {
		st, ok := n.(*pysource.ExprStmt)
		if !ok {
			return !found
		}
		c, ok := st.X.(*pysource.Call)
		if !ok || c.Start > save.Node.Start {
			return !found
		}
		a, ok := c.Func.(*pysource.Attribute)
		if ok && (a.Attr == "cpu" && len(c.Args) == 0 || a.Attr == "to" && len(c.Args) == 1 && texts(c.Args[0].Value, "cpu")) {
			found = s.Func != nil || mentions(save.Node, flow.Key(a.X)) // a tensor is not moved in place: it is a module
		}
		return !found
	})
	return found
}

// movedToCPU tells whether a body moves something to the CPU, or makes it there.
func movedToCPU(s *flow.Scope) bool {
	cpu := func(x pysource.Expr) bool {
		text, ok := x.(*pysource.String)
		return ok && text.Value == "cpu"
	}
	return slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		return c.Method == "to" && len(c.Node.Args) > 0 && cpu(c.Node.Args[0].Value) || cpu(keyword(c.Node, "device"))
	})
}
