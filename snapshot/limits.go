package snapshot

import (
	"errors"
	"fmt"
	"io"
)

// Limits bound what reading a snapshot may cost. The zero value is the default of every limit.
type Limits struct {
	// Memory is how many bytes the snapshot may take in memory; 0 is 16 GiB. A snapshot takes about half of
	// its uncompressed size.
	Memory int64
	// Expansion is how many times its compressed size the input may have uncompressed; 0 is 256. Real snapshots
	// reach about 60 as pickles and 200 as JSON (zstd at its highest level, one million events).
	Expansion int64
}

const (
	defaultMemory    = 16 << 30
	defaultExpansion = 256
	freeExpansion    = 8 << 20 // bytes that may come out of however few
)

func (l Limits) memory() int64 {
	if l.Memory > 0 {
		return l.Memory
	}
	return defaultMemory
}

func (l Limits) expansion() int64 {
	if l.Expansion > 0 {
		return l.Expansion
	}
	return defaultExpansion
}

// counter counts the bytes that were read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// inflated passes uncompressed input on as long as it stays within the limit for the compressed bytes it came from.
type inflated struct {
	plain io.Reader
	from  *counter
	limit int64 // times
	n     int64
}

func (i *inflated) Read(p []byte) (int, error) {
	n, err := i.plain.Read(p)
	i.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: its compressed form is damaged before byte %d: %w", ErrFormat, i.from.n, err)
	}
	if most := max(freeExpansion, i.limit*i.from.n); i.n > most {
		return 0, fmt.Errorf("%w: %d compressed bytes expand to more than %d; a memory snapshot does not compress that well", ErrTooLarge, i.from.n, most)
	}
	return n, err
}

// costOf is what a record and its dict take in memory, in bytes, with the room that growing slices leave.
var costOf = [...]int64{
	recEvent: 76, recFrame: 12, recBlock: 60, recSegment: 220, recAnnotation: 60, recHistory: 44, recLoose: 160, recTop: 160,
}

const costText = 112 // of a distinct text beside its bytes

// spend adds the cost of a record and refuses once the limit is passed.
func (b *builder) spend(bytes int64) error {
	if b.spent += bytes; b.spent > b.limit {
		return fmt.Errorf("%w: this file would need more than %s of memory to read", ErrTooLarge, gib(b.limit))
	}
	return nil
}

func gib(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }
