// Package shard estimates what one of several cards needs when a training job is spread over them.
//
// It takes the tape of the job on one card and a Plan (DDP, ZeRO, FSDP2, pipeline stages) and returns an Estimate per rank. The arithmetic is
// analytic: at every instant of the tape, parameters, gradients and optimizer state count by the share the plan leaves on a rank, everything
// else counts in full, and the plan's own buffers are added (PyTorch 2.11: torch/csrc/distributed/c10d/reducer.hpp, torch/distributed/fsdp;
// DeepSpeed: runtime/zero). Of DeepSpeed's stages, ranks were measured; DDP and pipelines were not. Communication libraries' memory outside the allocator is not counted.
// Refused: fewer than two ranks, and kinds that are not known.
package shard

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Plan says how a job is spread.
type Plan struct {
	Kind       setup.Sharding
	Ranks      int
	Masters    bool // the tape's parameters are 16-bit copies: what each rank keeps of parameters and state is fp32
	Element    int  // bytes of an element of the tape's parameters; 0: 2 where they have masters, else 4
	BucketView bool // DDP: gradient_as_bucket_view, which saves the buckets
	Stages     int  // pipeline stages; 0 and 1: none. The tape is then that of one stage's layers

	Code setup.Code // whose modelling code: frameworks apply fully_shard to other units
}

const maxRanks = 1 << 20

// Check refuses plans that make no sense.
func (p Plan) Check() error {
	if _, err := setup.ParseSharding(string(p.Kind)); err != nil {
		return err
	}
	if p.Ranks < 2 {
		return fmt.Errorf("%d ranks: sharding needs at least two", p.Ranks)
	}
	if err := p.Kind.Possible(p.Ranks); err != nil && p.Stages < 2 {
		return err
	}
	if p.Ranks > maxRanks {
		return fmt.Errorf("%d ranks are more than any cluster has (at most %d)", p.Ranks, maxRanks)
	}
	if p.Stages < 0 || p.Stages > 1<<12 {
		return fmt.Errorf("%d pipeline stages", p.Stages)
	}
	return nil
}

// Fully is how fully_shard is applied, with so many micro-batches a step; false where the plan is another one, or a pipeline's, which is estimated.
func (p Plan) Fully(micro int) (Fully, bool) {
	// Among copies (HSDP) the reduced shards are reduced again in place: memory is that of one copy's cards
	// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce).
	f := Fully{Ranks: p.shards(), Policy: p.Masters, Micro: min(micro, 2), FromHost: true}
	switch p.Code {
	case setup.Torchtitan: // https://github.com/pytorch/torchtitan/blob/v0.2.2/torchtitan/models/llama3/infra/parallelize.py#L287
		f.Apart, f.FromHost = [][]string{{"tok_embeddings"}, {"norm", "output"}}, false
	case setup.Torchtitan2025: // https://github.com/pytorch/torchtitan/blob/82f7387f8/torchtitan/parallelisms/parallelize_llama.py#L309
		f.KeepLast, f.FromHost = true, false
	}
	return f, (p.Kind == setup.FSDP2 || p.Kind == setup.HSDP) && p.Stages < 2 && p.Ranks > 1
}

// shards is how many ranks share one copy.
func (p Plan) shards() int { return p.Kind.Shards(p.Ranks) }

// Estimate is what one rank needs.
type Estimate struct {
	Peak        units.Bytes // tensors of the rank at its highest instant
	Buffers     units.Bytes // of which the plan's own buffers
	Cached      units.Bytes // that the allocator keeps beside it, beyond what it would on one card
	Assumptions []string
}

// NCCL's own buffers, outside of the allocator. Over NVLink, measured on four A100s: 544 MB for a communicator of two cards, 688 for more
// (https://github.com/NVIDIA/nccl/issues/964). Over PCIe, estimated: 4 MiB (NCCL_BUFFSIZE) for the simple protocol and about as much for LL128, for each of
// up to four connections of a few channels (https://github.com/NVIDIA/nccl/blob/v2.27.3-1/src/init.cc). Further communicators and all-to-all take more:
// 3.3 GB on eight H100s (https://github.com/NVIDIA/nccl/issues/1685).
const (
	overNVLinkTwo = 544 * units.MiB
	overNVLink    = 688 * units.MiB
	overPCIe      = 256 * units.MiB
)

