package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// model is a set of parameters that one line outside any constructor made in one go: no training came between them.
type model struct {
	at     report.Place
	named  bool          // a line of the user's is known
	ids    []int         // in order of birth
	sizes  []units.Bytes // in order of size
	bytes  units.Bytes
	copied bool // by deepcopy
	epoch  int  // how many stretches of training came before it
}

// models groups what is alive and was made like parameters: by the line that made it (not the layer's line in a constructor but the call of the
// constructor), and by time. Clones in the user's own lines count where their sizes are those of parameters.
func (c *Case) models() []model {
	sizes := map[units.Bytes]bool{}
	for id := range c.Died {
		if c.Category[id] == tape.Parameters && c.Alive(id, c.Instant) {
			sizes[c.Size(id)] = true
		}
	}
	trained := c.trainingEvents()
	type key struct {
		at    report.Place
		epoch int
	}
	index := map[key]int{}
	var all []model
	for id := range c.Died {
		if !c.Alive(id, c.Instant) || !c.likeParameter(id, sizes) || c.fromSerialization(c.Stack[id]) {
			continue
		}
		at, named := c.maker(c.Stack[id])
		if c.Origins.Of(c.Stack[id]).Copy {
			at, named = c.place(c.Stack[id]) // the line that copies, also in a constructor
		}
		k := key{at: at}
		if id >= len(c.Tape.Initial) {
			k.epoch, _ = slices.BinarySearch(trained, int(c.Born[id]))
		}
		i, seen := index[k]
		if !seen {
			i = len(all)
			index[k] = i
			all = append(all, model{at: at, named: named, epoch: k.epoch})
		}
		m := &all[i]
		m.ids = append(m.ids, id)
		m.sizes = append(m.sizes, c.Size(id))
		m.bytes += c.Size(id)
		m.copied = m.copied || c.Origins.Of(c.Stack[id]).Copy
	}
	return apart(all)
}

// apart splits what one line made one after the other, as in a loop that builds a list of models: the sizes of a model that another line made come again and again, in its order. Layers
// come again as well, but no other line makes them alone.
func apart(all []model) []model {
	var out []model
	for i := range all {
		n := 1
		for j := range all {
			if each := len(all[j].sizes); j != i && each >= leastOfSet && len(all[i].sizes)%each == 0 && repeats(all[i].sizes, all[j].sizes) {
				n = max(n, len(all[i].sizes)/each)
			}
		}
		out = append(out, all[i].split(n)...)
	}
	for i := range out {
		slices.Sort(out[i].sizes)
	}
	return out
}

// leastOfSet is how many tensors a set must have to be looked for in others.
const leastOfSet = 4

// repeats tells whether a list is another one again and again.
func repeats(sizes, set []units.Bytes) bool {
	for i := range sizes {
		if sizes[i] != set[i%len(set)] {
			return false
		}
	}
	return true
}

// split cuts a model into equal parts.
func (m *model) split(n int) []model {
	out := make([]model, n)
	each := len(m.ids) / n
	for i := range out {
		out[i] = *m
		out[i].ids, out[i].sizes = m.ids[i*each:(i+1)*each], slices.Clone(m.sizes[i*each:(i+1)*each])
		out[i].bytes = m.bytes / units.Bytes(n)
	}
	return out
}

// likeParameter tells what may belong to a model: what loading made, and copies in lines of the user's own with a parameter's size.
func (c *Case) likeParameter(id int, sizes map[units.Bytes]bool) bool {
	if c.Category[id] == tape.Parameters {
		return true
	}
	switch c.Phase[id] {
	case callsite.User, callsite.Save, callsite.Load, callsite.Unknown:
		return c.Stack[id] != 0 && sizes[c.Size(id)] && c.Category[id] != tape.Gradients && c.Category[id] != tape.Optimizer
	}
	return false
}

// trainingEvents are the events at which a stretch of forward, backward or optimizer begins: models made before and after one are two.
func (c *Case) trainingEvents() []int {
	var out []int
	in := false
	for i := range c.Tape.Events {
		e := &c.Tape.Events[i]
		if e.Kind != tape.Alloc {
			continue
		}
		p := c.Phase[e.ID]
		now := p == callsite.Forward || p == callsite.Backward || p == callsite.Optimizer
		if now && !in {
			out = append(out, i)
		}
		in = now
	}
	return out
}

