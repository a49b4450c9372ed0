package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/plimsoll/plimsoll/internal/setup"
)

// wordFlag is a flag whose value is one of a table's words: it is checked where it is read, and typed from there on.
type wordFlag[T ~string] struct {
	to    *T
	parse func(string) (T, error)
}

func (f wordFlag[T]) String() string {
	if f.to == nil {
		return ""
	}
	return string(*f.to)
}

func (f wordFlag[T]) Set(text string) (err error) {
	*f.to, err = f.parse(text)
	return err
}

func (f wordFlag[T]) Type() string { return "string" }

// wordsFlag is a list of such words, separated by commas.
type wordsFlag[T ~string] struct {
	to    *[]T
	parse func(string) (T, error)
}

func (f wordsFlag[T]) String() string {
	if f.to == nil {
		return ""
	}
	return strings.Join(setup.Words(*f.to), ",")
}

func (f wordsFlag[T]) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		w, err := f.parse(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		*f.to = append(*f.to, w)
	}
	return nil
}

func (f wordsFlag[T]) Type() string { return "strings" }

// addWord and addWords add a flag for a word, or for several.
func addWord[T ~string](flags *pflag.FlagSet, to *T, name, usage string, parse func(string) (T, error)) {
	flags.Var(wordFlag[T]{to, parse}, name, usage)
}

func addWords[T ~string](flags *pflag.FlagSet, to *[]T, name, usage string, parse func(string) (T, error)) {
	flags.Var(wordsFlag[T]{to, parse}, name, usage)
}
