package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/plimsoll/plimsoll/internal/evidence/pickle"
)

// maxJSONDepth is far beyond the depth of a snapshot (top, device, events, event, frames, frame: six).
const maxJSONDepth = 32

// readJSON reads the same shape written as JSON, token by token into the same builder.
func (l Limits) readJSON(r io.Reader) (*Snapshot, error) {
	d := json.NewDecoder(r)
	d.UseNumber()
	j := jsonReader{d, newBuilder(l)}
	top, err := j.value(0)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w before the JSON does (was it cut off?)", ErrTruncated)
		} else if !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrFormat) {
			err = fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return nil, fmt.Errorf("read snapshot: JSON, byte %d: %w", d.InputOffset(), err)
	}
	return j.b.finish(top)
}

type jsonReader struct {
	d *json.Decoder
	b *builder
}

func (j jsonReader) value(depth int) (pickle.Value, error) {
	token, err := j.d.Token()
	if err != nil {
		return pickle.Value{}, err
	}
	switch t := token.(type) {
	case json.Delim:
		if depth >= maxJSONDepth {
			return pickle.Value{}, errors.New("nested more deeply than a snapshot")
		}
		if t == '{' {
			return j.object(depth + 1)
		}
		return j.array(depth + 1)
	case string:
		return j.b.String([]byte(t))
	case json.Number:
		return number(t)
	case bool:
		if t {
			return pickle.Value{Kind: pickle.Bool, N: 1}, nil
		}
		return pickle.Value{Kind: pickle.Bool}, nil
	}
	return pickle.Value{Kind: pickle.None}, nil
}

func (j jsonReader) object(depth int) (pickle.Value, error) {
	dict := j.b.Dict()
	var pairs []pickle.Value
	for j.d.More() {
		if len(pairs) > maxLoosePairs {
			return dict, ErrFormat
		}
		key, err := j.value(depth)
		if err != nil {
			return dict, err
		}
		value, err := j.value(depth)
		if err != nil {
			return dict, err
		}
		pairs = append(pairs, key, value)
	}
	if _, err := j.d.Token(); err != nil {
		return dict, err
	}
	if len(pairs) == 0 {
		return dict, nil
	}
	return dict, j.b.SetItems(dict, pairs)
}

// array reads a list; two numbers alone are a pool id.
func (j jsonReader) array(depth int) (pickle.Value, error) {
	var items []pickle.Value
	list := j.b.List()
	for n := 0; j.d.More(); n++ {
		item, err := j.value(depth)
		if err != nil {
			return list, err
		}
		items = append(items, item)
		if n < 2 {
			continue // may still be a pair
		}
		if err := j.b.Append(list, items); err != nil {
			return list, err
		}
		items = items[:0]
	}
	if _, err := j.d.Token(); err != nil {
		return list, err
	}
	if len(items) == 2 && items[0].Kind == pickle.Int && items[1].Kind == pickle.Int {
		return j.b.Tuple(items)
	}
	return list, j.b.Append(list, items)
}

func number(n json.Number) (pickle.Value, error) {
	text := n.String()
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return pickle.Value{Kind: pickle.Int, N: uint64(i)}, nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return pickle.Value{Kind: pickle.Int, N: u}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return pickle.Value{}, fmt.Errorf("number %s: %w", clip(text), errors.New("out of range"))
	}
	return pickle.Value{Kind: pickle.Float, N: math.Float64bits(f)}, nil
}
