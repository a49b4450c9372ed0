package lengths

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/plimsoll/plimsoll/internal/spelling"
)

// Sampler is how samples become batches.
type Sampler string

// Samplers.
const (
	Random     Sampler = "random"     // shuffled for every epoch
	Sequential Sampler = "sequential" // as they come
	Grouped    Sampler = "grouped"    // of similar length: LengthGroupedSampler of transformers (group_by_length)
	Packed     Sampler = "packed"     // joined into rows of one length
	Tokens     Sampler = "tokens"     // as many of similar length as a number of tokens allows
)

// Samplers lists the words.
func Samplers() []Sampler { return []Sampler{Random, Sequential, Grouped, Packed, Tokens} }

// ParseSampler reads a word.
func ParseSampler(word string) (Sampler, error) {
	var words []string
	for _, s := range Samplers() {
		if words = append(words, string(s)); string(s) == word {
			return s, nil
		}
	}
	return "", fmt.Errorf("sampler %.40q is not known%s", word, spelling.Hint(word, words))
}

// Shuffles tells whether the order depends on a seed.
func (s Sampler) Shuffles() bool { return s != Sequential }

// Batching says how batches are made.
type Batching struct {
	Sampler Sampler
	Batch   int    // samples of a batch; Tokens: at most, 0 for any number
	Row     int    // Packed: tokens of a row
	Tokens  int    // Tokens: most padded tokens in a batch
	Drop    bool   // the last batch of an epoch is left out where it is short
	Seed    uint64 // of shuffles
}

// Check refuses what makes no batches.
func (b Batching) Check() error {
	switch {
	case b.Sampler == Packed && b.Row < 1:
		return fmt.Errorf("packed rows need a length: set --seq")
	case b.Sampler == Tokens && b.Tokens < 1:
		return fmt.Errorf("--sampler tokens needs --max-tokens")
	case b.Sampler != Tokens && b.Batch < 1:
		return fmt.Errorf("batch is missing: set --batch")
	}
	return nil
}

// Batch is what a batch is padded from.
type Batch struct {
	Samples int
	Longest int
	At      int  // which sample is the longest: its place in the list of lengths
	Padded  bool // some sample is shorter
}

// Epoch makes the batches of one pass over the samples, the epoch counted from 0.
func (b Batching) Epoch(all []int, epoch int) []Batch {
	r := rand.New(rand.NewPCG(b.Seed, uint64(epoch)))
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	if b.Sampler.Shuffles() {
		r.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	}
	switch b.Sampler {
	case Packed:
		return b.rows(all)
	case Tokens:
		return b.byTokens(all, order, r)
	case Grouped:
		b.group(all, order)
	}
	var out []Batch
	for part := range slices.Chunk(order, b.Batch) {
		if b.Drop && len(part) < b.Batch {
			break
		}
		out = append(out, batchOf(all, part))
	}
	return out
}

// rows joins all samples and cuts them into rows of one length: nothing is padded, and what is left over is dropped.
func (b Batching) rows(all []int) []Batch {
	total := 0
	for _, n := range all {
		total += n
	}
	rows := total / b.Row
	var out []Batch
	for ; rows >= b.Batch; rows -= b.Batch {
		out = append(out, Batch{Samples: b.Batch, Longest: b.Row})
	}
	if rows > 0 && !b.Drop {
		out = append(out, Batch{Samples: rows, Longest: b.Row})
	}
	return out
}

// group sorts within mega-batches of fifty batches, the longest first, and lets the longest sample of all come first
// (https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/trainer_pt_utils.py, get_length_grouped_indices).
func (b Batching) group(all, order []int) {
	factor := min(len(all)/(4*b.Batch), 50)
	mega := max(factor, 1) * b.Batch
	longest, where := 0, 0
	start := 0
	for part := range slices.Chunk(order, mega) {
		slices.SortStableFunc(part, func(x, y int) int { return cmp.Compare(all[y], all[x]) })
		if all[part[0]] > longest {
			longest, where = all[part[0]], start
		}
		start += len(part)
	}
	if len(order) > 0 {
		order[0], order[where] = order[where], order[0]
	}
}

// byTokens puts samples of similar length together, as many as the padded tokens allow, and shuffles the batches.
func (b Batching) byTokens(all, order []int, r *rand.Rand) []Batch {
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(all[x], all[y]) })
	var out []Batch
	for start := 0; start < len(order); {
		end := start + 1
		for end < len(order) && (end-start+1)*all[order[end]] <= b.Tokens && (b.Batch == 0 || end-start < b.Batch) {
			end++
		}
		out = append(out, batchOf(all, order[start:end]))
		start = end
	}
	r.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out
}

func batchOf(all, part []int) Batch {
	out := Batch{Samples: len(part), At: part[0], Longest: all[part[0]]}
	for _, i := range part {
		if all[i] > out.Longest {
			out.Longest, out.At = all[i], i
		}
		out.Padded = out.Padded || all[i] != all[part[0]]
	}
	return out
}
