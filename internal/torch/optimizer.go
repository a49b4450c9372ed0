package torch

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/internal/spelling"
)

// Optimizer is the word for an optimizer and its implementation: "adamw" is the implementation PyTorch picks by itself on CUDA, "adamw-fused" and
// "adamw-loop" are the others.
type Optimizer string

// Form is an implementation of an optimizer's step.
type Form string

// The implementations. Default is the one that runs without arguments on CUDA: foreach for most of torch.optim.
const (
	Default Form = ""
	Fused   Form = "fused" // one kernel over all parameters: fused=True
	Loop    Form = "loop"  // parameter by parameter: foreach=False
)

var forms = []Form{Default, Fused, Loop}

// Algorithm is an optimizer: what it keeps, what a step needs, what it costs, and what frameworks call it.
type Algorithm struct {
	Name    string   // the word on the command line
	Aliases []string // other words people use
	Source  string   // where state and temporaries are read off

	Note    string // what a prediction with it takes for granted
	Partial bool   // it takes some of the parameters only: a script makes a second optimizer for the others

	State []State
	Early bool // the state is made with the optimizer, not in its first step

	Steps map[Form]Step // the implementations there are

	Spelled Spelling
	Lighter []Optimizer // optimizers with less state that people train the same models with
}

// State is a tensor that an optimizer keeps for each parameter.
type State struct {
	Name string
	Like Likeness
}

// Step is one implementation: what it holds for a moment, and what it costs.
type Step struct {
	Holds Temporaries
	// Passes are kernels over all parameters, Accesses how often they read or write an element in all.
	Passes, Accesses float64
	PerTensor        bool // every pass is an operator of its own for every tensor
}

// Temporaries are what a step holds beside state.
type Temporaries struct {
	Rule  Rule
	Lists int  // tensors like a parameter at once
	Named bool // the last of them outlives its parameter's turn
}

// Spelling is what frameworks call an optimizer; an empty word: the framework does not have it.
type Spelling struct {
	Class     string          // the Python class, with its module
	Arguments string          // keyword arguments that make it this one: "momentum=0.9"
	Trainer   map[Form]string // TrainingArguments(optim=...): transformers/training_args.py, OptimizerNames
	DeepSpeed string          // "optimizer": {"type": ...}: deepspeed/runtime/config.py, DEEPSPEED_OPTIMIZERS
}

// DefaultOptimizer is the optimizer of a job that names none.
const DefaultOptimizer Optimizer = "adamw"

// Stateless is the optimizer that keeps nothing and needs nothing beside the parameters and gradients.
const Stateless Optimizer = "sgd"

// Algorithms lists the table in its order.
func Algorithms() []Algorithm { return slices.Clone(algorithms) }

// Optimizers lists the words: every algorithm in every form it has.
func Optimizers() []string {
	var out []string
	for _, a := range algorithms {
		for _, f := range forms {
			if _, ok := a.Steps[f]; ok {
				out = append(out, string(a.In(f)))
			}
		}
	}
	return out
}

// ParseOptimizer reads a word or an alias; an unknown one is refused with the nearest known word.
func ParseOptimizer(word string) (Optimizer, error) {
	plain := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(word, "torch.optim."), "_", "-"))
	o := Optimizer(strings.Replace(plain, "-torch", "", 1)) // adamw_torch_fused, as transformers' TrainingArguments spell it
	if _, ok := o.Algorithm(); ok {
		return o, nil
	}
	for _, a := range algorithms {
		if slices.Contains(a.Aliases, strings.ToLower(word)) {
			return a.In(Default), nil
		}
	}
	return "", fmt.Errorf("optimizer %.40q is not known%s", word, spelling.Hint(word, Optimizers()))
}

// In is the word for an algorithm in a form.
func (a Algorithm) In(f Form) Optimizer {
	if f == Default {
		return Optimizer(a.Name)
	}
	return Optimizer(a.Name + "-" + string(f))
}

