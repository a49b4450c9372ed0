package diagnose

import (
	"fmt"
	"math"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

var loadRules = []rule{sharedCard, absurdRequest, modelLoad, checkpointSave, resumeDoubles, modelTooLarge}

// absurdRequest: one request that the empty card could not serve, or three times a limit set below it, is a bug in a shape, not a lack of memory. What is a little larger than
// such a limit is told by oneLargeTensor.
func absurdRequest(c *Case) (claim, bool) {
	if c.OOM == nil {
		return claim{}, false
	}
	most := 3 * c.OOM.Limit.High
	if c.OOM.Limit.From == "driver" {
		most = c.OOM.Limit.High
	}
	if c.OOM.Request < units.TiB && c.OOM.Request <= most {
		return claim{}, false
	}
	f := report.Finding{
		ID: "absurd-request", Severity: report.Error, Confidence: 0.93, Bytes: c.OOM.Request, Where: c.failurePlace(),
		Title: fmt.Sprintf("one tensor of %s was requested, more than this process can have at all (%s)", c.OOM.Request, c.OOM.Limit.Bytes),
		Evidence: []string{
			"freeing memory, a smaller batch of the same shapes or allocator settings cannot make room for it: a shape is wrong (a broadcast of (N,1) with (N), an index used as a size, an overflow), or it must be computed in pieces",
		},
		Remedies: []report.Remedy{
			{Action: "print the shapes just before the line named here", CheckedBy: report.ByRule},
			{Action: "compute it in chunks, or with a fused kernel that never holds it (F.scaled_dot_product_attention, chunked cross-entropy)", CheckedBy: report.ByRule},
		},
	}
	if side := square(c.OOM.Request); side > 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("it is exactly %s × %s numbers of 4 bytes: every element paired with every other", units.Count(side), units.Count(side)))
	}
	return claim{Finding: f, without: change{request: true}}, true
}

// square gives n where a size is that of an n by n matrix of 4-byte numbers, as a mistaken broadcast makes; 0 where it is not.
func square(size units.Bytes) int {
	n := int(math.Round(math.Sqrt(float64(size) / 4)))
	if n < 1000 {
		return 0
	}
	exact := 4 * units.Bytes(n) * units.Bytes(n)
	if size < exact || size-exact >= 512 { // requests are recorded rounded up to 512 bytes
		return 0
	}
	return n
}

// modelLoad: the model does not even get onto the card.
func modelLoad(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Phase != callsite.Load {
		return claim{}, false
	}
	params := c.By[tape.Parameters]
	f := report.Finding{
		ID: "model-load", Severity: report.Error, Confidence: 0.95, Bytes: params, Where: c.failurePlace(),
		Title: "the parameters alone do not fit",
	}
	f.Evidence = []string{
		fmt.Sprintf("the request failed while the model was being put on the card, with %s of parameters there already and no batch yet", params),
		"a smaller batch, accumulation, checkpointing or empty_cache() cannot help: none of them touches parameters",
	}
	if params < c.InUse/2 {
		f.Confidence = 0.7
		f.Title = "there is no room left for the model"
		f.Evidence[0] = fmt.Sprintf("the request failed while the model was being put on the card; %s of what is in use is not parameters", c.InUse-params)
	}
	f.Remedies = []report.Remedy{
		{Action: `load in 16 bits: from_pretrained(…, dtype=torch.bfloat16) or model.to(torch.bfloat16) before .cuda()`, Saves: params / 2, CheckedBy: report.ByArithmetic, Numerics: true},
		{Action: "quantise the base and train adapters: 4-bit NF4 weights take 0.52 to 0.56 bytes per parameter (QLoRA)", Saves: params - params/7, CheckedBy: report.ByArithmetic, Numerics: true},
		{Action: "shard the parameters over several cards: FSDP2 fully_shard or DeepSpeed ZeRO-3", CheckedBy: report.ByRule},
	}
	return claim{Finding: f, kind: normal}, true
}

// checkpointSave: writing a checkpoint gathers or copies state on the card.
func checkpointSave(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Phase != callsite.Save || c.Origins.Of(c.OOM.Stack).Gather { // a gather is told by fsdpGather
		return claim{}, false
	}
	copies, stacks := c.sumWhere(func(s snapshot.StackID) bool { return c.Origins.Of(s).Phase == callsite.Save })
	blocks := c.inside(stacks)
	undo := change{never: blocks, request: true}
	return claim{without: undo, tries: []change{undo}, Finding: report.Finding{
		ID: "checkpoint-save", Severity: report.Error, Confidence: 0.9, Bytes: copies + c.OOM.Request, Where: c.failurePlace(),
		Title: "saving a checkpoint needs memory that training has taken",
		Evidence: []string{
			fmt.Sprintf("saving had made copies of %s on the card and requested %s more", copies, c.OOM.Request),
			"torch.save itself needs none: it is clones and gathered shards that do. The training batch does not matter",
		},
		Remedies: []report.Remedy{
			saving(copies, "copy to the CPU, not on the card: {k: v.cpu() for k, v in model.state_dict().items()}"),
			{Action: "save sharded (torch.distributed.checkpoint) or offload while gathering: StateDictOptions(full_state_dict=True, cpu_offload=True)", CheckedBy: report.ByRule},
			{Action: "call torch.cuda.empty_cache() once before saving", CheckedBy: report.ByRule},
		},
	}}, true
}

