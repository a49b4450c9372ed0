// Package graphrun runs an exported graph operator by operator against package eager.
//
// It takes a graph of package exported whose symbolic sizes are bound, and what of a job it needs and returns an eager.Model whose forward
// allocates what PyTorch allocates for those operators. Refused: operators with arguments that do not fit. Operators that are not known
// are counted and named.
package graphrun

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Spec is what of a job an exported graph needs.
type Spec struct {
	DType        tensor.DType // of the parameters
	Loss         string       // "cross-entropy" for a graph that ends in logits; "" where the graph computes its loss
	LossOutput   string       // name of the output the loss is computed from; "" is the first
	ChannelsLast bool
	Checkpoint   []string // paths of modules whose calls are checkpointed
}

// Graph is an exported program that runs operator by operator.
type Graph struct {
	*exported.Bound
	spec    Spec
	root    *eager.Module
	modules map[string]*eager.Module
	plan    *plan
	fixed   []*eager.Tensor        // parameters and buffers by value
	linears map[string]linear      // modules that may get adapters, by path
	convs   map[string]conv        // likewise convolutions
	tables  map[string]table       // likewise tables of embeddings
	stacked map[int]*eager.Stacked // parameters that may get adapters as a whole, by value
	unknown map[string]int
	state   map[int]*eager.Tensor // what modules remember of the last forward, by value
}

// New makes a model of a graph whose symbolic sizes are bound.
func New(p *eager.Process, b *exported.Bound, s Spec) (*Graph, error) {
	if lossOutput(b, "") < 0 {
		return nil, fmt.Errorf("the graph returns no tensor")
	}
	if s.Loss == "" && !isScalar(b, b.Outputs[0]) {
		return nil, fmt.Errorf("the graph ends in %q, which is not a loss; give loss cross-entropy, or export a model that returns its loss", b.Outputs[0].Name)
	}
	if s.Loss != "" && s.LossOutput == "" && isScalar(b, b.Outputs[0]) {
		return nil, fmt.Errorf("loss %s: the graph returns its loss already; leave loss out", s.Loss)
	}
	if s.LossOutput != "" && lossOutput(b, s.LossOutput) < 0 {
		return nil, fmt.Errorf("loss_output %q: the graph returns %s", s.LossOutput, outputNames(b))
	}
	g := &Graph{Bound: b, spec: s, root: eager.NewModel(p, s.DType), modules: map[string]*eager.Module{}, fixed: make([]*eager.Tensor, len(b.Values)), unknown: map[string]int{}, state: map[int]*eager.Tensor{}}
	g.modules[""] = g.root
	g.plan = newPlan(b)
	g.register()
	if b.Trace != nil {
		g.findAdaptable()
		g.root.CreateOnDevice()
		if b.Trace.Embeddings != nil {
			g.root.NameInputs()
		}
	}
	return g, nil
}

func isScalar(b *exported.Bound, o exported.Output) bool {
	return o.Value >= 0 && len(b.Values[o.Value].Sizes) == 0
}

func outputNames(b *exported.Bound) string {
	var names []string
	for _, o := range b.Outputs {
		names = append(names, fmt.Sprintf("%q", o.Name))
	}
	return strings.Join(names, ", ")
}

// lossOutput is the value of a named output, the first one for "".
func lossOutput(b *exported.Bound, name string) int {
	for _, o := range b.Outputs {
		if o.Value >= 0 && (name == "" || o.Name == name) {
			return o.Value
		}
	}
	return -1
}

