package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// cudaInDataset is LM007.
func cudaInDataset(p *pass) {
	workers, known := p.loaderWorkers()
	for _, c := range p.m.Classes {
		if !c.Dataset {
			continue
		}
		for _, name := range []string{"__getitem__", "__getitems__", "__iter__", "__init__"} {
			if fn := c.Methods[name]; fn != nil {
				p.transferIn(fn.Node.Body, workers, known, name == "__init__")
			}
		}
	}
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			for _, a := range c.Node.Args {
				if oneOf(a.Name, "transform", "target_transform", "collate_fn") {
					p.transferInFunction(a.Value, workers, known)
				}
			}
		}
	}
}

// loaderWorkers tells whether some DataLoader of the file has workers, or has an unknown number; known: there is a loader at all.
func (p *pass) loaderWorkers() (workers, known bool) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if flow.Last(c.Name) != "DataLoader" {
				continue
			}
			known = true
			x := keyword(c.Node, "num_workers")
			n, written := literal(x)
			workers = workers || x != nil && (!written || n > 0) || splat(c.Node)
		}
	}
	return workers, known
}

func (p *pass) transferInFunction(x pysource.Expr, workers, known bool) {
	switch x := x.(type) {
	case *pysource.Lambda:
		p.transferIn([]pysource.Stmt{&pysource.ExprStmt{Span: x.Span, X: x.Body}}, workers, known, false)
	case *pysource.Name:
		if fn := p.m.Functions[x.ID]; fn != nil {
			p.transferIn(fn.Node.Body, workers, known, false)
		}
	}
}

func (p *pass) transferIn(body []pysource.Stmt, workers, known, init bool) {
	var at *pysource.Call
	pysource.WalkBody(body, func(n pysource.Node) bool {
		if c, ok := n.(*pysource.Call); ok && at == nil && p.movesToGPU(c) {
			at = c
		}
		return at == nil
	})
	if at == nil || p.reportedAt(at) {
		return
	}
	switch {
	case workers:
		p.report(at, Error,
			"samples are moved to the GPU in the dataset, and the DataLoader has workers: a forked worker cannot use CUDA (\"Cannot re-initialize CUDA in forked subprocess\"), a spawned one pays for a CUDA context of its own",
			"return CPU tensors, set pin_memory=True, and move the batch in the training loop with non_blocking=True")
	case init:
		p.report(at, Note, "the whole dataset is put on the GPU when it is created; it stays there beside the model",
			"fine if meant and if num_workers stays 0; otherwise keep it on the CPU and move batches in the loop")
	default:
		p.report(at, Warning,
			"samples are moved to the GPU one by one in the dataset: the samples, the batch stacked from them and the batch before it are there together, three batches instead of one; with num_workers > 0 it fails",
			"return CPU tensors, set pin_memory=True, and move the batch in the training loop with non_blocking=True")
	}
}

func (p *pass) reportedAt(n pysource.Node) bool {
	pos := p.m.File.Position(n.Pos().Start)
	for _, f := range *p.out {
		if f.Rule == p.rule.ID && f.Line == pos.Line && f.Column == pos.Column {
			return true
		}
	}
	return false
}

// movesToGPU recognises .cuda(), .to(device) and device=… with anything that is not the CPU or a dtype.
func (p *pass) movesToGPU(c *pysource.Call) bool {
	a, ok := c.Func.(*pysource.Attribute)
	if !ok {
		return false
	}
	if a.Attr == "cuda" {
		return true
	}
	if x := keyword(c, "device"); x != nil && strings.HasPrefix(p.m.Dotted(c.Func), "torch.") {
		return gpuDevice(x)
	}
	if a.Attr != "to" {
		return false
	}
	x := keyword(c, "device")
	if x == nil && len(c.Args) > 0 {
		x = c.Args[0].Value
	}
	return x != nil && gpuDevice(x)
}

