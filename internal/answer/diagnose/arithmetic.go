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

// parameterSizes lists the sizes of the parameters alive, in the order they were put on the card.
func (c *Case) parameterSizes() []units.Bytes {
	var sizes []units.Bytes
	for id := range c.Died {
		if c.Category[id] == tape.Parameters && c.Alive(id, c.Instant) {
			sizes = append(sizes, c.Size(id))
		}
	}
	return sizes
}

// elementSize tells how many bytes a number of the model takes, by arithmetic: a layer with weights W = in·out·w and biases b = out·w that follows one with biases
// a = in·w has a·b/W = w. Blocks are recorded in multiples of 512 bytes, so only biases that are one count. 0: fewer than two layers say so, or others contradict.
func elementSize(sizes []units.Bytes) units.Bytes {
	votes := map[units.Bytes]int{}
	var before units.Bytes
	for i := 0; i+1 < len(sizes); i++ {
		w, b := sizes[i], sizes[i+1]
		if b < units.KiB || w < 2*b || w%b != 0 { // not weights with their biases
			continue
		}
		if before > 0 && w >= 64*units.KiB && before*b%w == 0 {
			votes[before*b/w]++
		}
		before = b
	}
	for _, w := range []units.Bytes{2, 4, 8} {
		if n := votes[w]; n >= 2 && n > votes[2]+votes[4]+votes[8]-n {
			return w
		}
	}
	return 0
}

// widths are the numbers of features C that square parameters of the model suggest: C·C, 3·C·C (queries, keys and values in one) or 4·C·C (a feed-forward layer).
func widths(sizes []units.Bytes) map[units.Bytes]bool {
	votes := map[units.Bytes]int{}
	for _, p := range sizes {
		for _, times := range []units.Bytes{1, 3, 4} {
			for _, width := range []units.Bytes{2, 4} {
				if root := units.Bytes(math.Sqrt(float64(p / (times * width)))); root >= 64 && root*root*times*width == p {
					votes[root]++
				}
			}
		}
	}
	out := map[units.Bytes]bool{}
	for w, n := range votes {
		if n >= 2 {
			out[w] = true
		}
	}
	return out
}

// scoreSizes finds sizes that only scores of attention have, where no function's name tells: with N = B·T tokens of C features the hidden states are E = N·C and the
// scores S = B·H·T·T = N·H·T. No parameter has a side of H·T, as it would for the output of a layer; H divides C into heads of 16 to 256 features, and T divides N.
func (c *Case) scoreSizes() map[units.Bytes]bool {
	parameters := c.parameterSizes()
	features := widths(parameters)
	if len(features) == 0 {
		return nil
	}
	large, _ := c.stepSizes()
	e := c.hiddenStates()
	distinct := distinctSizes(parameters)
	out := map[units.Bytes]bool{}
	for _, s := range large {
		if e == 0 || s < 2*e || ratioOfLayers(s, e, distinct) {
			continue
		}
		for width := range features {
			if areScores(s, e, width, parameters) {
				out[s], out[s/4] = true, true // and the mask of a dropout, one byte each
			}
		}
	}
	return out
}

// hiddenStates is the size that most of this step's tensors of 64 KiB and more have: norms, queries, keys, values and sums all have that of the hidden states.
func (c *Case) hiddenStates() units.Bytes {
	count := map[units.Bytes]int{}
	from, best := c.stepBegin(), units.Bytes(0)
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		size := c.Size(id)
		if int(c.Born[id]) <= from || int(c.Born[id]) > c.OOM.Event || c.Category[id] != tape.Activations || size < 64*units.KiB {
			continue
		}
		if count[size]++; count[size] > count[best] || count[size] == count[best] && size > best {
			best = size
		}
	}
	return best
}

// areScores tells whether a size is that of scores, given hidden states of a size and their number of features.
func areScores(s, e, features units.Bytes, parameters []units.Bytes) bool {
	for _, element := range []units.Bytes{4, 2} {
		if e%(features*element) != 0 || s%element != 0 {
			continue
		}
		tokens := e / (features * element)
		if tokens < 128 || s/element%tokens != 0 {
			continue
		}
		side := s / element / tokens // H·T
		if side < 2*features || sideOf(side, features, parameters) {
			continue
		}
		for heads := units.Bytes(1); heads <= 64; heads++ {
			if side%heads != 0 || features%heads != 0 || features/heads < 16 || features/heads > 256 {
				continue
			}
			if t := side / heads; t >= 128 && tokens%t == 0 {
				return true
			}
		}
	}
	return false
}