// same tells two sets of the same model: equal sizes, but for a few buffers.
func (m *model) same(o *model) bool {
	if slices.Equal(m.sizes, o.sizes) {
		return true
	}
	small, large := min(m.bytes, o.bytes), max(m.bytes, o.bytes)
	few, many := min(len(m.sizes), len(o.sizes)), max(len(m.sizes), len(o.sizes))
	return 50*(large-small) <= large && 10*(many-few) <= many && m.sizes[len(m.sizes)-1] == o.sizes[len(o.sizes)-1]
}

// modelCopies: a second set of parameters with the same sizes, from another line or from the same line at another time.
func modelCopies(c *Case) (claim, bool) {
	if f, ok := modelsHeld(c); ok {
		return f, true
	}
	models := c.models()
	if len(models) < 2 {
		return claim{}, false
	}
	base, twins := c.twins(models)
	if len(twins) == 0 {
		return claim{}, false
	}
	var ids []int
	var sum units.Bytes
	where := []report.Place{}
	copied := false
	for _, m := range twins {
		ids = append(ids, m.ids...)
		sum += m.bytes
		copied = copied || m.copied
		if m.named && !slices.Contains(where, m.at) {
			where = append(where, m.at)
		}
	}
	again := twins[0].named && twins[0].at == base.at
	if again {
		with, more := c.trainedWith(twins, base)
		ids, sum = append(ids, with...), sum+more
	}
	if base.named && !slices.Contains(where, base.at) {
		where = append(where, base.at)
	}
	if 20*sum < c.InUse {
		return claim{}, false
	}
	if !copied && len(twins) >= minGrowthSteps && !c.onceInManySteps(twins) && c.alreadyTold(ids, growth) {
		return claim{}, false // made in every step: gradients or penalties have the sizes of the weights too
	}
	undo := change{never: ids}
	if f, ok := c.savingCopies(ids, sum, base, where, copied); ok {
		return f, true
	}
	f := claim{without: undo, Finding: report.Finding{
		ID: "model-copies", Severity: c.severity(report.Remark), Confidence: 0.75, Bytes: sum, Where: where,
		Title:    fmt.Sprintf("%s of the same model on the card, %s beside the one in use", setsOf(len(twins)+1), sum),
		Evidence: []string{fmt.Sprintf("%s tensors with the same sizes were made again (an EMA, teacher or reference model, a deepcopy, a model of an earlier trial)", units.Count(len(twins[0].sizes)))},
	}}
	switch {
	case again:
		f.Evidence = append(f.Evidence, "the same line built a model again while the one it built before, with its gradients and optimizer state, was still referenced")
		f.remedy(saving(sum, "keep what you need of an earlier model (scores, or its state_dict on the CPU) and del the model and its optimizer before the next"), undo)
	default:
		f.remedy(saving(sum, "keep the copy on the CPU: {k: v.cpu() for k, v in model.state_dict().items()}"), undo)
		if len(twins) == 1 { // more than one keep coming
			f.remedy(report.Remedy{Action: "keep it in 16 bits and without gradients", Saves: sum / 2, CheckedBy: report.ByArithmetic, Numerics: true}, change{saves: sum / 2})
		}
	}
	if copied {
		f.Confidence = 0.9
		f.Title = fmt.Sprintf("%s of the model on the card: %s", copiesOf(len(twins)), sum)
	}
	if len(twins) > 1 {
		f.Confidence = 0.95
	}
	if !copied && everyStep(twins) {
		f.ID, f.Confidence = "growth", 0.8
		f.Title = fmt.Sprintf("tensors of the model's sizes are kept in every step: %s in %s sets", sum, units.Count(len(twins)))
		f.Evidence = []string{fmt.Sprintf("%s sets of tensors with the sizes of the weights were made one step after the other and are all alive: gradients, penalties or copies that something keeps", units.Count(len(twins)))}
	}
	return f, true
}

// everyStep tells sets that were made in nearly every step: not copies of a model that was better than the last, which come once in many steps.
func everyStep(sets []model) bool {
	epochs := make([]int, len(sets))
	for i := range sets {
		epochs[i] = sets[i].epoch
	}
	slices.Sort(epochs)
	const many, apart = 8, 3
	return len(sets) >= many && epochs[len(epochs)-1]-epochs[0] <= apart*len(sets)
}

