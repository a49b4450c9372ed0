package eager

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// heads makes queries, keys and values of [batch, seq, heads, 64] in bf16 that need gradients.
func heads(p *Process, batch, seq, queries, keys int) (q, k, v *Tensor) {
	make := func(n int) *Tensor {
		t := p.emptyOf(tensor.BFloat16, batch, seq, n, 64).Retain()
		t.RequireGrad()
		return t
	}
	return make(queries), make(keys), make(keys)
}

func TestFlashAttentionKeepsItsResultAndANumberForEachRow(t *testing.T) {
	t.Parallel()
	p := bare()
	q, k, v := heads(p, 4, 512, 8, 2)
	before := live(p.Tape())
	out := FlashAttention(q, k, v, Flash{Causal: true}).Retain()
	rows := units.Bytes(4 * 8 * 512)
	if got, want := live(p.Tape())-before, out.Bytes()+4*rows+16; got != want {
		t.Errorf("%d bytes are kept, want %d: the result, a log-sum-exp for each row and head, the random state", got, want)
	}
}

func TestFlashAttentionSumsGradientsOfQueriesInFP32(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys int
		want units.Bytes // beside gradients
	}{
		"as many keys": {8, 4 * 4 * 8 * 512 * (64 + 1)},
		"grouped keys": {2, 4*4*8*512*(64+1) + 2*2*4*8*512*64},
	} {
		p := bare()
		q, k, v := heads(p, 4, 512, 8, c.keys)
		out := FlashAttention(q, k, v, Flash{})
		before := live(p.Tape())
		p.Backward(out.Sum(false))
		grads := q.Bytes() + k.Bytes() + v.Bytes()
		if got, want := highest(p.Tape())-before, grads+c.want; got < want || got > want+out.Bytes()+4096 {
			t.Errorf("%s: backward takes %d bytes at most, want %d and at most the gradient of the result more", name, got, want)
		}
	}
}

func TestFewRowsAreDividedAmongMultiprocessors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ blocks, slots, columns, want int }{
		{300, 264, 8, 1}, // enough rows
		{128, 264, 8, 2}, // two parts fill 97 % of the card
		{24, 264, 1, 1},  // keys of one block
		{4, 264, 64, 64}, // decoding: every block of keys by itself
	} {
		if got := keySplits(c.blocks, c.slots, c.columns); got != c.want {
			t.Errorf("%d blocks of rows on %d slots, %d blocks of keys: %d parts, want %d", c.blocks, c.slots, c.columns, got, c.want)
		}
	}
}