// sideOf tells whether some parameter has a side of this length beside the features: then a layer makes tensors of that width.
func sideOf(side, features units.Bytes, parameters []units.Bytes) bool {
	for _, p := range parameters {
		if p == side*features*4 || p == side*features*2 || p == side*4 {
			return true
		}
	}
	return false
}

// ratioOfLayers tells whether two tensors stand to each other as two parameters do: then they are the input and output of layers of those widths, in one
// precision or two. No layer but the one that makes logits, which its parameter gives away, is 32 times as wide as the one before.
func ratioOfLayers(s, e units.Bytes, parameters []units.Bytes) bool {
	if s >= 32*e {
		return false
	}
	for _, p := range parameters {
		for _, q := range parameters {
			if a, b := s*q, e*p; a == b || a == 2*b || 2*a == b {
				return true
			}
		}
	}
	return false
}

// distinctSizes lists each size once, as many as can matter.
func distinctSizes(sizes []units.Bytes) []units.Bytes {
	out := slices.Clone(sizes)
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), 64)]
}

// halvable is the finding that numbers take eight bytes.
func halvable(c *Case, evidence string, confidence float64) claim {
	half := (c.By[tape.Parameters] + c.By[tape.Gradients] + c.By[tape.Optimizer] + c.By[tape.Activations] + c.By[tape.Inputs]) / 2
	undo := c.halved()
	return claim{without: undo, tries: []change{undo}, Finding: report.Finding{
		ID: "precision-too-high", Severity: c.severity(report.Warning), Confidence: confidence, Bytes: half, Where: c.precisionPlaces(),
		Title:    "the model runs in float64: twice the memory, and far slower",
		Evidence: []string{evidence, "NumPy arrays are float64 by default, and torch.from_numpy(), .double() and torch.set_default_dtype(torch.float64) keep that"},
		Remedies: []report.Remedy{{Action: "model.float() and x.float() (torch.set_default_dtype(torch.float32))", Saves: half, CheckedBy: report.ByArithmetic, Numerics: true}},
	}}
}

// precision: the gradient backward() starts from has the loss's element size; eight bytes are float64. Before the first backward the sizes of layers tell.
func precision(c *Case) (claim, bool) {
	for id := range c.Died {
		if o := c.Origins.Of(c.Stack[id]); o.Root {
			if c.Size(id) != 8 {
				continue
			}
			return halvable(c, "backward() starts from a gradient of 8 bytes, so the loss is float64", 0.92), true
		}
	}
	if c.By[tape.Gradients] == 0 && elementSize(c.parameterSizes()) == 8 {
		return halvable(c, "the sizes of the weights and biases fit 8-byte numbers only", 0.85), true
	}
	return claim{}, false
}

// outsideCheckpoints: checkpointing is on, but most of what the forward pass keeps is made outside the checkpointed calls.
func outsideCheckpoints(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Eval || c.OOM.Phase != callsite.Forward && c.OOM.Phase != callsite.Backward {
		return claim{}, false
	}
	var sum units.Bytes
	var outside, within []snapshot.StackID
	layers := 0
	for _, g := range c.forwardGroups() {
		switch {
		case c.passes(g.Stack, checkpointFile):
			within = append(within, g.Stack)
		case g.Count >= 2:
			sum += g.Bytes
			outside = append(outside, g.Stack)
			layers = max(layers, g.Count)
		}
	}
	if len(within) == 0 || len(outside) < 2 || layers < 3 || 2*sum < c.InUse {
		return claim{}, false
	}
	f := claim{kind: normal, without: change{saves: sum / 2}, Finding: report.Finding{
		ID: "checkpointing-ineffective", Severity: report.Error, Confidence: 0.82, Bytes: sum, Where: append(c.checkpointCalls(within), c.places(outside...)...),
		Title: fmt.Sprintf("checkpointing is on, but %s of activations come from outside the checkpointed calls", sum),
		Evidence: []string{
			fmt.Sprintf("%s from %s lines outside checkpoint() stay for backward, for up to %d layers; what runs under checkpoint() is the smaller part", sum, units.Count(len(outside)), layers),
			"checkpointing frees only what the checkpointed function computes, so wrap the whole layer",
		},
	}}
	f.remedy(saving(sum-sum/units.Bytes(max(2, layers)), "checkpoint each whole layer: x = checkpoint(layer, x, use_reentrant=False), not a part of it"), change{saves: sum - sum/units.Bytes(max(2, layers))})
	return f, true
}

// checkpointCalls are the lines that call checkpoint(): of each stack the first of the user's above it.
func (c *Case) checkpointCalls(stacks []snapshot.StackID) []report.Place {
	for _, s := range stacks {
		if at := c.checkpointCall(s); len(at) > 0 {
			return at
		}
	}
	return nil
}
