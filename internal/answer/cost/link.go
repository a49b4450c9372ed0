package cost

import (
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// What leaves the card. None of this was measured: rates are the links' own, efficiencies are assumed.

// linkShare of a link's rate that collectives and copies reach. Assumed.
const linkShare = 0.8

// link is what one card can send to another.
func link(c gpu.Card) float64 {
	if c.NVLink > 0 {
		return c.NVLink
	}
	return c.Host
}

// network is what one card of a machine can send to another machine, in bytes a second and direction. DGX H100 and A100 datasheets: one adapter a card of
// 400 and 200 Gbit/s; assumed for others: 100.
func network(c gpu.Card) float64 {
	linked := c.NVLink > 0
	switch {
	case linked && c.Major >= 9:
		return 50e9
	case linked && c.Major >= 8:
		return 25e9
	}
	return 12.5e9
}

// between is the rate of exchanges among cards that lie so many apart: within a machine, or over the network.
func between(c gpu.Card, cards int) float64 {
	if cards > setup.PerMachine {
		return min(link(c), network(c)) * linkShare
	}
	return link(c) * linkShare
}

// Ranks is a group of cards that share a collective.
type Ranks struct {
	Count int
	Span  int // cards from the first to the last of them: more than a machine has go over the network
}

// Collectives is the time one optimizer step spends in communication over a number of ranks. A ring sends (n-1)/n of what is gathered
// or scattered. DDP and ZeRO-1 and -2 reduce gradients once a step and gather what was updated; ZeRO-3 and FSDP2 gather parameters in forward and again in backward
// of every micro-batch and scatter gradients.
func Collectives(c gpu.Card, kind setup.Sharding, ranks Ranks, micro int, t Trained) float64 {
	bytes := t.Elements * t.Width
	once := bytes * float64(ranks.Count-1) / float64(ranks.Count) / between(c, ranks.Span)
	switch kind {
	case setup.HSDP: // as FSDP2 inside a machine, and the reduced shards are reduced again among machines
		shards := float64(kind.Shards(ranks.Count))
		inside := bytes * (shards - 1) / shards / between(c, int(shards))
		copies := float64(ranks.Count) / shards
		return (3*inside + 2*bytes/shards*(copies-1)/copies/between(c, ranks.Span)) * float64(micro)
	case setup.ZeRO3, setup.FSDP2:
		return 3 * once * float64(micro)
	case setup.ZeRO2:
		return once * float64(micro+1)
	}
	return 2 * once
}

// collectiveStart is what a collective takes however little it sends. Assumed: usual for NCCL within a machine.
const collectiveStart = 20e-6

// AllReduce is the time of one that nothing hides, as in tensor parallelism: a ring sends its bytes twice (n-1)/n times.
func AllReduce(c gpu.Card, ranks Ranks, bytes float64) float64 {
	return collectiveStart + 2*bytes*float64(ranks.Count-1)/float64(ranks.Count)/between(c, ranks.Span)
}

// Reductions counts the all-reduces of a layer cut by tensor parallelism: after attention and after the MLP in forward, before them in backward (Shoeybi et
// al., 2019: Megatron-LM). A checkpointed layer repeats the first: its second run stops at the last tensor that is saved, the MLP's last input.
func Reductions(checkpointed bool) int {
	if checkpointed {
		return 5
	}
	return 4
}

// Send is the time of a transfer from one pipeline stage to the next.
func Send(c gpu.Card, span int, bytes float64) float64 {
	return collectiveStart + bytes/between(c, span)
}

// Pipelined is the time of some micro-batches through stages that take as long as each other: the pipe fills and drains for stages−1 of
// micro+stages−1 turns (Huang et al., 2019: GPipe; Narayanan et al., 2021: one forward one backward has the same bubble).
func Pipelined(stage float64, micro, stages int) float64 { return float64(micro+stages-1) * stage }

// Overlapped is compute with communication behind it: frameworks start collectives while backward still runs. The better of what is possible.
func Overlapped(compute, communication float64) float64 { return max(compute, communication) }

// hostMemory is what a server's memory gives an optimizer that runs there, in bytes a second. Assumed: eight channels of DDR5, half of it reached; the time
// of a fused Adam on the host published with ZeRO-Offload (Ren et al., 2021: about 0.2 s for a billion parameters) agrees.
const hostMemory = 150e9

// HostOptimizer is the time of an optimizer step on the host: gradients come down, parameters go up, state stays. Copies of one parameter
// overlap with the arithmetic of another.
func HostOptimizer(c gpu.Card, t Trained) float64 {
	bytes := t.Elements * t.Width
	return max(2*bytes/(c.Host*linkShare), torch.FusedAccesses*t.Elements*4/hostMemory)
}
