package diagnose

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

var parallelRules = []rule{fsdpGather, unshardedGradients, ddpBuckets, dataParallel, compiled, cudaGraphPools}

// sumWhere adds up what is alive in groups of a kind.
func (c *Case) sumWhere(keep func(snapshot.StackID) bool) (units.Bytes, []snapshot.StackID) {
	var sum units.Bytes
	var stacks []snapshot.StackID
	for _, g := range c.Groups {
		if keep(g.Stack) {
			sum += g.Bytes
			stacks = append(stacks, g.Stack)
		}
	}
	return sum, stacks
}

// fsdpGather: whole parameters gathered from their shards.
func fsdpGather(c *Case) (claim, bool) {
	sum, stacks := c.sumWhere(func(s snapshot.StackID) bool { return c.Origins.Of(s).Gather })
	failing := c.OOM != nil && c.Origins.Of(c.OOM.Stack).Gather
	if !failing && 4*sum < c.InUse {
		return claim{}, false
	}
	severity := report.Remark
	if failing {
		severity = report.Error
		sum += c.OOM.Request
	}
	undo := change{never: c.inside(stacks), request: failing}
	return claim{without: undo, Finding: report.Finding{
		ID: "fsdp-gather", Severity: severity, Confidence: 0.88, Bytes: sum, Where: c.andFailure(stacks...),
		Title:    fmt.Sprintf("gathered parameters take %s", sum),
		Evidence: []string{"sharded parameters are gathered whole for a layer's computation, or for a full state dict"},
		Remedies: []report.Remedy{
			{Action: "wrap every block: fully_shard(block) with reshard_after_forward=True", CheckedBy: report.ByRule},
			{Action: "save sharded, or gather with cpu_offload=True on rank 0 only", CheckedBy: report.ByRule},
		},
	}}, true
}

// unshardedGradients: sharded training that keeps whole gradients between micro-batches. The parameters are shards, so gradients that
// take far more than they do are whole (torch/distributed/fsdp: no_sync, set_requires_gradient_sync(False)).
func unshardedGradients(c *Case) (claim, bool) {
	gathers := false
	for i := range c.Origins.Stacks.Len() {
		gathers = gathers || c.Origins.Of(snapshot.StackID(i)).Gather
	}
	params, gradients := c.By[tape.Parameters], c.By[tape.Gradients]
	if !gathers || params == 0 || 2*gradients < 3*params || 10*gradients < c.InUse {
		return claim{}, false
	}
	undo := change{saves: gradients - params}
	return claim{without: undo, tries: []change{undo}, Finding: report.Finding{
		ID: "accumulation-unsharded-grads", Severity: c.severity(report.Warning), Confidence: 0.82, Bytes: gradients - params, Where: c.failurePlace(),
		Title: fmt.Sprintf("whole gradients are kept between micro-batches: %s beside %s of sharded parameters", gradients, params),
		Evidence: []string{
			"a gradient is as large as its parameter; these are larger than the shards, so they have not been reduced and sharded",
			"accumulating under no_sync() (set_requires_gradient_sync(False), ZeRO-2 and 3) saves communication and costs the memory that sharding saved",
		},
		Remedies: []report.Remedy{
			{Action: "synchronise every micro-batch: leave no_sync() out (Accelerate: sync_each_batch=True)", Saves: gradients - params, CheckedBy: report.ByArithmetic},
		},
	}}, true
}

// ddpBuckets: DistributedDataParallel keeps a second copy of all gradients in its communication buckets
// (torch/nn/parallel/distributed.py, gradient_as_bucket_view=False).
func ddpBuckets(c *Case) (claim, bool) {
	sum, stacks := c.sumWhere(func(s snapshot.StackID) bool {
		return c.Origins.Of(s).Bucket
	})
	if sum == 0 || 20*sum < c.InUse {
		return claim{}, false
	}
	return claim{kind: normal, Finding: report.Finding{
		ID: "ddp-buckets", Severity: report.Remark, Confidence: 0.8, Bytes: sum, Where: c.places(stacks...),
		Title:    fmt.Sprintf("DistributedDataParallel's buckets copy the gradients: %s", sum),
		Evidence: []string{"gradients are copied into buckets for the all-reduce, so they exist twice"},
		Remedies: []report.Remedy{{Action: "DistributedDataParallel(model, gradient_as_bucket_view=True)", Saves: sum, CheckedBy: report.ByRule}},
	}}, true
}