// Unknown lists the operators that were treated conservatively because nobody has written them down, sorted.
func (g *Graph) Unknown() []string {
	var names []string
	for name := range g.unknown {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Root is the module tree.
func (g *Graph) Root() *eager.Module { return g.root }

// module finds or makes the module of a dotted path.
func (g *Graph) module(path string) *eager.Module {
	if m, ok := g.modules[path]; ok {
		return m
	}
	parent, name := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	m := g.module(parent).Child(name)
	g.modules[path] = m
	return m
}

// register gives every parameter and buffer its place in the module tree.
func (g *Graph) register() {
	alias := g.tied()
	byName := map[string]int{}
	for _, at := range g.Inputs {
		if v := &g.Values[at]; v.Role != exported.UserInput && alias[at] == 0 {
			byName[v.FQN] = at
			g.module(parent(v.FQN)) // modules stand in the order of named_parameters
		}
	}
	drops := g.create(byName)
	for _, at := range g.Inputs {
		if g.Values[at].Role != exported.UserInput && alias[at] == 0 {
			g.place(at)
		}
	}
	for at, to := range alias {
		g.fixed[at] = g.fixed[to-1]
	}
	for _, drop := range drops {
		drop()
	}
	if g.Trace != nil && len(g.Trace.Frozen) > 0 {
		g.root.Freeze(g.Trace.Frozen)
	}
}

// create makes what a traced model's constructor makes, in its order. What gives its place to another goes when all is made.
func (g *Graph) create(byName map[string]int) (drops []func()) {
	if g.Trace == nil {
		return nil
	}
	for _, made := range g.Trace.Created {
		at, ok := byName[made.Name]
		if bytes := made.Elements * made.Width; !ok && made.Name == "" && bytes > 0 && bytes < maxBytes {
			drops = append(drops, g.root.Passing(int(bytes)))
		} else if ok {
			g.place(at)
		}
	}
	return drops
}

// maxBytes bounds what a file may claim of one tensor.
const maxBytes = 1 << 46

// place makes a parameter or buffer, once.
func (g *Graph) place(at int) {
	if g.fixed[at] != nil {
		return
	}
	v := &g.Values[at]
	m, name, sizes := g.module(parent(v.FQN)), v.FQN[strings.LastIndexByte(v.FQN, '.')+1:], g.Dims(v.Sizes)
	if v.Role == exported.Parameter {
		g.fixed[at] = m.ParamOf(name, g.parameterType(v), sizes...)
	} else {
		g.fixed[at] = m.Buffer(name, g.bufferType(v), sizes...)
	}
}

// parent is the path of the module that holds a parameter.
func parent(name string) string { return name[:max(strings.LastIndexByte(name, '.'), 0)] }

// parameterType is the job's type, or for a traced model the parameter's own: some keep fp32 in any precision.
func (g *Graph) parameterType(v *exported.Value) tensor.DType {
	if g.Trace != nil {
		return graphType(v.DType)
	}
	return g.spec.DType
}

// bufferType: module.to(dtype) converts floating buffers with the parameters.
func (g *Graph) bufferType(v *exported.Value) tensor.DType {
	d := graphType(v.DType)
	if d.Floating() && g.Trace == nil {
		return g.spec.DType
	}
	return d
}

// tied finds parameters that are listed twice: torch.export names both, but operators use one. The other, unused and
// of equal shape, is an alias of one that is used twice, or of one in an enclosing or enclosed module (a decoder's bias).
// The result maps an alias to one more than the value it stands for.
func (g *Graph) tied() map[int]int {
	uses := make([]int, len(g.Values))
	for i := range g.Nodes {
		for _, a := range g.Nodes[i].Args {
			for _, at := range a.Values {
				if at >= 0 {
					uses[at]++
				}
			}
		}
	}
	alias := map[int]int{}
	if g.Trace != nil {
		return alias // a trace names a shared parameter once
	}
	for _, at := range g.Inputs {
		v := &g.Values[at]
		if v.Role != exported.Parameter || uses[at] > 0 {
			continue
		}
		for _, other := range g.Inputs {
			o := &g.Values[other]
			if o.Role == exported.Parameter && uses[other] > 0 && slices.Equal(g.Dims(o.Sizes), g.Dims(v.Sizes)) && (uses[other] > 1 || contains(o.FQN, v.FQN) || contains(v.FQN, o.FQN)) {
				alias[at] = other + 1
				break
			}
		}
	}
	return alias
}

// contains tells whether two parameters have the same name and the first one's module encloses the second's.
func contains(outer, inner string) bool {
	i, j := strings.LastIndexByte(outer, '.'), strings.LastIndexByte(inner, '.')
	return i > 0 && j > 0 && outer[i:] == inner[j:] && strings.HasPrefix(inner, outer[:i+1])
}

// Batch allocates the user's inputs, and labels where the script computes the loss.
func (g *Graph) Batch() []*eager.Tensor {
	p := g.root.Process()
	var batch []*eager.Tensor
	for _, at := range g.Inputs {
		v := &g.Values[at]
		if v.Role != exported.UserInput {
			continue
		}
		d := g.bufferType(v)
		sizes := g.Dims(v.Sizes)
		t := p.Input(v.Name, d, sizes...)
		if g.spec.ChannelsLast && len(sizes) == 4 {
			t.Layout = tensor.ChannelsLast(sizes...)
		}
		batch = append(batch, t)
	}
	if g.spec.Loss != "" {
		batch = append(batch, p.Input("labels", tensor.Int64, g.labelSizes()...))
	}
	return batch
}

// labelSizes is the shape of class indices for logits [batch, classes, …].
func (g *Graph) labelSizes() []int {
	logits := g.Dims(g.Values[lossOutput(g.Bound, g.spec.LossOutput)].Sizes)
	if len(logits) < 2 {
		return logits
	}
	return append([]int{logits[0]}, logits[2:]...)
}

// Forward runs the operators and, where the script computes it, the loss.
func (g *Graph) Forward(batch []*eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	p := g.root.Process()
	c := p.Function()
	run := &graphRun{Graph: g, p: p, vals: make([]*eager.Tensor, len(g.Values))}
	copy(run.vals, g.fixed)
	i := 0
	for _, at := range g.Inputs {
		if g.Values[at].Role == exported.UserInput {
			run.vals[at] = batch[i]
			i++
		}
	}
	run.all()
	var outs []*eager.Tensor
	for _, o := range g.plan.outputs {
		if o.Value < 0 || run.vals[o.Value] == nil {
			continue
		}
		outs = append(outs, c.Let(run.vals[o.Value]))
	}
	run.finish()
	if len(outs) == 0 {
		panic(eager.Fault("no operator computes what the graph returns"))
	}
	if g.spec.Loss == "" {
		ret := c.ReturnAll(outs...)
		return ret[0], ret[1:]
	}
	logits := run.vals[lossOutput(g.Bound, g.spec.LossOutput)]
	loss := c.Let(eager.CrossEntropy(logits, batch[len(batch)-1]))
	ret := c.ReturnAll(append([]*eager.Tensor{loss}, outs...)...)
	return ret[0], ret[1:]
}

// graphRun is one execution of the operators.
type graphRun struct {
	*Graph
	p     *eager.Process
	vals  []*eager.Tensor
	calls []*eager.Call
	keys  []int                 // ids of the open calls
	made  map[int]bool          // inside a checkpointed call: the values it makes itself
	sums  map[int]*eager.Tensor // parameters plus their adapters, for the call that reads them, by value
}

// all runs every operator of the plan in order.
func (r *graphRun) all() {
	for i := 0; i < len(r.plan.nodes); i++ {
		if level, to, ok := r.region(i); ok {
			r.checkpointed(i, to, level)
			i = to
			continue
		}
		r.nodes(i, i)
	}
	r.leave(0)
}

// nodes runs a stretch of operators. Inside a checkpointed call, what came from outside is not its own to let go.
func (r *graphRun) nodes(from, to int) {
	for i := from; i <= to; i++ {
		pn := &r.plan.nodes[i]
		r.open(pn.calls)
		for _, v := range pn.forgets {
			r.remember(v, nil)
		}
		r.step(pn)
		for _, v := range pn.dies {
			if t := r.vals[v]; t != nil && (r.made == nil || r.made[v]) {
				t.Release()
				r.vals[v] = nil
			}
		}
	}
}

// finish lets the values go that live to the end: the outputs, which the caller holds by now.
func (r *graphRun) finish() {
	for _, v := range r.plan.atEnd {
		if t := r.vals[v]; t != nil {
			t.Release()
		}
	}
}

// open opens and closes module calls until exactly those are open, so that memory has its owner.
func (r *graphRun) open(calls []int) {
	same := 0
	for same < len(r.keys) && same < len(calls) && r.keys[same] == calls[same] {
		same++
	}
	r.leave(same)
	for i := same; i < len(calls); i++ {
		r.keys = append(r.keys, calls[i])
		r.calls = append(r.calls, r.module(r.plan.paths[calls[i]]).Enter())
	}
}

func (r *graphRun) leave(depth int) {
	for len(r.calls) > depth {
		last := len(r.calls) - 1
		r.calls[last].ReturnAll()
		r.forgetSums(r.plan.paths[r.keys[last]])
		r.calls, r.keys = r.calls[:last], r.keys[:last]
	}
}

// step runs one operator and keeps its results as long as the plan says.
func (r *graphRun) step(pn *planNode) {
	defer refuseMisfit(pn)
	r.addAdapters(pn)
	op := &graphOp{graphRun: r, node: pn}
	var outs []*eager.Tensor
	run := func() { outs = op.run() }
	if pn.NoAutocast {
		inner := run
		run = func() { r.p.WithoutAutocast(inner) }
	}
	if pn.NoGrad {
		r.p.NoGrad(run)
	} else {
		run()
	}
	if pn.input && len(outs) > 0 && outs[0] != nil {
		outs[0].AsInput()
	}
	for i, t := range outs {
		if t == nil || i >= len(pn.Outputs) || pn.Outputs[i] < 0 {
			continue
		}
		v := pn.Outputs[i]
		if !r.plan.used[v] {
			t.Drop()
			continue
		}
		r.vals[v] = t.Retain()
		if r.Trace != nil && r.Values[v].RequiresGrad && !pn.NoGrad { // t.requires_grad = True in the model's code
			t.AsLeaf()
		}
		if r.plan.held[v] {
			r.remember(v, t)
		}
	}
}

// remember gives an attribute of a module a new value; the old one goes.
func (g *Graph) remember(v int, t *eager.Tensor) {
	old := g.state[v]
	delete(g.state, v)
	if t != nil {
		g.state[v] = t.Retain()
	}
	if old != nil {
		old.Release()
	}
}

// refuseMisfit turns a crash over arguments no exporter writes (an index beyond a shape) into an error that names the operator.
func refuseMisfit(pn *planNode) {
	switch r := recover().(type) {
	case nil:
	case runtime.Error:
		panic(eager.Fault(fmt.Sprintf("operator %.60s has arguments that do not fit it", pn.Target)))
	default:
		panic(r)
	}
}

// graphType is an element type of the export format.
func graphType(d exported.DType) tensor.DType {
	switch d {
	case exported.Boolean:
		return tensor.Bool
	case exported.Uint8, exported.Int8:
		return tensor.Uint8
	case exported.Int16, exported.Int32:
		return tensor.Int32
	case exported.Int64:
		return tensor.Int64
	case exported.Float16:
		return tensor.Float16
	case exported.BFloat16:
		return tensor.BFloat16
	case exported.Float64, exported.Complex64:
		return tensor.Float64
	}
	return tensor.Float32
}
