package diagnose

import (
	"math/big"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// vocabulary tells sizes of logits by arithmetic, where no function's name does. An embedding or head has P = V·d numbers, its hidden states E = N·d and the logits
// L = N·V: then L·P / E is V², a square, for no other reason. V is far larger than d only for a vocabulary or as many classes; a layer's width is at most a few times d.
func (c *Case) vocabulary() map[units.Bytes]bool {
	large, hidden := c.stepSizes()
	for _, p := range c.largestParameters(3) {
		for _, l := range large {
			for _, e := range hidden {
				for _, width := range []units.Bytes{2, 4} {
					v := squareRoot(l, p, e, width)
					if v < 4096 || odd(v) < 101 || p%(v*width) != 0 && p%(v*4) != 0 {
						continue
					}
					d, n := max(p/(v*4), 1), l/(v*width)
					if v < 8*d || n*v*width != l || n%v == 0 { // scores of attention are B·H·S·S with S positions: no vocabulary
						continue
					}
					return map[units.Bytes]bool{n * v * 2: true, n * v * 4: true, n * v * 8: true}
				}
			}
		}
	}
	return nil
}

// odd is what is left of a number without its factors of two. Sizes of tensors are full of those, and squares among them mean nothing.
func odd(n units.Bytes) units.Bytes {
	for n > 0 && n%2 == 0 {
		n /= 2
	}
	return n
}

// squareRoot is the root of l·p/(e·width) where that is a whole square, else 0.
func squareRoot(l, p, e, width units.Bytes) units.Bytes {
	product := new(big.Int).Mul(big.NewInt(int64(l)), big.NewInt(int64(p)))
	quotient, rest := new(big.Int).QuoRem(product, new(big.Int).Mul(big.NewInt(int64(e)), big.NewInt(int64(width))), new(big.Int))
	if rest.Sign() != 0 || quotient.Sign() <= 0 {
		return 0
	}
	root := new(big.Int).Sqrt(quotient)
	if !root.IsInt64() || new(big.Int).Mul(root, root).Cmp(quotient) != 0 {
		return 0
	}
	return units.Bytes(root.Int64())
}

// stepSizes lists the sizes of this step's tensors: those of a twentieth of the limit or more, and all others, as hidden states may be.
func (c *Case) stepSizes() (large, hidden []units.Bytes) {
	const most = 48
	seen := map[units.Bytes]bool{}
	from := c.stepBegin()
	add := func(size units.Bytes) {
		if seen[size] || len(seen) >= most || size < units.KiB {
			return
		}
		seen[size] = true
		if 20*size >= c.OOM.Limit.Bytes {
			large = append(large, size)
		}
		hidden = append(hidden, size)
	}
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		if int(c.Born[id]) > from && int(c.Born[id]) <= c.OOM.Event && c.Category[id] == tape.Activations {
			add(c.Size(id))
		}
	}
	add(c.OOM.Request)
	return large, hidden
}

// largestParameters lists the largest sizes of parameters, each once.
func (c *Case) largestParameters(n int) []units.Bytes {
	var sizes []units.Bytes
	for id := range c.Died {
		if c.Category[id] == tape.Parameters && c.Alive(id, c.Instant) && c.Size(id) >= units.MiB && !slices.Contains(sizes, c.Size(id)) {
			sizes = append(sizes, c.Size(id))
		}
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	return sizes[:min(n, len(sizes))]
}