// dataParallel: nn.DataParallel gathers every replica's output on the first card.
func dataParallel(c *Case) (claim, bool) {
	sum, stacks := c.sumWhere(func(s snapshot.StackID) bool { return c.Origins.Of(s).Parallel })
	failing := c.OOM != nil && c.Origins.Of(c.OOM.Stack).Parallel
	if sum == 0 && !failing {
		return claim{}, false
	}
	if failing {
		sum += c.OOM.Request
	}
	severity := report.Warning
	if failing {
		severity = report.Error
	}
	return claim{kind: normal, Finding: report.Finding{
		ID: "data-parallel", Severity: severity, Confidence: 0.85, Bytes: sum, Where: c.andFailure(stacks...),
		Title:    "nn.DataParallel fills the first card before the others",
		Evidence: []string{"it replicates the model every step and gathers all outputs and the loss on device 0"},
		Remedies: []report.Remedy{{Action: "DistributedDataParallel, one process per card: torchrun --nproc-per-node=N train.py", CheckedBy: report.ByRule}},
	}}, true
}

// compiled: the request came from code that torch.compile made.
func compiled(c *Case) (claim, bool) {
	if c.OOM == nil || !c.Origins.Of(c.OOM.Stack).Compiled {
		return claim{}, false
	}
	severity, confidence := report.Warning, 0.6
	for _, file := range []string{"triton_heuristics.py", "select_algorithm.py", "autotune_process.py", "cudagraph_trees.py"} {
		if c.passes(c.OOM.Stack, "torch/_inductor/") && c.passes(c.OOM.Stack, file) {
			severity, confidence = report.Error, 0.75 // the compiler itself asked: autotuning, or a graph's pool
		}
	}
	return claim{kind: normal, Finding: report.Finding{
		ID: "compile", Severity: severity, Confidence: confidence, Bytes: c.OOM.Request, Where: c.failurePlace(),
		Title:    "the request came from code that torch.compile generated",
		Evidence: []string{"every new shape compiles anew, autotuning allocates, and mode=\"reduce-overhead\" keeps a pool for each graph"},
		Remedies: []report.Remedy{
			{Action: `torch.compile(mode="default", dynamic=True), or mark_dynamic the varying dimension`, CheckedBy: report.ByRule},
		},
	}}, true
}

// cudaGraphPools: memory that captured graphs keep for themselves.
func cudaGraphPools(c *Case) (claim, bool) {
	private := c.PrivatePools()
	if private == 0 || 20*private < c.Peak.Reserved {
		return claim{}, false
	}
	var stacks []snapshot.StackID
	for _, g := range c.Groups {
		if c.inPrivatePool(g.Stack) {
			stacks = append(stacks, g.Stack)
		}
	}
	quiet := report.Remark
	if 4*private >= c.Peak.Reserved {
		quiet = report.Warning
	}
	return claim{without: change{saves: private}, Finding: report.Finding{
		ID: "cuda-graph-pools", Severity: c.severity(quiet), Confidence: 0.9, Bytes: private, Where: c.places(stacks...),
		Title: fmt.Sprintf("CUDA graphs and private pools keep %s for themselves", private),
		Evidence: []string{
			"memory in a captured graph's pool cannot be used by anything else while the graph exists, even where it is free",
		},
		Remedies: []report.Remedy{
			{Action: "share one pool: torch.cuda.graph(g, pool=first.pool()), capture the largest shape first", CheckedBy: report.ByRule},
			{Action: `leave out mode="reduce-overhead" where shapes vary`, Saves: private, CheckedBy: report.ByRule},
		},
	}}, true
}

// PrivatePools is what private pools hold at the end.
func (c *Case) PrivatePools() units.Bytes {
	var sum units.Bytes
	for i := range c.Snapshot.Segments {
		if s := &c.Snapshot.Segments[i]; s.Device == c.Device && s.PoolID != [2]int64{} {
			sum += units.Bytes(s.TotalSize)
		}
	}
	return sum
}

func (c *Case) inPrivatePool(stack snapshot.StackID) bool {
	for i := range c.Tape.Events {
		if e := &c.Tape.Events[i]; e.Kind == tape.Alloc && e.Pool != 0 && c.Stack[e.ID] == stack {
			return true
		}
	}
	return false
}
