package lint

import (
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// loaders are the functions that put a checkpoint's tensors where they were saved, with the place of map_location among their
// arguments. mmengine and mmcv pass their map_location=None on to torch.load.
var loaders = map[string]int{"torch.load": 1, "load_state_dict_from_url": 2, "_load_checkpoint": 1, "load_checkpoint": 2}

// loadWithoutMap is LM024.
func loadWithoutMap(p *pass) {
	gpu := p.sourceHas("cuda", "device", "gpu", "accelerat", "distributed")
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			place, ok := loader(c)
			if !ok || splat(c.Node) || p.smallOrInMemory(s, c.Node) || assigned(s, c) || onlyOptimizer(s, c) {
				continue
			}
			target := keyword(c.Node, "map_location")
			if target == nil {
				target = positional(c.Node, place)
			}
			if k, ok := target.(*pysource.Constant); ok && k.Text == "None" {
				target = nil
			}
			switch {
			case target == nil:
				p.loadWhereSaved(s, c, gpu)
			case gpu && p.sameDevice(s, c, target):
				p.report(c.Node, Note,
					"the checkpoint is loaded onto the device the model is on already: both are there until the checkpoint is deleted",
					loadAdvice(s, c))
				p.byHandUnlessCopied(s, c)
			}
		}
	}
}

// loadWhereSaved reports a load that leaves it to the file where its tensors go. That they go to a GPU is known only where the project saves them
// from one; weights that somebody else made are rarely saved so.
func (p *pass) loadWhereSaved(s *flow.Scope, c *flow.Call, gpu bool) {
	model := p.weights(s, c)
	own, needs := p.ownCheckpoint(s, c)
	fix := loadAdvice(s, c)
	reported := len(*p.out)
	switch {
	case model && own && startsRanks(s) && !p.sourceHas("xla", "xm.") && !oneRank(s, c) && !p.withoutRanks(c):
		p.report(c.Node, Warning,
			"without map_location every rank loads the checkpoint onto the GPU it was saved from, usually GPU 0: one copy and one CUDA context per process there", fix)
		p.needs(needs)
	case gpu && p.wholeModel(s, c):
		p.report(c.Node, Note,
			"without map_location the model goes to the GPU it was saved from, whether or not that is the one it is to use",
			"`map_location=\"cpu\"`, then move it, and by hand what it holds beside parameters and buffers: `.to()` leaves other tensors where they are")
	case gpu && model && own && copied(s, c) && handed(s, c) && besideModel(s, c):
		p.report(c.Node, Warning,
			"without map_location the tensors go back to the device they were saved from: if that is a GPU, the checkpoint takes memory on it beside the model it is copied into", fix)
		p.needs(needs)
	case model && (s.Func != nil || gpu && movesModel(s, 1<<30)):
		p.report(c.Node, Note,
			"without map_location the tensors go to the device they were saved from, whether or not the caller wants them there", fix)
	}
	if len(*p.out) > reported {
		p.byHandUnlessCopied(s, c)
	}
}

// byHandUnlessCopied leaves it to a person what to do with a checkpoint that does not go into load_state_dict as a whole: a whole model, or parts of its
// own, would have to be moved.
func (p *pass) byHandUnlessCopied(s *flow.Scope, load *flow.Call) {
	if !handed(s, load) || usedOtherwise(s, load) {
		p.byHand()
	}
}

// loadAdvice says how to load a checkpoint on the CPU. load_state_dict copies to where the parameters are; anything else stays on the CPU.
func loadAdvice(s *flow.Scope, c *flow.Call) string {
	switch {
	case !handed(s, c):
		return "`map_location=\"cpu\"`, and move what is used of it to the device it is used on: load_state_dict copies to where the parameters are, everything else stays on the CPU"
	case usedOtherwise(s, c):
		return "`map_location=\"cpu\"`, then load_state_dict; move what else is used of it to the device it is used on. If a whole object was saved in it, keep the load as it is and delete the checkpoint after its last use: `.to()` does not move every tensor that an object holds"
	}
	return "`map_location=\"cpu\"`, then load_state_dict, which copies to where the parameters are; what else is read from it is then on the CPU. Drop it once nothing uses it any more"
}

