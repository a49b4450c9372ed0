package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// limits are what reading one input may cost. They follow the machine, and --max-memory.
type limits struct {
	snapshot.Limits
	flag bool // --max-memory was given
}

// limitFlag adds --max-memory.
func limitFlag(flags *pflag.FlagSet, l *limits) {
	flags.Var((*maxMemory)(l), "max-memory", "refuse input that needs more memory than this to read, for example 4GiB")
}

// maxMemory is the value of --max-memory.
type maxMemory limits

func (m *maxMemory) String() string {
	if m == nil || m.Memory == 0 {
		return ""
	}
	return units.Bytes(m.Memory).Short()
}

func (m *maxMemory) Type() string { return "size" }

func (m *maxMemory) Set(text string) error {
	size, err := units.Parse(text)
	if err != nil {
		return err
	}
	if size < units.MiB {
		return fmt.Errorf("%s is too little to read anything", size)
	}
	m.Memory, m.flag = int64(size), true
	return nil
}

// tooLarge says how to read a file that the limit refused.
func tooLarge(err error) error {
	if errors.Is(err, snapshot.ErrTooLarge) {
		return fmt.Errorf("%w; --max-memory raises the limit", err)
	}
	return err
}

// limited are the limits of a command; the defaults where nobody set any.
func (e Env) limited() snapshot.Limits {
	if e.limits == nil {
		return snapshot.Limits{}
	}
	return e.limits.Limits
}

// machineShare is what one input may take of the memory of a machine.
const machineShare = 0.75

// fitMachine bounds the default by what the machine has: 0: not known.
func (l *limits) fitMachine(memory units.Bytes) {
	const most = 16 * units.GiB
	if memory > 0 && !l.flag {
		l.Memory = int64(min(most, max(units.Bytes(machineShare*float64(memory)), 256*units.MiB)))
	}
}
