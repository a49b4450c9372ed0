package diagnose

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/origin"
	"github.com/plimsoll/plimsoll/internal/report"
	"github.com/plimsoll/plimsoll/internal/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// absurdRequest: one request that no card could serve is a bug in a shape, not a lack of memory.
func absurdRequest(c *Case) (report.Finding, bool) {
	if c.OOM == nil || c.OOM.Request < units.TiB {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "absurd-request", Severity: report.Error, Confidence: 0.97, Bytes: c.OOM.Request, Where: c.failurePlace(),
		Title:    fmt.Sprintf("one tensor of %s was asked for", c.OOM.Request),
		Evidence: []string{"no GPU has that much memory: a shape is wrong (a broadcast of (N,1) with (N), an index used as a size, an overflow)"},
		Refuted:  "the tensor really having that many elements",
		Remedies: []report.Remedy{{Action: "print the shapes just before the line named here", CheckedBy: report.ByRule}},
	}, true
}

// modelLoad: the model does not even get onto the card.
func modelLoad(c *Case) (report.Finding, bool) {
	if c.OOM == nil || c.OOM.Phase != origin.Load {
		return report.Finding{}, false
	}
	params := c.By[tape.Parameters]
	f := report.Finding{
		ID: "model-load", Severity: report.Error, Confidence: 0.95, Bytes: params, Where: c.failurePlace(),
		Title:   "the parameters alone do not fit",
		Refuted: "memory of another kind in the table above that could be freed before loading",
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
		{Action: "quantise the base and train adapters: 4-bit NF4 weights take 0.52 to 0.56 bytes a parameter (QLoRA)", Saves: params - params/7, CheckedBy: report.ByArithmetic, Numerics: true},
		{Action: "shard the parameters over several cards: FSDP2 fully_shard or DeepSpeed ZeRO-3", CheckedBy: report.ByRule},
	}
	return f, true
}

// checkpointSave: writing a checkpoint gathers or copies state on the card.
func checkpointSave(c *Case) (report.Finding, bool) {
	if c.OOM == nil || c.OOM.Phase != origin.Save {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "checkpoint-save", Severity: report.Error, Confidence: 0.9, Bytes: c.OOM.Request, Where: c.failurePlace(),
		Title:    "saving a checkpoint needs memory that training has taken",
		Evidence: []string{fmt.Sprintf("%s were asked for inside state_dict() or torch.save()", c.OOM.Request)},
		Refuted:  "the same failure with saving switched off",
		Remedies: []report.Remedy{
			{Action: "save sharded (torch.distributed.checkpoint) or offload while gathering: StateDictOptions(full_state_dict=True, cpu_offload=True)", CheckedBy: report.ByRule},
			{Action: "call torch.cuda.empty_cache() once before saving", CheckedBy: report.ByRule},
		},
	}, true
}

// resumeDoubles: a checkpoint loaded onto the card stays beside the model it was copied into.
func resumeDoubles(c *Case) (report.Finding, bool) {
	var loaded units.Bytes
	where := c.failurePlace()
	for _, g := range c.Groups {
		if c.fromSerialization(g.Stack) {
			loaded += g.Bytes
			where = append(c.places(g.Stack), where...)
		}
	}
	if loaded == 0 || 4*loaded < c.By[tape.Parameters] || c.Instant < 0 {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "resume-doubles", Severity: c.severity(report.Warning), Confidence: 0.85, Bytes: loaded, Where: where,
		Title:    fmt.Sprintf("a loaded checkpoint still occupies %s beside the model", loaded),
		Evidence: []string{"torch.load put the checkpoint on the card and something still refers to it"},
		Refuted:  "the loaded tensors being the model's own parameters (load_state_dict(assign=True))",
		Remedies: []report.Remedy{
			{Action: `torch.load(path, map_location="cpu")`, Saves: loaded, CheckedBy: report.ByArithmetic},
			{Action: "del checkpoint after load_state_dict", Saves: loaded, CheckedBy: report.ByArithmetic},
		},
	}, true
}

// modelTooLarge: parameters, gradients and optimizer state leave no room, whatever the batch.
func modelTooLarge(c *Case) (report.Finding, bool) {
	if c.OOM == nil || c.OOM.Phase == origin.Load {
		return report.Finding{}, false
	}
	params := c.By[tape.Parameters]
	states := params + max(c.By[tape.Gradients], params) + c.By[tape.Optimizer]
	if c.By[tape.Optimizer] == 0 && c.OOM.Phase == origin.Optimizer {
		states += 2 * params // Adam: two moments of the parameters' size
	}
	if !c.Certain || params == 0 || states < c.OOM.Limit.Bytes {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "model-too-large", Severity: report.Error, Confidence: 0.93, Bytes: states, Where: c.failurePlace(),
		Title: "parameters, gradients and optimizer state do not fit, whatever the batch",
		Evidence: []string{fmt.Sprintf("%s of parameters need %s with their gradients and optimizer state; the limit is %s",
			params, states, c.OOM.Limit.Bytes), "a smaller batch cannot help"},
		Refuted: "gradients or state that are never allocated (frozen parameters, another optimizer)",
		Remedies: []report.Remedy{
			{Action: "train adapters (LoRA): gradients and optimizer state only for them", Saves: states - params, CheckedBy: report.ByArithmetic, Numerics: true},
			{Action: "8-bit Adam (bitsandbytes): 2.03 bytes a parameter instead of 8", Saves: c.By[tape.Optimizer] * 3 / 4, CheckedBy: report.ByArithmetic, Numerics: true},
			{Action: "shard over several cards: FSDP2 or ZeRO-3", CheckedBy: report.ByRule},
		},
	}, true
}
