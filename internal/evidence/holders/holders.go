// Package holders reads who keeps GPU memory alive, as the probe saw it, and matches it with a recording.
//
// It takes a holders file (schema plimsoll.holders/1: JSON, plain or compressed with a dictionary; other compression is the caller's) that the probe wrote at the instant a recording ends and returns holders:
// names with their role, place and storages, and with Match the holder of every allocation that was alive then. Files of another schema, larger than
// the probe writes, or whose columns differ in length are refused; a storage that the recording does not know is counted, never guessed at.
package holders

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/plimsoll/plimsoll/internal/document"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Schema names the form of a holders file.
const Schema = "plimsoll.holders/1"

const maxNames = 64 // of others that hold the same; the probe writes a few

// Role is what a storage is for.
type Role string

// Roles. Parameter to Saved are facts of PyTorch's; Variable is a name of the program's; Library and Temporary have no name in Python.
const (
	Parameter Role = "parameter" // Names are the module's own: layers.3.mlp.down_proj.weight
	Gradient  Role = "gradient"  // of the parameter in Names
	Optimizer Role = "optimizer" // state of the parameter in Names; Kind says which (exp_avg)
	Buffer    Role = "buffer"
	Input     Role = "input"     // what the model was called with in this step
	Saved     Role = "saved"     // for backward, by the operation Op of the module Module, in the graph of Name
	Variable  Role = "variable"  // reached by a Python name
	Library   Role = "library"   // only C++ or a library holds it
	Temporary Role = "temporary" // asked for by a line that is still running, and not named yet
)

// known lists the roles, with what a role says about the category of memory; variables may hold anything.
var known = map[Role]tape.Category{
	Parameter: tape.Parameters, Gradient: tape.Gradients, Optimizer: tape.Optimizer, Buffer: tape.Parameters, Input: tape.Inputs, Saved: tape.Activations,
	Variable: tape.Other, Library: tape.Other, Temporary: tape.Other,
}

// Category is what memory of this role is for, where the role alone tells.
func (r Role) Category() (tape.Category, bool) {
	c := known[r]
	return c, c != tape.Other
}

// Moments at which the probe looks.
const (
	AtOOM    = "oom"    // a request has failed, nothing is unwound yet
	AtGrowth = "growth" // memory rose step after step
	AtPeak   = "peak"   // near the peak of a run that lives
	OnDemand = "demand" // someone asked
)

// File is what one walk through a process found.
type File struct {
	Schema  string   `json:"schema"`
	When    string   `json:"when"`
	PID     int      `json:"pid"`
	Rank    int      `json:"rank"`
	Step    int      `json:"step"` // from 0
	Phase   string   `json:"phase"`
	Time    float64  `json:"time"` // seconds since 1970
	Walk    Walk     `json:"walk"`
	Running []Place  `json:"running"` // frames of the thread that trains, innermost first
	Devices []Device `json:"devices"`
	Holders []Holder `json:"holders"` // largest first
}

// Walk says how far the walk came.
type Walk struct {
	Seconds  float64 `json:"seconds"`
	Objects  int     `json:"objects"`
	Tensors  int     `json:"tensors"`
	Nodes    int     `json:"nodes"` // of autograd graphs
	Complete bool    `json:"complete"`
	Stopped  string  `json:"stopped"` // why it is not: time, objects
}

// Device is what the walk explains of one card.
type Device struct {
	Device    int         `json:"device"`
	Allocated units.Bytes `json:"allocated"` // PyTorch's own counter
	Named     units.Bytes `json:"named"`     // of it, in blocks that a holder was found for
}

// Place is a line of code; Line is where the name is bound, or where its frame stands.
type Place struct {
	File     string `json:"file"`
	Line     int    `json:"line,omitempty"`
	Function string `json:"function,omitempty"`
}

// String is the place as people write it: train.py:31 main.
func (p Place) String() string {
	s := p.File[strings.LastIndexByte(p.File, '/')+1:]
	if p.Line > 0 {
		s += fmt.Sprintf(":%d", p.Line)
	}
	if p.Function != "" && p.Function != "<module>" {
		s += " " + p.Function
	}
	return s
}

