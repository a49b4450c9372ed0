package cudnn

import "math/bits"

// features are the numbers a forest asks about. Their order is part of the format of a table.
const featureCount = 76

// twos is the largest power of two that divides n, at most 64: what alignment kernels can count on.
func twos(n int) int64 {
	if n == 0 {
		return 64
	}
	return min(64, int64(n&-n))
}

// ratio is a/b in steps of an eighth of a doubling, so that a threshold means the same at every size.
func ratio(a, b int64) int64 { return eighths(a) - eighths(b) }

func eighths(n int64) int64 {
	if n < 1 {
		return 0
	}
	whole := bits.Len64(uint64(n)) - 1
	return int64(whole)*8 + (n<<3>>whole - 8)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func features(c Conv, p Pass, t *terms) [featureCount]int64 {
	rows, cols := matrix(c, p)
	n, hw, pq := int64(c.N), int64(c.H)*int64(c.W), int64(c.P)*int64(c.Q)
	taps, k, cg := int64(c.R)*int64(c.S), int64(c.K/c.Groups), int64(c.channels())
	perTap := int64(0)
	if p == WeightGrad {
		perTap = int64(c.Groups) * taps * ceil(k, 128) * ceil(cg, 128)
	}
	work, moved := eighths(int64(c.K))+eighths(cg*taps)+eighths(n*pq), eighths(t.x[asIs]+t.y[asIs]+t.w[asIs])
	return [featureCount]int64{
		int64(c.Width), flag(c.BF16), flag(c.Last), flag(c.Transposed), n, int64(c.C), int64(c.H), int64(c.W),
		int64(c.K), cg, k, int64(c.R), int64(c.S), int64(c.P), int64(c.Q), int64(c.Groups),
		int64(c.Dilation), int64(c.Stride), int64(c.Pad), twos(c.C), twos(c.K), twos(c.H * c.W), twos(c.P * c.Q), twos(c.Q),
		twos(c.W), n * pq, n * hw, cg * taps, hw, pq, t.x[asIs], t.y[asIs],
		t.w[asIs], work, flag(c.H == c.P && c.W == c.Q), t.count[0][3], t.count[0][5], t.long, ratio(t.x[asIs], t.y[asIs]), ratio(t.x[asIs], t.w[asIs]),
		ratio(t.y[asIs], t.w[asIs]), k * taps, int64(c.Stride - c.R), t.count[0][3] % t.sms, perTap, t.count[0][0], min(int64(c.C), int64(c.K)), eighths(rows) + eighths(cols),
		t.count[1][0], t.count[1][3], t.count[0][14], t.sms / t.count[0][3], t.long * t.count[0][3] / t.sms, int64(max(c.P, c.Q) + max(c.R, c.S) - 1), twos(c.N * c.P * c.Q), taps,
		int64(c.N) * int64(c.C+c.K), ratio(t.long, rows*cols), moved, work - moved, t.count[1][5], t.sms / t.count[1][3], t.long * t.count[1][3] / t.sms, twos(c.channels() * c.R * c.S),
		int64(2*c.Pad - (c.R-1)*c.Dilation), t.long * t.count[0][5] / t.sms, t.count[0][5] % t.sms, t.count[0][0] % t.sms, t.count[1][3] % t.sms, ratio(rows, cols), t.sms / t.count[0][0], cols, rows, twos(c.N),
		int64(c.Depth), int64(c.KernelDepth),
	}
}
