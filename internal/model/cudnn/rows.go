package cudnn

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Row is one measured convolution, as scripts/gpu/workspaces.py writes them.
type Row struct {
	Source     string   `json:"src"` // where its layer comes from
	Input      []int    `json:"in"`
	Weight     []int    `json:"w"`
	Stride     []int    `json:"s"`
	Padding    []int    `json:"p"`
	Dilation   int      `json:"d"`
	Groups     int      `json:"g"`
	Transposed bool     `json:"t"`
	DType      string   `json:"dtype"`
	Last       bool     `json:"cl"`
	Bytes      Measured `json:"m"`
	First      Measured `json:"first"` // in benchmark mode: the call that tries all plans
	Later      Measured `json:"later"` // and those after it
}

// In is what was measured in a mode; false where nothing was.
func (r Row) In(m Mode) (Measured, bool) {
	found := [modes]Measured{r.Bytes, r.First, r.Later}[m]
	return found, len(found.Out) > 0
}

// out is the shape of the output, whichever mode was measured.
func (r Row) out() []int {
	for m := range modes {
		if found, ok := r.In(m); ok {
			return found.Out
		}
	}
	return nil
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

// Conv is the row's convolution, of two or three dimensions; false where the row is none.
func (r Row) Conv() (Conv, bool) {
	x, w, y := r.Input, r.Weight, r.out()
	if n := len(x); n < 4 || n > 5 || len(w) != n || len(y) != n || len(r.Stride) != n-2 || len(r.Padding) != n-2 {
		return Conv{}, false
	}
	if r.Transposed {
		x, y = y, x
	}
	last := len(r.Stride) - 1
	c := Conv{
		Stride: r.Stride[last], Pad: r.Padding[last], Dilation: r.Dilation, Groups: r.Groups, Width: 2,
		BF16: r.DType == "bf16", Last: r.Last, Transposed: r.Transposed,
	}.Sized(x, y, w[2:])
	if r.DType == "fp32" {
		c.Width = 4
	}
	return c, c.valid()
}

// Layer names the row's layer: rows with the same name differ only in batch, data type or memory format.
func (r Row) Layer() string {
	return fmt.Sprint(r.Input[1:], r.Weight, r.Stride, r.Padding, r.Dilation, r.Groups, r.Transposed)
}

// Name names the row itself.
func (r Row) Name() string { return fmt.Sprint(r.Input[0], r.DType, r.Last, r.Layer()) }

// Aside tells whether a row belongs to the fifth that no table is grown from. Rows that differ only in batch, data type
// or memory format stay together, so that no near copy of a row kept aside is learned.
func (r Row) Aside() bool {
	h := fnv.New32a()
	io.WriteString(h, r.Layer())
	return h.Sum32()%5 == 0
}

// Card is the first line of a file of rows: what they were measured on. Files without one are of an H200 with cuDNN 9.19.
type Card struct {
	Name         string      `json:"card"`
	Capability   [2]int      `json:"capability"`
	SMs          int         `json:"sms"`
	Torch        string      `json:"torch"`
	CuDNN        int         `json:"cudnn"`
	DropoutState units.Bytes `json:"dropout_state"`
}

// ReadRows reads the convolutions of a file of rows, one per line, and the card they were measured on. Rows of other kinds are passed over.
func ReadRows(from io.Reader) (Card, []Row, error) {
	card := Card{Name: "NVIDIA H200", Capability: [2]int{9, 0}, SMs: 132, CuDNN: 91900}
	var rows []Row
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r Row
		var err error
		switch line := lines.Bytes(); {
		case bytes.Contains(line, []byte(`"capability":`)):
			err = json.Unmarshal(line, &card)
		case bytes.Contains(line, []byte(`"w":`)):
			if err = json.Unmarshal(line, &r); err == nil && len(r.Input) > 3 {
				rows = append(rows, r)
			}
		}
		if err != nil {
			return card, nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return card, rows, lines.Err()
}
