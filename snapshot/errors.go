package snapshot

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/evidence/pickle"
)

// Errors that callers can test for with errors.Is.
var (
	// ErrFormat is wrapped where the input is no memory snapshot, or one with a field that cannot be.
	ErrFormat = errors.New("not a PyTorch memory snapshot")
	// ErrUnsafe is wrapped where a pickle holds an opcode that could run code. Nothing was run.
	ErrUnsafe = pickle.ErrUnsafe
	// ErrTruncated is wrapped where the input ends before the snapshot does.
	ErrTruncated = pickle.ErrTruncated
	// ErrTooLarge is wrapped where reading on would take more than Limits allow.
	ErrTooLarge = errors.New("too large")
)

// UnsafeError tells which opcode of a pickle was refused, and where it stands.
type UnsafeError = pickle.UnsafeError
