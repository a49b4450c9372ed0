package hfconfig

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/plimsoll/plimsoll/internal/units"
)

// ErrNotSafetensors is in the chain of the error for a file that is no safetensors file.
var ErrNotSafetensors = errors.New("not a safetensors file")

// maxHeader is the limit the format sets itself (safetensors 0.4: MAX_HEADER_SIZE).
const maxHeader = 100_000_000

// Header says what a safetensors file holds.
type Header struct {
	Tensors []Tensor
}

// Tensor is one entry of a safetensors header.
type Tensor struct {
	Name  string
	DType string // as written: "F32", "BF16"
	Shape []int64
	Bytes units.Bytes
}

// Parameters counts the elements of all tensors.
func (h Header) Parameters() int64 {
	var n int64
	for _, t := range h.Tensors {
		n += t.elements()
	}
	return n
}

// Bytes is the size of all tensors together.
func (h Header) Bytes() units.Bytes {
	var n units.Bytes
	for _, t := range h.Tensors {
		n += t.Bytes
	}
	return n
}

func (t Tensor) elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// ReadHeader reads the header of a safetensors file: eight bytes of length, then JSON. The tensors' data is not read.
func ReadHeader(r io.Reader) (Header, error) {
	var size uint64
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return Header{}, fmt.Errorf("%w: shorter than its eight bytes of length", ErrNotSafetensors)
	}
	if size < 2 || size > maxHeader {
		return Header{}, fmt.Errorf("%w: its header would have %d bytes", ErrNotSafetensors, size)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err != nil {
		return Header{}, fmt.Errorf("read safetensors header: %w", err)
	}
	if uint64(len(text)) < size {
		return Header{}, fmt.Errorf("%w: the header ends after %d of %d bytes", ErrNotSafetensors, len(text), size)
	}
	return parseHeader(text)
}

func parseHeader(text []byte) (Header, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(text, &entries); err != nil {
		return Header{}, fmt.Errorf("%w: %w", ErrNotSafetensors, err)
	}
	delete(entries, "__metadata__")
	var h Header
	var total uint64
	for _, name := range sortedKeys(entries) {
		t, err := parseTensor(name, entries[name])
		if err != nil {
			return Header{}, fmt.Errorf("%w: tensor %q: %w", ErrNotSafetensors, clip(name), err)
		}
		h.Tensors = append(h.Tensors, t)
		if total += uint64(t.elements()); total > 1<<50 {
			return Header{}, fmt.Errorf("%w: more parameters than any model has", ErrNotSafetensors)
		}
	}
	return h, nil
}

func parseTensor(name string, text json.RawMessage) (Tensor, error) {
	var entry struct {
		DType   string    `json:"dtype"`
		Shape   []int64   `json:"shape"`
		Offsets [2]uint64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(text, &entry); err != nil {
		return Tensor{}, err
	}
	if entry.Offsets[1] < entry.Offsets[0] || entry.Offsets[1] > 1<<50 {
		return Tensor{}, fmt.Errorf("data_offsets %v are not a range", entry.Offsets)
	}
	elements := uint64(1)
	for _, d := range entry.Shape {
		if d < 0 {
			return Tensor{}, fmt.Errorf("dimension %d is negative", d)
		}
		high, low := bits.Mul64(elements, uint64(d))
		if high != 0 || low > 1<<50 {
			return Tensor{}, fmt.Errorf("shape %v is larger than any tensor", entry.Shape)
		}
		elements = low
	}
	return Tensor{name, entry.DType, entry.Shape, units.Bytes(entry.Offsets[1] - entry.Offsets[0])}, nil
}
