package cudnn

// A formula is one way to compute a workspace: copies of operands in the layout the kernel wants, and partial sums. Which formula
// a call follows is what the forest of a Table decides; the arithmetic here is exact to the few hundred bytes of counters and alignment.

// copies are operands a workspace holds, one bit each.
type copies uint8

const (
	copyX copies = 1 << iota
	copyY
	copyW
)

// padding is how the channels of copies are rounded up.
type padding uint8

const (
	asIs     padding = iota
	both             // input and output channels to 16 bytes
	inputs           // input channels only
	byGroups         // the channels of every group to a power of two: grouped kernels work on tiles of them
	paddings
)

// tiles are the output tiles of cuDNN's matrix kernels, rows × columns.
var tiles = [...][2]int64{
	{64, 64}, {64, 128}, {128, 64}, {128, 128}, {128, 256}, {256, 128}, {64, 256}, {256, 64}, {256, 256},
	{32, 32}, {32, 64}, {64, 32}, {32, 128}, {128, 32}, {32, 256}, {256, 32}, {192, 128}, {128, 192}, {96, 128}, {128, 96},
}

// constants are sums of partial tiles that follow from no count we know, in KiB.
var constants = [...]int64{
	512, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 5632, 6144, 6656, 7168, 7680, 8192, 8448, 9216, 10240, 12288, 14336, 16384, 16896,
}

// Kinds of partial sums, in the order of part numbers. Those of a tile come once per tile.
const (
	ffts          = 5
	partNone      = 0
	partPerImage  = 1 // a 1×1 weight gradient: one fp32 weight per image
	partFFT       = 2 // planes transformed to 16, 32, 64, 128 or 256 points a side (fft)
	partTiledFFT  = partFFT + ffts
	partWinograd  = partTiledFFT + 1
	partWeights   = partWinograd + 1 // 1 to 64 fp32 weights
	mostWeights   = 64
	partConstant  = partWeights + mostWeights
	partTile      = partConstant + len(constants)
	tileStream    = 0 // the tiles of the last wave, each split over the multiprocessors left (stream-K)
	tileStreamOne = 1 // stream-K that keeps one share in registers
	tileHalf      = 2 // stream-K with sums in 16 bits
	tileShort     = 3 // stream-K, each share at least 448 products long
	tileSplit     = 4 // as many weights as all tiles fit into one wave
	tileSplit2    = 5 // into two
	tileSplit4    = 6
	tileLess      = 7 // as tileSplit, less one: the first share is summed in place
	tileLess2     = 8
	tileKinds     = 9
	counts        = 2 // of tiles over the whole matrix, and of tiles that do not reach over taps of the kernel
	parts         = partTile + counts*tileKinds*len(tiles)
	bases         = int(paddings) * 8
	formulas      = bases * parts
)

// terms are the numbers of one pass that formulas are made of.
type terms struct {
	x, y, w  [paddings]int64
	weight   int64 // the weight in fp32, channels padded
	image    int64 // the weights of all images in fp32
	fft      [ffts]int64
	tiledFFT int64
	winograd int64
	count    [counts][len(tiles)]int64
	long     int64 // products one output sums
	sms      int64
}

func ceil(a, b int64) int64    { return (a + b - 1) / b }
func roundUp(a, b int64) int64 { return ceil(a, b) * b }

// powerOfTwo is the least one that is not below n and least.
func powerOfTwo(n, least int64) int64 {
	for least < n {
		least *= 2
	}
	return least
}

func newTerms(c Conv, p Pass, sms int) terms {
	width, groups := int64(c.Width), int64(c.Groups)
	n, ch, k, cg, kg := int64(c.N), int64(c.C), int64(c.K), int64(c.channels()), int64(c.K/c.Groups)
	taps, pixels, out := int64(c.R)*int64(c.S), int64(c.H)*int64(c.W), int64(c.P)*int64(c.Q)
	to := 16 / min(width, 16)
	cp, kp, cgp := roundUp(ch, to), roundUp(k, to), cg
	if groups == 1 {
		cgp = roundUp(cg, to)
	}
	c2, k2 := powerOfTwo(cg, to), powerOfTwo(kg, to)
	t := terms{weight: k * cgp * taps * 4, image: n * k * cg * taps * 4, sms: int64(max(sms, 1))}
	t.x = [paddings]int64{n * ch * pixels * width, n * cp * pixels * width, n * cp * pixels * width, n * groups * c2 * pixels * width}
	t.y = [paddings]int64{n * k * out * width, n * kp * out * width, n * k * out * width, n * groups * k2 * out * width}
	t.w = [paddings]int64{k * cg * taps * width, kp * cgp * taps * width, k * cgp * taps * width, groups * k2 * c2 * taps * width}
	t.transforms(c, p)
	rows, cols := matrix(c, p)
	switch p {
	case Forward:
		t.long = cg * taps
	case InputGrad:
		t.long = k * taps
	default:
		t.long = n * out
	}
	for i, s := range tiles {
		t.count[0][i] = max(1, groups*ceil(rows, s[0])*ceil(cols, s[1]))
		t.count[1][i] = max(1, groups*taps*ceil(kg, s[0])*ceil(cg, s[1]))
	}
	return t
}

