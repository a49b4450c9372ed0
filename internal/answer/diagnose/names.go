package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
)

// running lists the user's frames at the failure as the probe saw them, innermost first; nil where it did not look then.
func (c *Case) running() []holders.Place {
	if c.Holders == nil || c.Holders.File.When != holders.AtOOM {
		return nil
	}
	return c.Holders.File.Running
}

// runsEval tells by the functions that run whether the program evaluates, and whether it generates.
func (c *Case) runsEval() (eval, generates bool) {
	for _, p := range c.running() {
		if !callsite.IsUserFile(p.File) {
			continue
		}
		eval = eval || callsite.NamesEval(p.Function)
		generates = generates || namesGeneration(p.Function)
	}
	return eval, generates
}

// runningPlaces are the user's lines at the failure.
func (c *Case) runningPlaces() []report.Place {
	var out []report.Place
	for _, p := range c.running() {
		if callsite.IsUserFile(p.File) && p.Line > 0 {
			out = append(out, report.Place{File: p.File, Line: p.Line, Function: p.Function})
		}
	}
	return out
}

// heldByName: where stacks do not tell, names do: a graph or a container that a variable of the program holds takes a good part of the card. It speaks only
// about memory whose lines were not recorded, since lines and steps say more.
func heldByName(c *Case) (claim, bool) {
	if c.OOM == nil || c.running() == nil {
		return claim{}, false
	}
	var held []timeline.Held
	var sum units.Bytes
	for _, h := range c.ByHolder() {
		role := h.Holder.Role
		if role != holders.Saved && role != holders.Variable || c.withStacks(h.IDs) || len(held) > 0 && held[0].Holder.Role != role {
			continue
		}
		if len(held) == 0 || h.Holder.Name.Name == held[0].Holder.Name.Name {
			held = append(held, h)
			sum += h.Bytes
		}
	}
	if len(held) == 0 || 4*sum < c.InUse {
		return claim{}, false
	}
	return c.named(held, sum)
}

// withStacks tells whether most of some allocations have a stack.
func (c *Case) withStacks(ids []int) bool {
	n := 0
	for _, id := range ids {
		n += one(c.Stack[id] != 0)
	}
	return 2*n >= len(ids)
}

// named words the finding: a graph in evaluation, in generation or over several steps, results that are collected, or, where one step made all of it, nothing.
func (c *Case) named(held []timeline.Held, sum units.Bytes) (claim, bool) {
	var ids []int
	steps := map[int]bool{}
	for _, h := range held {
		ids = append(ids, h.IDs...)
		for _, id := range h.IDs {
			steps[c.BornIn(id)] = true
		}
	}
	eval, generates := c.runsEval()
	graph := held[0].Holder.Role == holders.Saved
	if !eval && !generates && len(steps) < minGrowthSteps {
		return claim{}, false
	}
	name := held[0].Holder.Name.Name
	undo := change{never: ids}
	f := claim{without: undo, Finding: report.Finding{ID: "growth", Severity: report.Error, Confidence: 0.88, Bytes: sum, Where: c.runningPlaces()}}
	if in := held[0].Holder.In; in != nil && in.Line > 0 {
		f.Where = append(f.Where, report.Place{File: in.File, Line: in.Line, Function: in.Function})
	}
	f.Where = slices.CompactFunc(f.Where, func(a, b report.Place) bool { return a == b })
	switch {
	case graph && generates:
		f.ID = "graph-kept-in-generation"
		f.Title = fmt.Sprintf("generation keeps its autograd graph: %s are kept alive by %s", sum, name)
	case graph && eval:
		f.ID = "eval-graph-kept"
		f.Title = fmt.Sprintf("evaluation keeps autograd graphs: %s are kept alive by %s", sum, name)
	case eval:
		f.ID = "eval-outputs-kept"
		f.Title = fmt.Sprintf("evaluation collects %s in %s on the card", sum, name)
	default:
		f.Title = fmt.Sprintf("%s of %d earlier steps are kept by %s", sum, len(steps), name)
	}
	f.Evidence = []string{fmt.Sprintf("%s in %s are held by the variable %s", sum, tensors(len(ids)), name)}
	if graph {
		f.Evidence = append(f.Evidence, "they were saved for a backward pass, and live as long as the variable refers to their graph")
		f.remedy(saving(sum, "torch.inference_mode() where nothing is trained; .item() or .detach() where a number or a result is kept"), undo)
	} else {
		f.remedy(saving(sum, "keep results on the CPU: out.detach().cpu()"), undo)
	}
	return f, true
}

// namesGeneration hears the production of a sequence in a function's name.
func namesGeneration(function string) bool {
	name := strings.ToLower(function)
	return slices.ContainsFunc(generating, func(w string) bool { return strings.Contains(name, w) })
}
