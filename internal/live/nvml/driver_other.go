//go:build !linux || !(amd64 || arm64) || nogpu

package nvml

// Driver is the opened library; on this system, or in a build without it, there is none.
type Driver struct{}

// Open says that the library is not looked for here; nvidia-smi may still be asked.
func Open(...string) (*Driver, error) { return nil, ErrNoLibrary }

// Close does nothing.
func (*Driver) Close() error { return nil }

// Snapshot has nothing to ask.
func (*Driver) Snapshot() (Snapshot, error) { return Snapshot{}, ErrNoLibrary }

// Health has nothing to ask.
func (*Driver) Health() ([]Health, error) { return nil, ErrNoLibrary }