// NCCL is what the communicator of a process takes of its card; nothing with one card.
func NCCL(cards int, nvlink bool) units.Bytes {
	switch {
	case cards < 2:
		return 0
	case !nvlink:
		return overPCIe
	case cards == 2:
		return overNVLinkTwo
	}
	return overNVLink
}

// DeepSpeed's defaults, in elements (https://github.com/deepspeedai/DeepSpeed/blob/v0.19.8/deepspeed/runtime/zero/config.py): the bucket that gradients are reduced in
// (reduce_bucket_size), allocated whole however small the model is, and the parameters that stage 3 leaves gathered (stage3_max_live_parameters, stage3_max_reuse_distance).
const (
	zeroBucket = 500_000_000
	zeroLive   = 1_000_000_000
)

// element is the bytes of an element of the tape's parameters and gradients.
func (p Plan) element() units.Bytes {
	if p.Element > 0 {
		return units.Bytes(p.Element)
	}
	if p.Masters {
		return 2
	}
	return 4
}

// PerRank walks the tape once and takes the highest instant.
func PerRank(t *tape.Tape, p Plan) (Estimate, error) {
	if err := p.Check(); err != nil {
		return Estimate{}, err
	}
	m := measure(t)
	var now [tape.Categories]units.Bytes
	var best Estimate
	backward := false
	for i := range t.Events {
		e := &t.Events[i]
		c := t.Owners[e.Owner].Category
		switch e.Kind {
		case tape.Mark:
			backward = backward || t.Moments[e.Owner].Phase == "backward"
			continue
		case tape.Alloc:
			now[c] += e.Size
		case tape.Free:
			now[c] -= e.Size
			continue
		default:
			continue
		}
		held, buffers := p.rank(m, now, backward)
		if held > best.Peak {
			best.Peak, best.Buffers = held, buffers
		}
	}
	best.Peak += m.inFlight(p.Stages)
	best.Cached = p.cached(m)
	best.Assumptions = append(p.Assumptions(), stageAssumption(p.Stages)...)
	return best, nil
}

// InFlight is what the first of several pipeline stages holds beyond one micro-batch, from the tape of one stage's layers.
func InFlight(t *tape.Tape, stages int) (units.Bytes, []string) {
	return measure(t).inFlight(stages), stageAssumption(stages)
}

// inFlight: with one forward and one backward in turn, the first stage holds as many micro-batches as there are stages.
func (m model) inFlight(stages int) units.Bytes { return units.Bytes(max(stages-1, 0)) * m.saved }

func stageAssumption(stages int) []string {
	if stages < 2 {
		return nil
	}
	return []string{fmt.Sprintf("pipeline of %d stages, one forward one backward: the first stage keeps %d micro-batches", stages, stages)}
}

// model is what the plan needs to know of the job.
type model struct {
	params units.Bytes // all parameters and buffers
	grads  units.Bytes // all gradients at once
	widest units.Bytes // the largest of them
	layer  units.Bytes // parameters of the largest repeated layer
	rest   units.Bytes // parameters outside of repeated layers
	saved  units.Bytes // activations of the layers at the end of the first forward
	beside units.Bytes // all that is there beside parameters, gradients and state once the first gradient is, and what it was computed from is not
	head   units.Bytes // the first gradient
}

// measure reads the model off its tape.
func measure(t *tape.Tape) model {
	var m model
	layers := map[string]units.Bytes{}
	layer := make([]string, len(t.Owners))
	for i := range t.Owners {
		layer[i] = layerOf(t.Owners[i].Module)
	}
	var grads, saved units.Bytes
	var first tape.Beside
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind == tape.Mark && t.Moments[e.Owner].Phase == "backward" && m.saved == 0 {
			m.saved = max(saved, 1)
		}
		if e.Kind != tape.Alloc && e.Kind != tape.Free {
			continue
		}
		o := t.Owners[e.Owner]
		sign := units.Bytes(1)
		if e.Kind == tape.Free {
			sign = -1
		}
		first.See(o.Category, sign*e.Size)
		switch {
		case o.Category == tape.Parameters: // those of tied layers are let go again
			m.params += sign * e.Size
			if whole(o) {
				layers[layer[e.Owner]] += sign * e.Size
			}
		case o.Category == tape.Gradients:
			grads += sign * e.Size
			m.widest = max(m.widest, e.Size)
			m.grads = max(m.grads, grads)
		case o.Category == tape.Activations && layer[e.Owner] != "":
			saved += sign * e.Size
		}
	}
	m.rest, m.beside, m.head = layers[""], first.Least, first.First
	for name, b := range layers {
		if name != "" {
			m.layer = max(m.layer, b)
		}
	}
	return m
}