// Name is one way by which Python reaches something.
type Name struct {
	Name string `json:"name"` // feats[*][1]; a star stands for several places
	In   *Place `json:"in,omitempty"`
}

// Holder is memory that one name keeps alive.
type Holder struct {
	Device int         `json:"device"`
	Role   Role        `json:"role"`
	Bytes  units.Bytes `json:"bytes"` // of storages, each counted once
	Count  int         `json:"count"`

	// Name is the variable that reaches it; for parameters, gradients and state the variable that reaches the model, for Saved the one the graph hangs from.
	Name
	Frame string `json:"frame,omitempty"` // "exception" where the variable's function has ended and a traceback keeps its frame
	Type  string `json:"type,omitempty"`  // of what the variable is bound to: list, dict, Tensor
	First string `json:"first,omitempty"` // the name of the first storage without stars, and of the last
	Last  string `json:"last,omitempty"`

	Module string   `json:"module,omitempty"` // dotted path of the module it belongs to
	Op     string   `json:"op,omitempty"`     // of Saved: MulBackward0
	Kind   string   `json:"kind,omitempty"`   // of Optimizer: exp_avg; of Library: which
	Also   []Name   `json:"also,omitempty"`   // further names: all of them must let go
	Names  []string `json:"names,omitempty"`  // of each storage, where they have their own

	Addresses []int64 `json:"addresses"` // of each storage: the first, then differences
	Sizes     []int64 `json:"sizes"`     // of each storage; one size where all are equal
}

// Root is the variable a name begins with: feats of feats[*][1], self.memory of self.memory[*].
func (n Name) Root() string {
	if i := strings.IndexAny(n.Name, "[("); i > 0 {
		return n.Name[:i]
	}
	return n.Name
}

// Read decodes a holders file.
func Read(r io.Reader) (*File, error) {
	plain, err := unpack(r)
	if err != nil {
		return nil, err
	}
	data, err := document.Read(plain, document.Holders)
	if err != nil {
		return nil, err
	}
	var f File
	if err := document.Decode(data, &f); err != nil {
		return nil, fmt.Errorf("decode holders: %w", err)
	}
	if f.Schema != Schema {
		return nil, errors.New("not a holders file: \"schema\" is " + fmt.Sprintf("%.40q", f.Schema) + ", want " + Schema)
	}
	for i := range f.Holders {
		if err := f.Holders[i].check(); err != nil {
			return nil, fmt.Errorf("holder %d: %w", i, err)
		}
	}
	return &f, nil
}

func (h *Holder) check() error {
	n := len(h.Addresses)
	switch _, ok := known[h.Role]; {
	case !ok:
		return fmt.Errorf("unknown role %.40q", string(h.Role))
	case h.Count != n || h.Bytes < 0:
		return fmt.Errorf("%d storages counted, %d listed", h.Count, n)
	case len(h.Sizes) != n && (len(h.Sizes) != 1 || n == 0):
		return fmt.Errorf("%d sizes for %d storages", len(h.Sizes), n)
	case len(h.Names) != 0 && len(h.Names) != n:
		return fmt.Errorf("%d names for %d storages", len(h.Names), n)
	case len(h.Also) > maxNames:
		return fmt.Errorf("%d names hold the same", len(h.Also))
	}
	return nil
}

// Storage is one piece of memory of a holder.
type Storage struct {
	Address uint64
	Size    units.Bytes
	Name    string // its own name, or that of all
}

// Storages lists what a holder holds.
func (h *Holder) Storages() []Storage {
	out := make([]Storage, h.Count)
	var address int64
	for i, d := range h.Addresses {
		address += d
		s := Storage{Address: uint64(address), Size: units.Bytes(h.Sizes[min(i, len(h.Sizes)-1)]), Name: h.Name.Name}
		if len(h.Names) > 0 {
			s.Name = h.Names[i]
		}
		out[i] = s
	}
	return out
}

// Share is the part of a device's allocated bytes that has a name, from 0 to 1.
func (d Device) Share() float64 {
	if d.Allocated <= 0 {
		return 0
	}
	return min(1, float64(d.Named)/float64(d.Allocated))
}