// gpuDevice tells whether an expression names a device that is, or may be, a GPU.
func gpuDevice(x pysource.Expr) bool {
	switch x := x.(type) {
	case *pysource.String:
		return strings.HasPrefix(x.Value, "cuda")
	case *pysource.Call:
		return len(x.Args) > 0 && gpuDevice(x.Args[0].Value)
	}
	last := strings.ToLower(flow.Last(flow.Key(x)))
	return last == "device" || strings.HasSuffix(last, "_device") || last == "gpu"
}

// loaders are the functions that put a checkpoint's tensors where they were saved, with the place of map_location among their
// arguments. mmengine and mmcv pass their map_location=None on to torch.load.
var loaders = map[string]int{"torch.load": 1, "load_state_dict_from_url": 2, "_load_checkpoint": 1, "load_checkpoint": 2}

// loadWithoutMap is LM024.
func loadWithoutMap(p *pass) {
	gpu := p.sourceHas("cuda", "device", "gpu", "accelerat", "distributed")
	distributed := p.sourceHas("init_process_group", "LOCAL_RANK") && !p.sourceHas("xla", "xm.") // an argument local_rank alone does not make several processes
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			place, ok := loader(c)
			if !ok || splat(c.Node) || p.smallOrInMemory(s, c.Node) {
				continue
			}
			published := p.published(c) // weights that somebody offers are rarely saved from a GPU
			model := p.weights(s, c)
			target := keyword(c.Node, "map_location")
			if target == nil {
				target = positional(c.Node, place)
			}
			if k, ok := target.(*pysource.Constant); ok && k.Text == "None" {
				target = nil
			}
			fix := "`map_location=\"cpu\"` (with torch.load also mmap=True), load_state_dict, then delete the checkpoint"
			switch {
			case target == nil && distributed && model && !published && !oneRank(s, c):
				p.report(c.Node, certainRanks(s),
					"without map_location every rank loads the checkpoint onto the GPU it was saved from, usually GPU 0: one copy and one CUDA context per process there", fix)
			case target == nil && gpu && p.wholeModel(s, c):
				p.report(c.Node, Note,
					"without map_location the model goes to the GPU it was saved from, whether or not that is the one it is to use", "`map_location=\"cpu\"`, then move it")
			case target == nil && gpu && model && !published && copied(s, c) && besideModel(s, c):
				p.report(c.Node, Warning,
					"without map_location the tensors go back to the GPU they were saved from: the checkpoint takes memory on the card beside the model it is copied into", fix)
			case target == nil && model && (s.Func != nil || gpu && movesModel(s, 1<<30)):
				p.report(c.Node, Note,
					"without map_location the tensors go to the GPU they were saved from, whether or not the caller wants them there", fix)
			case target != nil && gpu && p.sameDevice(s, c, target):
				p.report(c.Node, Note,
					"the checkpoint is loaded onto the device the model is on already: both are there until the checkpoint is deleted",
					"map_location=\"cpu\"; load_state_dict copies each tensor over")
			}
		}
	}
}