// split divides a word into algorithm and form.
func (o Optimizer) split() (name string, f Form) {
	for _, f := range forms[1:] {
		if name, ok := strings.CutSuffix(string(o), "-"+string(f)); ok {
			return name, f
		}
	}
	return string(o), Default
}

// Algorithm is the entry of the table, where the word is known.
func (o Optimizer) Algorithm() (Algorithm, bool) {
	name, form := o.split()
	for _, a := range algorithms {
		if a.Name == name {
			_, ok := a.Steps[form]
			return a, ok
		}
	}
	return Algorithm{}, false
}

// Form is the implementation the word names.
func (o Optimizer) Form() Form {
	_, f := o.split()
	return f
}

// Step is the implementation's entry; zero where the word is not known.
func (o Optimizer) Step() (Step, bool) {
	a, ok := o.Algorithm()
	return a.Steps[o.Form()], ok
}

// Kind is the optimizer in its default form: what a person would call it.
func (o Optimizer) Kind() Optimizer {
	name, _ := o.split()
	return Optimizer(name)
}

// With is the same algorithm in another form, where it has it.
func (o Optimizer) With(f Form) (Optimizer, bool) {
	a, ok := o.Kind().Algorithm()
	if _, has := a.Steps[f]; !ok || !has {
		return o, false
	}
	return a.In(f), true
}

// Forms lists the algorithm in every form it has, the given one first.
func (o Optimizer) Forms() []Optimizer {
	out := []Optimizer{o}
	for _, f := range forms {
		if w, ok := o.With(f); ok && w != o {
			out = append(out, w)
		}
	}
	return out
}

// WholeStates counts the tensors like the parameters that it keeps.
func (o Optimizer) WholeStates() int {
	a, _ := o.Kind().Algorithm()
	n := 0
	for _, s := range a.State {
		if s.Like == Whole {
			n++
		}
	}
	return n
}

// StateShare is the state's bytes for each byte of fp32 parameters, roughly: factors count nothing, quantized moments a quarter.
func (a Algorithm) StateShare() float64 {
	share := 0.0
	for _, s := range a.State {
		share += shares[s.Like]
	}
	return share
}

// Library is the package an optimizer comes from.
func (a Algorithm) Library() string {
	library, _, _ := strings.Cut(a.Spelled.Class, ".")
	return library
}

// ByClass finds an algorithm by the last name of its Python class, with or without momentum where that makes the difference. Libraries' names for the
// same algorithm count ("FusedAdam", "AdamW8bit"); unknown classes are not found.
func ByClass(class string, momentum bool) (Algorithm, bool) {
	var first *Algorithm
	for i, a := range algorithms {
		last := a.Spelled.Class[strings.LastIndex(a.Spelled.Class, ".")+1:]
		if last != class && !slices.Contains(a.Aliases, class) {
			continue
		}
		if strings.Contains(a.Spelled.Arguments, "momentum") == momentum {
			return a, true
		}
		if first == nil {
			first = &algorithms[i]
		}
	}
	if first == nil {
		return Algorithm{}, false
	}
	return *first, true
}

// IsOptimizerClass tells whether the last name of a Python class is an optimizer's.
func IsOptimizerClass(last string) bool { return optimizerClasses()[last] }

var optimizerClasses = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, a := range algorithms {
		out[a.Spelled.Class[strings.LastIndex(a.Spelled.Class, ".")+1:]] = true
		for _, alias := range a.Aliases {
			out[alias] = true
		}
	}
	return out
})

// HoldsLists tells whether the optimizer of a Python class has moments, a default step that holds lists of temporaries for all parameters, and one that does
// not (Adam's foreach step, which fused=True avoids).
func HoldsLists(class string) bool {
	return slices.ContainsFunc(algorithms, func(a Algorithm) bool {
		_, fused := a.Steps[Fused]
		return a.Spelled.Class == class && fused && a.Steps[Default].Holds.Rule == AllAtOnce
	})
}