// onceInManySteps tells sets that training of several steps lies between: copies at the end of epochs, not what every step leaves.
func (c *Case) onceInManySteps(sets []model) bool {
	if len(c.Steps) == 0 {
		return false
	}
	born := map[int]bool{}
	first, last := len(c.Steps), 0
	for i := range sets {
		if id := sets[i].ids[0]; id >= len(c.Tape.Initial) {
			step := c.BornIn(id)
			born[step] = true
			first, last = min(first, step), max(last, step)
		}
	}
	return len(born) >= minGrowthSteps && last-first >= 2*(len(born)-1)
}

// savingCopies: in the midst of training the user's own lines copy the weights and as much again of the optimizer's state, in one go, and fail in doing so: a checkpoint in
// the making, whatever the function is called.
func (c *Case) savingCopies(ids []int, sum units.Bytes, base model, where []report.Place, copied bool) (claim, bool) {
	if c.OOM == nil || copied || len(c.Steps) == 0 || c.OOM.Phase != callsite.User && c.OOM.Phase != callsite.Save {
		return claim{}, false
	}
	at, ok := c.place(c.OOM.Stack)
	last := c.Steps[len(c.Steps)-1]
	for _, id := range ids {
		if id < len(c.Tape.Initial) || int(c.Born[id]) <= min(last, c.stepBegin()) {
			return claim{}, false
		}
	}
	state := c.By[tape.Optimizer]
	if !ok || !slices.Contains(where, at) || state == 0 || 10*(sum+c.OOM.Request) < 11*base.bytes {
		return claim{}, false
	}
	undo := change{never: ids, request: true}
	return claim{without: undo, tries: []change{undo}, Finding: report.Finding{
		ID: "checkpoint-save", Severity: report.Error, Confidence: 0.85, Bytes: sum + c.OOM.Request, Where: append([]report.Place{at}, where...),
		Title: "there is no room for copies of the weights and optimizer state, such as a checkpoint makes",
		Evidence: []string{
			fmt.Sprintf("after a step, your code copied %s on the card and requested %s more; the model has %s of weights and %s of optimizer state", sum, c.OOM.Request, base.bytes, state),
			"torch.save itself needs no memory on the card: it is the copies that do. The training batch does not matter",
		},
		Remedies: []report.Remedy{saving(sum+c.OOM.Request, "copy to the CPU, not on the card: {k: v.cpu() for k, v in model.state_dict().items()}")},
	}}, true
}

func setsOf(n int) string { return units.Count(n) + " sets" }
func copiesOf(n int) string {
	return map[bool]string{true: "a deep copy", false: units.Count(n) + " deep copies"}[n == 1]
}

// twins finds the model in use and the other sets with its sizes. In use is the one that was not copied, and of several the last.
func (c *Case) twins(models []model) (base model, twins []model) {
	slices.SortStableFunc(models, func(a, b model) int { return cmp.Compare(b.bytes, a.bytes) })
	for i := range models {
		group := []model{models[i]}
		for j := range models {
			if j != i && models[i].same(&models[j]) {
				group = append(group, models[j])
			}
		}
		if len(group) < 2 {
			continue
		}
		slices.SortStableFunc(group, func(a, b model) int {
			if a.copied != b.copied {
				return map[bool]int{true: -1, false: 1}[a.copied]
			}
			if a.at == b.at {
				return cmp.Compare(a.ids[0], b.ids[0])
			}
			return cmp.Compare(b.ids[0], a.ids[0]) // the first one made is the model, others are copies of it
		})
		return group[len(group)-1], group[:len(group)-1]
	}
	return model{}, nil
}

// trainedWith lists gradients and optimizer state of models that were replaced: what training made before the model in use was there.
func (c *Case) trainedWith(old []model, base model) (ids []int, sum units.Bytes) {
	from, until := c.Born[old[0].ids[0]], c.Born[base.ids[0]]
	return c.aliveWhere(func(id int) bool {
		state := c.Category[id] == tape.Gradients || c.Category[id] == tape.Optimizer
		return state && id >= len(c.Tape.Initial) && c.Born[id] > from && c.Born[id] < until
	})
}