// ownCheckpoint tells whether what is loaded may be a checkpoint that the project saved itself, and what the project has to do for that: a path that
// is also saved to in this file is its own; one that is called a checkpoint is where the project saves any; a path to a model only where nothing of
// the project saves from the CPU, as scripts do that convert the weights of others.
func (p *pass) ownCheckpoint(s *flow.Scope, load *flow.Call) (own bool, needs Trait) {
	if len(load.Node.Args) == 0 || p.published(load) || words(load.Node.Args[0].Value, foreignWeights) || texts(load.Node.Args[0].Value, foreign...) || slices.ContainsFunc(loadedAs(s, load), foreignWeights) {
		return false, 0
	}
	path := p.text(load.Node.Args[0].Value)
	for _, scope := range p.m.Scopes {
		for _, c := range scope.Calls {
			if c.Name == "torch.save" && len(c.Node.Args) > 1 && p.text(c.Node.Args[1].Value) == path && savesWeights(c) {
				return true, SavesModel
			}
		}
	}
	if words(load.Node.Args[0].Value, namesCheckpoint) || texts(load.Node.Args[0].Value, checkpointWords...) || slices.ContainsFunc(loadedAs(s, load), namesCheckpoint) {
		return true, SavesModel | SavesMoved | SavesMovedToCPU
	}
	return true, SavesModel | SavesMoved | SavesOnCPU
}

// checkpointWords are in the names of what a training saved to go on from.
var checkpointWords = []string{"resume", "checkpoint", "ckpt", "snapshot", "restore", "latest", "saved", "epoch", "best"}

func namesCheckpoint(w string) bool { return containsAny(strings.ToLower(w), checkpointWords...) }

// foreign are words in the names of weights that come from elsewhere.
var foreign = []string{"pretrain", "imagenet", "backbone", "embed", "vgg", "resnet", "inception", "teacher", "init_", "vocoder", "vqgan", "clip", "dino"}

func foreignWeights(w string) bool { return containsAny(strings.ToLower(w), foreign...) }

// assigned tells whether a model takes the loaded tensors as its own instead of copying them: then they have to be where the model is wanted
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/nn/modules/module.py: load_state_dict, assign).
func assigned(s *flow.Scope, load *flow.Call) bool {
	return slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		return c.Method == "load_state_dict" && c.Order > load.Order-1 && keyword(c.Node, "assign") != nil && !isFalse(keyword(c.Node, "assign"))
	})
}

// onlyOptimizer tells whether an optimizer takes what is loaded, and nothing else: it keeps tensors that are on the right device already as its own
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/optim/optimizer.py: _process_value_according_to_param_policy).
func onlyOptimizer(s *flow.Scope, load *flow.Call) bool {
	names, taken := loadedAs(s, load), false
	for _, c := range s.Calls {
		if c == load || !slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return mentionsAny(a.Value, names) || partOf(a.Value, load.Node) }) {
			continue
		}
		if c.Method != "load_state_dict" || c.Recv == nil || c.RecvValue.Kind != flow.Optimizer {
			return false
		}
		taken = true
	}
	return taken
}

// usedOtherwise tells whether parts of what is loaded are kept under names of their own: on the CPU they could meet tensors on the GPU.
func usedOtherwise(s *flow.Scope, load *flow.Call) bool {
	names := loadedAs(s, load)
	for _, b := range s.Binds {
		if part, ok := b.Expr.(*pysource.Subscript); ok && slices.Contains(names, flow.Key(part.X)) && !texts(part.Index, numbersKept...) && !handedToModel(s, b.Name) {
			return true
		}
	}
	if slices.ContainsFunc(s.Returns, func(r *flow.Exit) bool {
		return r.X != nil && flow.Key(r.X) != "" && slices.Contains(loadedWhole(s, load), flow.Key(r.X))
	}) {
		return true // whoever calls the function may use any of it
	}
	for _, b := range s.Binds { // param.data = v of the items of what was loaded
		if flow.Last(b.Name) == "data" && b.Expr != nil && mentionsAny(b.Expr, names) {
			return true
		}
	}
	for _, c := range s.Calls {
		if oneOf(flow.Last(c.Name), "Parameter", "from_pretrained", "register_buffer", "setattr") && slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return mentionsAny(a.Value, names) }) {
			return true
		}
		if c.Method == "load_state_dict" && keepsGiven(flow.Last(flow.Key(c.Recv))) && slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return mentionsAny(a.Value, names) || partOf(a.Value, load.Node) }) {
			return true
		}
		for _, a := range c.Node.Args {
			part, ok := a.Value.(*pysource.Subscript)
			if ok && slices.Contains(names, flow.Key(part.X)) && !takesWeights(c.Method) && !harmless(c) && !texts(part.Index, numbersKept...) {
				return true // handed to something that may keep it as it is
			}
		}
	}
	return false
}

