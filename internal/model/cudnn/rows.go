package cudnn

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Row is one measured convolution, as scripts/gpu/workspaces.py writes them.
type Row struct {
	In         []int    `json:"in"`
	Weight     []int    `json:"w"`
	Stride     []int    `json:"s"`
	Padding    []int    `json:"p"`
	Dilation   int      `json:"d"`
	Groups     int      `json:"g"`
	Transposed bool     `json:"t"`
	DType      string   `json:"dtype"`
	Last       bool     `json:"cl"`
	Bytes      Measured `json:"m"`
}

// Measured is the workspace of each pass of a row.
type Measured struct {
	Out        []int       `json:"out"`
	Forward    units.Bytes `json:"fwd"`
	InputGrad  units.Bytes `json:"dgrad"`
	WeightGrad units.Bytes `json:"wgrad"`
}

// Of is the workspace of one pass.
func (m Measured) Of(p Pass) units.Bytes {
	return [passes]units.Bytes{m.Forward, m.InputGrad, m.WeightGrad}[p]
}

// Passes are the kernels a row measured.
func Passes() []Pass { return []Pass{Forward, InputGrad, WeightGrad} }

// Conv is the row's convolution; false where the row is not one of two dimensions.
func (r Row) Conv() (Conv, bool) {
	x, w, y := r.In, r.Weight, r.Bytes.Out
	if len(x) != 4 || len(w) != 4 || len(y) != 4 || len(r.Stride) == 0 || len(r.Padding) == 0 {
		return Conv{}, false
	}
	if r.Transposed {
		x, y = y, x
	}
	c := Conv{
		N: x[0], C: x[1], H: x[2], W: x[3], K: y[1], P: y[2], Q: y[3], R: w[2], S: w[3],
		Stride: r.Stride[0], Pad: r.Padding[0], Dilation: r.Dilation, Groups: r.Groups, Width: 2,
		BF16: r.DType == "bf16", Last: r.Last, Transposed: r.Transposed,
	}
	if r.DType == "fp32" {
		c.Width = 4
	}
	return c, c.valid()
}

// Aside tells whether a row belongs to the fifth that no table is grown from. Rows that differ only in batch, data type
// or memory format stay together, so that no near copy of a row kept aside is learned.
func (r Row) Aside() bool {
	h := fnv.New32a()
	fmt.Fprint(h, r.In[1:], r.Weight, r.Stride, r.Padding, r.Dilation, r.Groups, r.Transposed)
	return h.Sum32()%5 == 0
}

// ReadRows reads one row per line.
func ReadRows(from io.Reader) ([]Row, error) {
	var rows []Row
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		rows = append(rows, r)
	}
	return rows, lines.Err()
}
