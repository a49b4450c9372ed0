package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/units"
)

// heldModels are models that one container keeps, with their gradients and optimizer state.
type heldModels struct {
	name  holders.Name
	ids   []int
	bytes units.Bytes
	count int // how many, by the parameter name that comes most often
}

// modelsHeld: a list or dict of the program's keeps several models, as of earlier trials or epochs. The walk names each parameter by the path inside its model: a path that comes several
// times under one variable means as many models. It needs no stacks.
func modelsHeld(c *Case) (claim, bool) {
	held := c.heldModels()
	if len(held) == 0 || 5*held[0].bytes < c.InUse {
		return claim{}, false
	}
	m := held[0]
	undo := change{never: m.ids}
	f := claim{without: undo, Finding: report.Finding{
		ID: "model-copies", Severity: c.severity(report.Remark), Confidence: 0.9, Bytes: m.bytes, Where: uniquePlaces(c.runningPlaces(), placesOf(m.name.In)),
		Title: fmt.Sprintf("%s models are kept by %s: %s", units.Count(m.count), m.name.Name, m.bytes),
		Evidence: []string{
			fmt.Sprintf("%s refers to %s models with their parameters, gradients and optimizer state", m.name.Name, units.Count(m.count)),
			"a model stays on the card, with its gradients and all that its optimizer keeps, as long as something refers to it",
		},
	}}
	f.remedy(saving(m.bytes, "keep what you need of an earlier model (scores, or its state_dict on the CPU) and del the model and its optimizer before the next"), undo)
	return f, true
}

// heldModels groups what containers keep of models, largest first.
func (c *Case) heldModels() []heldModels {
	if c.Holders == nil {
		return nil
	}
	index := map[string]int{}
	var out []heldModels
	for _, h := range c.ByHolder() {
		role, name := h.Holder.Role, h.Holder.Name.Name
		if role != holders.Parameter && role != holders.Gradient && role != holders.Optimizer || !strings.Contains(name, "[") {
			continue
		}
		k := root(h.Holder.Name)
		i, seen := index[k]
		if !seen {
			i = len(out)
			index[k] = i
			out = append(out, heldModels{name: h.Holder.Name})
		}
		m := &out[i]
		m.ids = append(m.ids, h.IDs...)
		m.bytes += h.Bytes
		if role == holders.Parameter {
			m.count = max(m.count, c.mostOften(h.IDs))
		}
	}
	out = slices.DeleteFunc(out, func(m heldModels) bool { return m.count < 2 })
	slices.SortStableFunc(out, func(a, b heldModels) int { return cmp.Compare(b.bytes, a.bytes) })
	return out
}

// mostOften is how often the commonest name of a storage comes among some allocations.
func (c *Case) mostOften(ids []int) int {
	count, most := map[string]int{}, 0
	for _, id := range ids {
		name := c.Holders.Names[id]
		count[name]++
		most = max(most, count[name])
	}
	return most
}