// keepsGiven knows the names of objects whose load_state_dict may keep the tensors it is given: averages, buffers, statistics.
func keepsGiven(name string) bool {
	return containsAny(strings.ToLower(name), "ema", "shadow", "averag", "replay", "buffer", "memory", "queue", "bank", "normaliz", "rms", "stat", "filter")
}

// numbersKept are words in the keys of a checkpoint under which numbers and settings stand.
var numbersKept = []string{"epoch", "step", "iter", "best", "acc", "loss", "lr", "arg", "config", "cfg", "param", "arch", "size", "num", "name", "version", "time"}

// handedToModel tells whether something takes a name as its weights.
func handedToModel(s *flow.Scope, name string) bool {
	return slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		return takesWeights(c.Method) && slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return mentions(a.Value, name) })
	})
}

// startsRanks tells whether a body starts the process group, so that every rank surely comes by; elsewhere the file may be run by one process.
func startsRanks(s *flow.Scope) bool {
	return slices.ContainsFunc(s.Calls, func(c *flow.Call) bool { return flow.Last(c.Name) == "init_process_group" })
}

// loader tells whether a call loads a checkpoint, and where its map_location stands.
func loader(c *flow.Call) (place int, ok bool) {
	last := flow.Last(c.Name)
	switch {
	case c.Name == "torch.load":
		return loaders[c.Name], true
	case last == "load_state_dict_from_url":
	case strings.HasPrefix(c.Name, "mmengine.") || strings.HasPrefix(c.Name, "mmcv."):
	default:
		return 0, false
	}
	place, ok = loaders[last]
	return place, ok
}

// besideModel tells whether what is loaded and a model are on a GPU together: the same body moves a model there before, or later while what
// was loaded still has a name.
func besideModel(s *flow.Scope, load *flow.Call) bool {
	if moved, known := takerMoved(s, load); known && moved > load.Order {
		names := loadedWhole(s, load)
		if len(names) == 0 {
			names = loadedAs(s, load)
		}
		return slices.ContainsFunc(names, func(name string) bool { return !deletedBefore(s, name, load.Order, moved) })
	}
	if movesModel(s, load.Order) {
		return true
	}
	for _, name := range loadedAs(s, load) {
		if !deletedBefore(s, name, load.Order, 1<<30) {
			return movesModel(s, 1<<30)
		}
	}
	return false
}

// takerMoved finds where the model that takes what is loaded goes to a GPU for the first time, whatever other models do.
func takerMoved(s *flow.Scope, load *flow.Call) (order int, known bool) {
	names := loadedAs(s, load)
	var takers []string
	for _, c := range s.Calls {
		if c.Method == "load_state_dict" && c.Recv != nil && flow.Key(c.Recv) != "" && slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return mentionsAny(a.Value, names) || partOf(a.Value, load.Node) }) {
			takers = append(takers, flow.Key(c.Recv))
		}
	}
	first := func(at int) {
		if !known || at < order {
			order, known = at, true
		}
	}
	for _, c := range s.Calls {
		if c.Recv != nil && slices.Contains(takers, flow.Key(c.Recv)) && toGPU(c.Node) {
			first(c.Order)
		}
	}
	for _, b := range s.Binds {
		if c, ok := b.Expr.(*pysource.Call); ok && slices.Contains(takers, b.Name) && toGPU(c) {
			first(b.Order)
		}
	}
	return order, known
}

// toGPU recognises x.cuda() and x.to(device).
func toGPU(c *pysource.Call) bool {
	a, ok := c.Func.(*pysource.Attribute)
	return ok && (a.Attr == "cuda" || a.Attr == "to" && len(c.Args) > 0 && flow.GPUDevice(c.Args[0].Value))
}

// copied tells whether what is loaded is copied into something: it is handed to a function that loads it, or named like a checkpoint. Anything
// else may be the model itself.
func copied(s *flow.Scope, load *flow.Call) bool {
	names := loadedAs(s, load)
	for _, b := range s.Binds { // net = checkpoint["net"]
		if part, ok := b.Expr.(*pysource.Subscript); ok && b.Value.Kind == flow.Model && slices.Contains(names, flow.Key(part.X)) {
			return false
		}
	}
	for _, name := range names {
		if last := strings.ToLower(flow.Last(name)); containsAny(last, "state", "ckpt", "checkpoint", "dict", "weight", "param", "snapshot", "pretrained") {
			return true
		}
	}
	return handed(s, load)
}