// certainRanks is an error where the same body starts the process group, so that every rank surely loads; elsewhere the file may be run by one process.
func certainRanks(s *flow.Scope) Severity {
	if slices.ContainsFunc(s.Calls, func(c *flow.Call) bool { return flow.Last(c.Name) == "init_process_group" }) {
		return Error
	}
	return Warning
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
		if c.Order < before && c.RecvValue.Kind == flow.Model && (c.Method == "cuda" || c.Method == "to" && len(c.Node.Args) > 0 && gpuDevice(c.Node.Args[0].Value)) {
			return true
		}
	}
	for _, b := range s.Binds { // model = build(args).cuda()
		c, ok := b.Expr.(*pysource.Call)
		if !ok || b.Value.Kind != flow.Model || b.Order >= before {
			continue
		}
		if a, ok := c.Func.(*pysource.Attribute); ok && (a.Attr == "cuda" || a.Attr == "to" && len(c.Args) > 0 && gpuDevice(c.Args[0].Value)) {
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
		if b.Expr != nil && b.Name != "" && (partOf(b.Expr, load.Node) || len(names) > 0 && mentionsAny(b.Expr, names)) {
			names = append(names, b.Name)
		}
	}
	return names
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

// checkpointKept is LM027.
func checkpointKept(p *pass) {
	for _, s := range p.m.Scopes {
		for _, b := range s.Binds {
			if b.Value.Kind != flow.Checkpoint {
				continue
			}
			loop := p.trainingAfter(s, b.Order)
			if loop == nil || usedIn(loop, b.Name) || deletedBefore(s, b.Name, b.Order, 1<<30) || reboundAfter(s, b) {
				continue
			}
			if c, ok := b.Expr.(*pysource.Call); ok && onCPU(c) {
				continue
			}
			p.report(b.Node, Note, "`"+b.Name+"` stays referenced through the whole training below: the checkpoint's tensors, optimizer state included, are never freed",
				"`del "+b.Name+"` after load_state_dict; if it was on the GPU, one torch.cuda.empty_cache() before the first step gives the space back")
		}
	}
}

func onCPU(c *pysource.Call) bool {
	x := keyword(c, "map_location")
	if x == nil {
		x = positional(c, 1)
	}
	s, ok := x.(*pysource.String)
	return ok && s.Value == "cpu"
}

func (p *pass) trainingAfter(s *flow.Scope, order int) *flow.Loop {
	for _, b := range p.backwards(s) {
		if l := b.call.Ctx.InnermostLoop(); l != nil && b.call.Order > order {
			return l
		}
	}
	return nil
}

func usedIn(l *flow.Loop, name string) bool {
	for _, st := range l.Body {
		if mentions(st, name) {
			return true
		}
	}
	return false
}

func reboundAfter(s *flow.Scope, b *flow.Bind) bool {
	for _, o := range s.Binds {
		if o.Name == b.Name && o.Order > b.Order {
			return true
		}
	}
	return false
}

// loaderHostMemory is LM033.
func loaderHostMemory(p *pass) {
	wsl := p.sourceHas("WSL", "wsl")
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if flow.Last(c.Name) != "DataLoader" {
				continue
			}
			n, _ := literal(keyword(c.Node, "num_workers"))
			if n > 0 {
				p.listDataset(s, c)
			}
			if wsl && isTrue(keyword(c.Node, "pin_memory")) {
				p.report(c.Node, Note, "under WSL pinned memory is scarce and its exhaustion is reported as CUDA out of memory",
					"try pin_memory=False there")
			}
			batch, _ := literal(keyword(c.Node, "batch_size"))
			if factor, ok := literal(keyword(c.Node, "prefetch_factor")); ok && n*factor >= 64 {
				p.report(c.Node, Note, "the workers keep num_workers × prefetch_factor batches ready in host memory, "+itoa(n*factor)+" of them here"+ofBatch(batch),
					"lower prefetch_factor; two batches ahead for each worker are usually enough")
			}
		}
	}
}

func ofBatch(n int) string {
	if n == 0 {
		return ""
	}
	return " of " + itoa(n) + " samples"
}

// listDataset finds a dataset of this file that keeps a Python list of objects.
func (p *pass) listDataset(s *flow.Scope, c *flow.Call) {
	if len(c.Node.Args) == 0 || len(c.Args) == 0 || c.Args[0].Class == "" {
		return
	}
	class := p.m.Classes[c.Args[0].Class]
	if class == nil || class.Methods["__init__"] == nil {
		return
	}
	init := class.Methods["__init__"].Scope
	for _, st := range init.Stores {
		if st.Kind == flow.Append && strings.HasPrefix(st.Base, "self.") && st.Ctx.InnermostLoop() != nil {
			p.report(c.Node, Note,
				"each worker process copies `"+st.Base+"` of "+class.Name+" bit by bit as it reads it: reference counts make shared pages private, so host memory grows to one copy per worker",
				"keep the samples in a NumPy array or a tensor instead of a list of Python objects")
			return
		}
	}
}
