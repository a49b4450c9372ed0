// Package schema derives JSON Schemas from the types that answers are made of, and checks documents against them.
//
// It takes a Go type with json tags and returns a JSON Schema (draft 2020-12): what is always there is required, further members are allowed, as the contracts
// promise. Valid says where a document breaks a schema, for the part of the language that Of uses. For tests only.
package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
)

// Schema is a JSON Schema, as far as it is used here.
type Schema struct {
	Draft       string             `json:"$schema,omitempty"`
	ID          string             `json:"$id,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Const       string             `json:"const,omitempty"`
	Type        any                `json:"type,omitempty"` // a name, or a list of names
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
	Values      *Schema            `json:"additionalProperties,omitempty"` // of a map
	Ref         string             `json:"$ref,omitempty"`
	Defs        map[string]*Schema `json:"$defs,omitempty"`
}

// Of is the schema of a document of this type, whose member schema has the value name.
func Of(t reflect.Type, name, title string) *Schema {
	d := deriver{defs: map[string]*Schema{}, names: map[reflect.Type]string{}}
	root := d.object(t)
	root.Draft, root.ID, root.Title = "https://json-schema.org/draft/2020-12/schema", name, title
	if s := root.Properties["schema"]; s != nil {
		s.Const = name
	}
	if len(d.defs) > 0 {
		root.Defs = d.defs
	}
	return root
}

type deriver struct {
	defs  map[string]*Schema
	names map[reflect.Type]string
}

var (
	marshaler = reflect.TypeFor[json.Marshaler]()
	texter    = reflect.TypeFor[encoding.TextMarshaler]()
	number    = reflect.TypeFor[json.Number]()
)

func (d *deriver) of(t reflect.Type) *Schema {
	switch {
	case t == number:
		return &Schema{Type: "number"}
	case t.Implements(texter):
		return &Schema{Type: "string"}
	case t.Implements(marshaler), t.Kind() == reflect.Interface:
		return &Schema{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		s := *d.of(t.Elem())
		if name, ok := s.Type.(string); ok {
			s.Type = []string{name, "null"}
		}
		return &s
	case reflect.String:
		return &Schema{Type: "string"}
	case reflect.Bool:
		return &Schema{Type: "boolean"}
	case reflect.Float32, reflect.Float64:
		return &Schema{Type: "number"}
	case reflect.Slice, reflect.Array:
		return &Schema{Type: []string{"array", "null"}, Items: d.of(t.Elem())}
	case reflect.Map:
		return &Schema{Type: []string{"object", "null"}, Values: d.of(t.Elem())}
	case reflect.Struct:
		if t.Name() == "" {
			return d.object(t)
		}
		name, known := d.names[t]
		if !known {
			name = t.Name()
			if d.defs[name] != nil { // of another package
				name = path.Base(t.PkgPath()) + "." + name
			}
			d.names[t], d.defs[name] = name, &Schema{} // a type may contain itself
			d.defs[name] = d.object(t)
		}
		return &Schema{Ref: "#/$defs/" + name}
	}
	return &Schema{Type: "integer"}
}

func (d *deriver) object(t reflect.Type) *Schema {
	s := &Schema{Type: "object", Properties: map[string]*Schema{}}
	d.fields(s, t)
	slices.Sort(s.Required)
	return s
}

func (d *deriver) fields(s *Schema, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			d.fields(s, f.Type)
			continue
		case name == "":
			name = f.Name
		}
		s.Properties[name] = d.of(f.Type)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			s.Required = append(s.Required, name)
		}
	}
}

// Valid says where a document breaks the schema.
func (s *Schema) Valid(document []byte) error {
	var v any
	if err := json.Unmarshal(document, &v); err != nil {
		return err
	}
	return s.check(v, s, "$")
}

func (s *Schema) check(v any, root *Schema, at string) error {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		if v == nil && s.Type == nil { // a pointer that is not there
			return nil
		}
		return root.Defs[name].check(v, root, at)
	}
	if !s.allows(v) {
		return fmt.Errorf("%s: %v is not %v", at, v, s.Type)
	}
	if s.Const != "" && v != s.Const {
		return fmt.Errorf("%s is %v, not %s", at, v, s.Const)
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if err := s.Items.check(item, root, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		return s.members(v, root, at)
	}
	return nil
}

func (s *Schema) members(v map[string]any, root *Schema, at string) error {
	for _, name := range s.Required {
		if _, there := v[name]; !there {
			return fmt.Errorf("%s.%s is missing", at, name)
		}
	}
	for name, member := range v {
		of := s.Properties[name]
		if of == nil {
			of = s.Values
		}
		if of == nil {
			if s.Properties != nil {
				return fmt.Errorf("%s.%s is not in the schema: write it with go test -update", at, name)
			}
			continue
		}
		if err := of.check(member, root, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) allows(v any) bool {
	var names []string
	switch t := s.Type.(type) {
	case nil:
		return true
	case string:
		names = []string{t}
	case []string:
		names = t
	}
	return slices.ContainsFunc(names, func(name string) bool { return kind(v, name) })
}

func kind(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	}
	return name == "object"
}