// handed tells whether something takes what is loaded as its weights.
func handed(s *flow.Scope, load *flow.Call) bool {
	names := loadedAs(s, load)
	for _, c := range s.Calls {
		if c == load || !takesWeights(c.Method) {
			continue
		}
		for _, a := range c.Node.Args {
			if mentionsAny(a.Value, names) || partOf(a.Value, load.Node) {
				return true
			}
		}
	}
	return false
}

// takesWeights knows names of functions that copy a checkpoint into a model: load_state_dict, load_weights, set_peft_model_state_dict.
func takesWeights(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "state_dict") || strings.HasPrefix(name, "load") && containsAny(name, "weight", "param", "pretrain", "model", "checkpoint", "ckpt")
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// movesModel tells whether a body moves a model to a GPU before a place.
func movesModel(s *flow.Scope, before int) bool {
	for _, c := range s.Calls {
		if c.Order < before && c.RecvValue.Kind == flow.Model && (c.Method == "cuda" || c.Method == "to" && len(c.Node.Args) > 0 && flow.GPUDevice(c.Node.Args[0].Value)) {
			return true
		}
	}
	for _, b := range s.Binds { // model = build(args).cuda()
		c, ok := b.Expr.(*pysource.Call)
		if !ok || b.Value.Kind != flow.Model || b.Order >= before {
			continue
		}
		if toGPU(c) {
			return true
		}
	}
	return false
}

// weights tells whether what is loaded is a model: by the path, by what it is called, or because a model takes it.
func (p *pass) weights(s *flow.Scope, load *flow.Call) bool {
	model := func(w string) bool {
		w = strings.ToLower(w)
		for _, part := range []string{"model", "ckpt", "checkpoint", "weight", "state_dict", "pretrained", "resume", "snapshot"} {
			if strings.Contains(w, part) {
				return true
			}
		}
		return false
	}
	for _, a := range load.Node.Args {
		if words(a.Value, model) || texts(a.Value, "model", "ckpt", "checkpoint", "weight", ".pth", ".bin") {
			return true
		}
	}
	for _, b := range s.Binds {
		if b.Expr == pysource.Expr(load.Node) && (model(b.Name) || b.Name == "state") {
			return true
		}
	}
	names := loadedAs(s, load)
	for _, c := range s.Calls {
		if c.Method != "load_state_dict" {
			continue
		}
		for _, a := range c.Node.Args {
			if mentionsAny(a.Value, names) || partOf(a.Value, load.Node) {
				return true
			}
		}
	}
	return false
}

// published tells whether the address of what is loaded is written out.
func (p *pass) published(load *flow.Call) bool {
	for _, a := range load.Node.Args {
		if texts(a.Value, "http://", "https://") {
			return true
		}
	}
	return false
}

// loadedAs lists the names that what is loaded gets.
func loadedAs(s *flow.Scope, load *flow.Call) []string {
	var names []string
	for _, b := range s.Binds {
		if b.Expr != nil && b.Name != "" && (partOf(b.Expr, load.Node) || len(names) > 0 && mentionsAny(b.Expr, names) && !loadsAnother(s, b.Expr)) {
			names = append(names, b.Name)
		}
	}
	return names
}

// loadedWhole lists the names that are given what is loaded as it is.
func loadedWhole(s *flow.Scope, load *flow.Call) []string {
	var names []string
	for _, b := range s.Binds {
		if b.Expr == pysource.Expr(load.Node) {
			names = append(names, b.Name)
		}
	}
	return names
}

// loadsAnother tells whether an expression loads a file: what was loaded before gave its path.
func loadsAnother(s *flow.Scope, x pysource.Expr) bool {
	found := false
	pysource.Walk(x, func(n pysource.Node) bool {
		c, ok := n.(*pysource.Call)
		found = found || ok && s.Module.Dotted(c.Func) == "torch.load"
		return !found
	})
	return found
}

// partOf tells whether a node is part of an expression.
func partOf(x, part pysource.Node) bool {
	found := false
	pysource.Walk(x, func(n pysource.Node) bool {
		found = found || n == part
		return !found
	})
	return found
}

// wholeModel tells whether what is loaded is used as a model itself: model = torch.load(path).
func (p *pass) wholeModel(s *flow.Scope, load *flow.Call) bool {
	for _, b := range s.Binds {
		if b.Expr == nil {
			continue
		}
		x := b.Expr
		if moved, ok := x.(*pysource.Call); ok && moved != load.Node && owner(moved) == pysource.Expr(load.Node) {
			return true // torch.load(path).cuda(): a dict has no such method
		}
		if b.Value.Kind != flow.Model {
			continue
		}
		if part, ok := x.(*pysource.Subscript); ok { // torch.load(path)["model"]
			x = part.X
		}
		if x == pysource.Expr(load.Node) {
			return true
		}
	}
	return false
}