// layerOf is the repeated layer a module belongs to: model.layers.3 of model.layers.3.mlp; "" for others.
func layerOf(module string) string {
	_, within, _, found := tape.Layer(module)
	if !found {
		return ""
	}
	return strings.TrimSuffix(module[:len(module)-len(within)], ".")
}

// rank is what a rank holds at an instant, and how much of it are the plan's buffers.
func (p Plan) rank(m model, now [tape.Categories]units.Bytes, backward bool) (held, buffers units.Bytes) {
	share := func(b units.Bytes) units.Bytes { return (b + units.Bytes(p.shards()) - 1) / units.Bytes(p.shards()) }
	wide := share // of what is kept between steps
	if p.Masters {
		wide = func(b units.Bytes) units.Bytes { return share(2 * b) }
	}
	masters := wide(m.grads) // of what is trained: DeepSpeed has them beside parameters in fp32, too
	params, grads, state := now[tape.Parameters], now[tape.Gradients], now[tape.Optimizer]
	rest := now[tape.Activations] + now[tape.Inputs] + now[tape.Workspace] + now[tape.Other]
	bucket := zeroBucket * p.element()
	switch p.Kind {
	case setup.DDP:
		buffers = m.grads
		if p.BucketView || !backward {
			buffers = 0
		}
	case setup.ZeRO1: // the first gradient makes the bucket, the step lets it go
		state = wide(state) + masters
		if grads > 0 {
			buffers = max(bucket, p.stepping(m, now, share)-grads-rest)
		}
	case setup.ZeRO2: // as in stage 1, but every backward pass has one of its own. It is made when the first gradient comes, beside what layers have saved and logits that the loop keeps:
		// https://github.com/deepspeedai/DeepSpeed/blob/v0.19.8/deepspeed/runtime/zero/stage_1_and_2.py (process_gradients, setup_buckets)
		state = wide(state) + masters
		if grads > 0 {
			buffers = max(0, min(rest, m.beside+m.head)+bucket-rest) // the head's gradient is there whole
			grads = max(share(grads), m.widest)                      // a rank keeps whole the gradients that its part begins or ends in (copy_grads_in_partition)
			buffers = max(buffers, p.stepping(m, now, share)-grads-rest)
		}
	case setup.ZeRO3: // bucket and gradients are allocated when the engine is made
		state, grads = wide(state)+masters, share(m.grads)
		params = share(params) + p.gathered(m)
		buffers = bucket
	case setup.FSDP2, setup.HSDP:
		state = wide(state)
		if p.Stages > 1 { // stages keep parameters gathered and reduce gradients once, after the last micro-batch
			params += wide(params)
			if backward {
				buffers = min(m.grads, bucket, 2*m.layer)
			}
			break
		}
		// At least: Fully knows what is gathered when. Streams do not share memory, so what the reduction and the gathers hold at their peaks counts at any time: the outputs for two
		// units that follow each other (wait_for_unshard lets the first go after the second was asked for).
		params, grads, buffers = wide(params), wide(m.grads), m.layer
		if p.Code == "" || p.Code == setup.TRL { // all that is outside of layers is one unit, before the first layer
			buffers += m.rest
		}
	}
	return params + grads + state + rest + buffers, buffers
}