// resumeDoubles: a checkpoint loaded onto the card stays beside the model it was copied into.
func resumeDoubles(c *Case) (claim, bool) {
	var loaded, model units.Bytes
	var where []report.Place
	var stacks []snapshot.StackID
	for _, g := range c.Groups {
		switch {
		case c.fromSerialization(g.Stack):
			loaded += g.Bytes
			stacks = append(stacks, g.Stack)
			where = append(where, c.places(g.Stack)...)
		case g.Category == tape.Parameters:
			model += g.Bytes
		}
	}
	if loaded == 0 || 4*loaded < model || 4*model < loaded/3 || 20*loaded < c.InUse {
		return claim{}, false
	}
	where = slices.Compact(append(where, c.failurePlace()...))
	undo := change{never: c.inside(stacks)}
	return claim{without: undo, tries: []change{undo, undo}, Finding: report.Finding{
		ID: "resume-doubles", Severity: c.severity(report.Warning), Confidence: 0.9, Bytes: loaded, Where: where,
		Title: fmt.Sprintf("a loaded checkpoint still occupies %s beside the model", loaded),
		Evidence: []string{
			fmt.Sprintf("the checkpoint was loaded onto the card, where %s of parameters already are, and something still refers to it", model),
			"a checkpoint with optimizer state is three times the model; without map_location it goes back to the card it was saved from",
		},
		Remedies: []report.Remedy{
			{Action: `torch.load(path, map_location="cpu")`, Saves: loaded, CheckedBy: report.ByArithmetic},
			{Action: "del checkpoint after load_state_dict, then torch.cuda.empty_cache() once", Saves: loaded, CheckedBy: report.ByArithmetic},
		},
	}}, true
}

// modelTooLarge: parameters, gradients and optimizer state leave no room, whatever the batch.
func modelTooLarge(c *Case) (claim, bool) {
	if c.OOM == nil || !c.Certain || c.OOM.Phase == callsite.Load {
		return claim{}, false
	}
	if c.creatingState() {
		return claim{}, false // told by optimizerFirstStep
	}
	params := c.By[tape.Parameters] - c.loadedBytes()
	trained := c.trained(params)
	state := max(c.By[tape.Optimizer], c.stateToCome(trained))
	states := params + trained + state
	if params <= 0 || trained == 0 || states < c.OOM.Limit.Bytes {
		return claim{}, false
	}
	f := report.Finding{
		ID: "model-too-large", Severity: report.Error, Confidence: 0.98, Bytes: states, Where: c.failurePlace(),
		Title: "parameters, gradients and optimizer state do not fit, whatever the batch",
		Evidence: []string{
			fmt.Sprintf("%s of parameters, %s of gradients and %s of optimizer state make %s; the limit is %s", params, trained, state, states, c.OOM.Limit.Bytes),
			"a smaller batch, checkpointing or accumulation cannot help: none of them touches these",
		},
		Remedies: []report.Remedy{{Action: "train adapters (LoRA): gradients and optimizer state only for them", Saves: trained + state, CheckedBy: report.ByArithmetic, Numerics: true}},
	}
	if state > 0 {
		f.Remedies = append(f.Remedies, report.Remedy{Action: "8-bit Adam (bitsandbytes): 2.03 bytes per parameter instead of 8", Saves: state * 3 / 4, CheckedBy: report.ByArithmetic, Numerics: true})
	} else {
		f.Title = "parameters and gradients do not fit, whatever the batch"
		f.Evidence[0] = fmt.Sprintf("%s of parameters and as much of gradients make %s; the limit is %s, and Adam would add %s more", params, states, c.OOM.Limit.Bytes, 2*trained)
		f.Remedies = append(f.Remedies, report.Remedy{Action: "parameters in bfloat16: gradients follow", Saves: states / 2, CheckedBy: report.ByArithmetic, Numerics: true})
	}
	f.Remedies = append(f.Remedies, report.Remedy{Action: "shard over several cards: FSDP2 or ZeRO-3", CheckedBy: report.ByRule})
	return claim{Finding: f, kind: normal}, true
}

// loadedBytes is what torch.load put on the card: a checkpoint, not the model.
func (c *Case) loadedBytes() units.Bytes {
	sum, _ := c.sumWhere(c.fromSerialization)
	if sum >= c.By[tape.Parameters] {
		return 0 // the model itself was loaded so
	}
	return sum
}

// trained is how much gradients of a whole backward take. With adapters it is far less than the parameters, so that a backward that
// has only begun proves nothing.
func (c *Case) trained(params units.Bytes) units.Bytes {
	gradients := c.By[tape.Gradients]
	if len(c.Steps) > 0 {
		gradients = max(gradients, c.By[tape.Optimizer]/2)
	}
	if c.OOM.Phase == callsite.Optimizer || len(c.Steps) > 0 || 4*gradients < params {
		return gradients
	}
	return params
}

// stateToCome is what the state being created will take: two moments for Adam and its kin, one for the others.
func (c *Case) stateToCome(trained units.Bytes) units.Bytes {
	if !c.creatingState() {
		return 0
	}
	for _, name := range []string{"sgd.py", "adagrad.py", "rmsprop.py"} {
		if c.passes(c.OOM.Stack, "torch/optim/"+name) {
			return trained
		}
	}
	return 2 * trained
}