// transforms are the workspaces of kernels that work on transformed planes of fp32. Read off an H200, to the byte: by FFT with F points a side a plane or
// a filter is F·(F/2+1) complex numbers, twice. A forward pass holds those of input and filters, or of the output where they are more, and a copy of the weight ([6,256,56,56] by 256
// filters of 3×3: 2,268,856,320 bytes with F = 64; [256,16,1,1] by 384: 226,516,992 with F = 16), a weight gradient those of input and output, or of the filters where
// they are more, and a copy of the output's gradient ([96,480,24,24] by 40: 443,351,040 with F = 32). By Winograd every 4×4 outputs
// are 6×6 numbers in each plane, and so is every filter ([32,1024,24,24] by 32: 179,896,320).
func (t *terms) transforms(c Conv, p Pass) {
	ins, outs, filters := c.planes()
	for i := range t.fft {
		points := fftPlane(16 << i)
		switch p {
		case Forward:
			t.fft[i] = points*max(ins+filters, outs) + t.w[asIs]
		case InputGrad:
			t.fft[i] = points*max(outs+filters, ins) + t.w[asIs]
		default:
			t.fft[i] = points*max(ins+outs, filters) + t.y[asIs]
		}
	}
	t.tiledFFT = tiledFFT(c)
	t.winograd = 4 * 36 * ((ins+outs)*ceil(int64(c.P), 4)*ceil(int64(c.Q), 4) + filters)
}

// tiledFFT is the workspace of an input gradient by FFT in tiles of 32 points a side, where every filter takes one plane of complex numbers and every plane of input and output
// one, or two where it does not fit into one tile. Kernels with strides work on as many smaller images and filters. Read off an H200 to the byte: [192,144,192,192] by 32 filters of 3×3: 314,179,584.
func tiledFFT(c Conv) int64 {
	ins, outs, filters := c.planes()
	stride := max(1, c.Stride)
	tiles := int64(1)
	if side := max(ceil(int64(c.H), int64(stride)), ceil(int64(c.W), int64(stride))); side+ceil(int64(max(c.R, c.S)), int64(stride))-1 > 32 {
		tiles = 2
	}
	phases := int64(stride) * int64(stride)
	return fftPlane(32) / 2 * (phases*filters + tiles*(phases*ins+outs))
}

// matrix is the size of the output matrix of a pass, for one group.
func matrix(c Conv, p Pass) (rows, cols int64) {
	groups, cg := int64(c.Groups), int64(c.channels())
	switch p {
	case Forward:
		return int64(c.N) * int64(c.P) * int64(c.Q), int64(c.K) / groups
	case InputGrad:
		return int64(c.N) * int64(c.H) * int64(c.W), cg
	}
	return int64(c.K) / groups, cg * int64(c.R) * int64(c.S)
}

// value is the workspace by a formula.
func (t *terms) value(formula int) int64 { return t.base(formula/parts) + t.part(formula%parts) }

func (t *terms) base(b int) int64 {
	pad, held := b/8, copies(b%8)
	var v int64
	if held&copyX != 0 {
		v += t.x[pad]
	}
	if held&copyY != 0 {
		v += t.y[pad]
	}
	if held&copyW != 0 {
		v += t.w[pad]
	}
	return v
}

func (t *terms) part(p int) int64 {
	switch {
	case p == partNone:
		return 0
	case p == partPerImage:
		return t.image
	case p < partTiledFFT:
		return t.fft[p-partFFT]
	case p == partTiledFFT:
		return t.tiledFFT
	case p == partWinograd:
		return t.winograd
	case p < partConstant:
		return int64(p-partWeights+1) * t.weight
	case p < partTile:
		return constants[p-partConstant] << 10
	}
	p -= partTile
	return t.tiled(p/tileKinds%len(tiles), p/tileKinds/len(tiles), p%tileKinds)
}

// tiled are the partial sums of kernels with one tile.
func (t *terms) tiled(tile, counted, kind int) int64 {
	count, size := t.count[counted][tile], tiles[tile][0]*tiles[tile][1]*4
	tail := count
	if count > t.sms {
		if tail = count % t.sms; tail == 0 {
			tail = t.sms
		}
	}
	split := t.sms / tail
	switch kind {
	case tileStream:
		return split * tail * size
	case tileStreamOne:
		return (split - 1) * tail * size
	case tileHalf:
		return split * tail * size / 2
	case tileSplit:
		return t.sms / count * t.weight
	case tileSplit2:
		return 2 * t.sms / count * t.weight
	case tileSplit4:
		return 4 * t.sms / count * t.weight
	case tileLess:
		return max(0, t.sms/count-1) * t.weight
	case tileLess2:
		return max(0, 2*t.sms/count-1) * t.weight
	}
	if split = min(split, ceil(t.long, 448)); split > 1 {
		return split * tail * size
	}
	return 0
}
