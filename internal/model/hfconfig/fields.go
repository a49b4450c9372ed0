package hfconfig

import (
	"encoding/json"
	"fmt"
	"math"
)

// field is the type and default of one annotated attribute.
type field struct {
	kind     kind
	standard any
}

// UnmarshalJSON reads [kind, default].
func (f *field) UnmarshalJSON(data []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	if err := json.Unmarshal(pair[0], &f.kind); err != nil {
		return err
	}
	if string(pair[1]) == "null" {
		return nil
	}
	v, err := f.kind.decode(pair[1])
	f.standard = v
	return err
}

// kind is the type of a field as its annotation states it.
type kind string

const (
	kindInt     kind = "int"
	kindFloat   kind = "float"
	kindBool    kind = "bool"
	kindString  kind = "string"
	kindInts    kind = "ints"    // an int, or a list of ints
	kindStrings kind = "strings" // a string, or a list of strings
)

func (k kind) decode(text json.RawMessage) (any, error) {
	switch k {
	case kindInt:
		return decodeInt(text)
	case kindFloat:
		var v float64
		if json.Unmarshal(text, &v) != nil {
			return nil, fmt.Errorf("%s is not a number", clip(string(text)))
		}
		return v, nil
	case kindBool:
		var v bool
		if json.Unmarshal(text, &v) != nil {
			return nil, fmt.Errorf("%s is not true or false", clip(string(text)))
		}
		return v, nil
	case kindString:
		var v string
		if json.Unmarshal(text, &v) != nil {
			return nil, fmt.Errorf("%s is not a string", clip(string(text)))
		}
		return v, nil
	case kindInts:
		return decodeInts(text)
	case kindStrings:
		return decodeStrings(text)
	}
	return text, nil
}

// decodeInt accepts 4096 and 4096.0: configs written by other tools have both.
func decodeInt(text json.RawMessage) (any, error) {
	var v float64
	if json.Unmarshal(text, &v) != nil || v != math.Trunc(v) || math.Abs(v) > maxInt {
		return nil, fmt.Errorf("%s is not a whole number in a plausible range", clip(string(text)))
	}
	return int(v), nil
}

func decodeInts(text json.RawMessage) (any, error) {
	if v, err := decodeInt(text); err == nil {
		return v, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil || len(list) > maxList {
		return nil, fmt.Errorf("%s is not a list of whole numbers", clip(string(text)))
	}
	out := make([]int, len(list))
	for i, item := range list {
		v, err := decodeInt(item)
		if err != nil {
			return nil, err
		}
		out[i] = v.(int)
	}
	return out, nil
}

func decodeStrings(text json.RawMessage) (any, error) {
	var list []string
	if json.Unmarshal(text, &list) == nil && len(list) <= maxList {
		return list, nil
	}
	var one string
	if json.Unmarshal(text, &one) != nil {
		return nil, fmt.Errorf("%s is not a list of strings", clip(string(text)))
	}
	return []string{one}, nil
}