// owner is what the first method of a chain is called on: x of x.cuda().eval().
func owner(x pysource.Expr) pysource.Expr {
	for {
		c, ok := x.(*pysource.Call)
		if !ok {
			return x
		}
		a, ok := c.Func.(*pysource.Attribute)
		if !ok || !oneOf(a.Attr, "cuda", "to", "cpu", "eval", "train", "half", "float", "requires_grad_", "module") {
			return x
		}
		x = a.X
	}
}

// smallOrInMemory tells whether what is loaded cannot matter: a buffer its author just wrote, a scheduler, a scaler, a
// random generator's state.
func (p *pass) smallOrInMemory(s *flow.Scope, c *pysource.Call) bool {
	if len(c.Args) == 0 {
		return false
	}
	path := c.Args[0].Value
	if oneOf(flow.Last(p.origin(s, flow.Key(path))), "BytesIO", "NamedTemporaryFile", "TemporaryFile") {
		return true
	}
	if texts(path, "schedul", "scaler", "rng", "training_args", "vocab", "dataset", "result", "predict", "feature") {
		return true
	}
	return words(path, func(w string) bool {
		if w = strings.ToLower(w); oneOf(w, "args", "config") {
			return false // args.resume is a path among the settings, not the settings
		}
		for _, part := range []string{"bytesio", "buffer", "scaler", "schedul", "rng", "metadata", "tokenizer", "vocab", "dataset", "stats", "cached", "feature", "result", "predict", "embedding", "label", "target", "args", "config", "opt_state"} {
			if strings.Contains(w, part) {
				return true
			}
		}
		return oneOf(w, "bio", "stream", "buf")
	})
}

// oneRank tells whether only one process loads this file: it stands under a test of the rank, or its name has the rank in it.
func oneRank(s *flow.Scope, c *flow.Call) bool {
	rank := func(w string) bool {
		w = strings.ToLower(w)
		return strings.Contains(w, "rank") || strings.Contains(w, "process_index") || strings.Contains(w, "main_process") || strings.Contains(w, "is_master")
	}
	for _, b := range c.Ctx.Branches(nil) {
		if words(b.Test, rank) || namesLeadTo(s, b.Test, rank, lookBack) {
			return true
		}
	}
	return len(c.Node.Args) > 0 && (words(c.Node.Args[0].Value, rank) || namesLeadTo(s, c.Node.Args[0].Value, rank, lookBack))
}

// noRank is a test that holds where there is no process for each GPU, and someRank one that does not.
var (
	noRank   = regexp.MustCompile(`(?i)\b[\w.]*(?:gpu|rank|device)\w* is None$|^not [\w.]*(?:distributed|ddp)$`)
	someRank = regexp.MustCompile(`(?i)\b[\w.]*(?:gpu|rank|device)\w* is not None$|^[\w.]*(?:distributed|ddp)$`)
)

// withoutRanks tells whether a place is for a process without a GPU of its own: under args.gpu is None.
func (p *pass) withoutRanks(c *flow.Call) bool {
	return slices.ContainsFunc(c.Ctx.Branches(nil), func(b *flow.Context) bool {
		test := p.text(b.Test)
		return !b.Else && noRank.MatchString(test) || b.Else && someRank.MatchString(test)
	})
}

// namesLeadTo follows the names of an expression back through their bindings.
func namesLeadTo(s *flow.Scope, x pysource.Node, ok func(string) bool, depth int) bool {
	if depth == 0 {
		return false
	}
	found := false
	pysource.Walk(x, func(n pysource.Node) bool {
		name, isName := n.(*pysource.Name)
		if !isName || found {
			return !found
		}
		for _, b := range s.Binds {
			if b.Name == name.ID && b.Expr != nil && (words(b.Expr, ok) || namesLeadTo(s, b.Expr, ok, depth-1)) {
				found = true
				break
			}
		}
		return !found
	})
	return found
}

func (p *pass) sameDevice(s *flow.Scope, load *flow.Call, target pysource.Expr) bool {
	if key := flow.Key(target); key == "" || !strings.Contains(strings.ToLower(key), "device") {
		return false
	}
	for _, c := range s.Calls {
		if c.Order < load.Order && c.Method == "to" && c.RecvValue.Kind == flow.Model && len(c.Node.Args) > 0 && p.text(c.Node.Args[0].Value) == p.text(target) {
			return true
		}
	}
	return false
}