// stepping is what stages 1 and 2 have beside parameters, masters and state when their step begins: a rank's gradients, one flat copy of them, and that in fp32. The gradients go after both exist; those of other ranks and the
// bucket are gone. https://github.com/deepspeedai/DeepSpeed/blob/v0.19.8/deepspeed/runtime/zero/stage_1_and_2.py#L3102 (step: flat_grad_partition, single_grad_partition; _release_ipg_buffers)
func (p Plan) stepping(m model, now [tape.Categories]units.Bytes, share func(units.Bytes) units.Bytes) units.Bytes {
	if now[tape.Optimizer] == 0 { // the first step is not higher than later ones, and that of an offloaded optimizer is on the host
		return 0
	}
	own := share(m.grads)
	rest := now[tape.Activations] + now[tape.Inputs] + now[tape.Workspace] + now[tape.Other]
	held := max(own, m.widest) + own + min(rest, m.outside())
	if p.element() < 4 {
		held += own / p.element() * 4
	}
	return held
}

// outside is what of the first pass is there beside layers: what a loop keeps through the step, such as logits.
func (m model) outside() units.Bytes { return max(0, m.beside-m.saved) }

// gathered are parameters that stage 3 has in full: it lets go of those that are not used again within so many others.
// https://github.com/deepspeedai/DeepSpeed/blob/v0.19.8/deepspeed/runtime/zero/partitioned_param_coordinator.py (__params_to_release)
func (p Plan) gathered(m model) units.Bytes {
	return min(m.params, max(zeroLive*p.element(), 2*m.layer+m.rest))
}

// cached is what a rank's allocator may keep beyond what it would on one card. Stage 3 gathers on a stream of its own, whose blocks nothing else reuses. Stages 1 and 2 move the whole model to the card
// before they copy it into one flat tensor (flatten_dense_tensors_aligned): the parameters' blocks, and those of a rank's part that is cloned and cast, stay behind, and the bucket comes and goes between other
// requests. Measured on an H200 as one rank of several (docs/measurements/2026-11-16-h200-written-plans.md): 0.4 to 12.5 GiB of stages 1 and 2, never more than this.
func (p Plan) cached(m model) units.Bytes {
	switch p.Kind {
	case setup.ZeRO1, setup.ZeRO2:
		return zeroBucket*p.element() + m.params + m.params/units.Bytes(p.shards())
	case setup.ZeRO3: // and the whole model, which was on the card before it was divided
		return p.gathered(m) + m.params
	}
	return 0
}

// Assumptions are what the numbers of a plan rest on.
func (p Plan) Assumptions() []string {
	out := []string{fmt.Sprintf("per rank of %d (%s): computed from the tape of one card, not measured", p.Ranks, p.Kind)}
	if p.Kind == setup.ZeRO1 || p.Kind == setup.ZeRO2 || p.Kind == setup.ZeRO3 {
		out[0] = fmt.Sprintf("per rank of %d (%s): computed from the tape of one card; fifteen such ranks of DeepSpeed 0.19 on an H200 lay within 4 %%, twelve within 1 %%", p.Ranks, p.Kind)
	}
	if _, ok := p.Fully(1); ok {
		out[0] = fmt.Sprintf("per rank of %d (%s): a tape of its own; thirteen such ranks on an H200 were within 0.3 %%", p.Ranks, p.Kind)
	}
	switch p.Kind {
	case setup.DDP:
		if !p.BucketView {
			out = append(out, "DDP keeps its buckets beside the gradients; gradient_as_bucket_view=True saves them")
		}
	case setup.ZeRO1, setup.ZeRO2:
		out = append(out, "DeepSpeed's default bucket of 5e8 elements, which is allocated whole")
	case setup.ZeRO3:
		out = append(out, "DeepSpeed's defaults: a bucket of 5e8 elements, and parameters stay gathered up to 1e9 of them")
	case setup.FSDP2, setup.HSDP:
		if p.Stages > 1 { // torch/distributed/pipelining/stage.py, 2.11: set_reshard_after_backward(False), set_requires_gradient_sync(False)
			out = append(out, "in a pipeline only the optimizer's state is sharded: parameters stay gathered over the micro-batches of a step")
			break
		}
		out = append(out, "each repeated layer is a unit; one more is fetched ahead; parameters outside of layers stay gathered")
	}
	return append(out, fmt.Sprintf("NCCL's buffers are assumed to be %s or %s, depending on the links; neither was measured", overPCIe, overNVLink))
}
