package snapshot

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/plimsoll/plimsoll/internal/evidence/pickle"
)

// Format is what the first bytes of uncompressed input promise.
type Format string

// Formats that Sniff tells apart.
const (
	FormatPickle Format = "pickle" // what PyTorch writes
	FormatJSON   Format = "json"   // the same shape as JSON
	FormatHTML   Format = "html"   // the page of torch/cuda/_memory_viz.py
	FormatZip    Format = "zip"    // no snapshot; most likely a checkpoint
	FormatEmpty  Format = "empty"
	FormatText   Format = "text" // none of the others
)

// Read reads a snapshot in any of the formats the package knows, compressed or not, within the default Limits.
func Read(r io.Reader) (*Snapshot, error) { return Limits{}.Read(r) }

// Read reads a snapshot within these limits.
func (l Limits) Read(r io.Reader) (*Snapshot, error) {
	plain, err := l.Decompress(r)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(plain, 64<<10)
	head, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	switch kind := Sniff(head); kind {
	case FormatPickle:
		return l.readPickle(in)
	case FormatJSON:
		return l.readJSON(in)
	case FormatHTML:
		return l.readHTML(in)
	case FormatEmpty:
		return nil, fmt.Errorf("%w: the file is empty (it ends at byte 0)", ErrFormat)
	case FormatZip:
		return nil, fmt.Errorf("%w: a zip archive begins at byte 0 (a checkpoint written by torch.save?); a snapshot is written by torch.cuda.memory._dump_snapshot", ErrFormat)
	default:
		return nil, fmt.Errorf("%w: byte 0: it begins with %q", ErrFormat, clip(string(bytes.ToValidUTF8(head[:min(len(head), 16)], []byte("?")))))
	}
}

// Sniff tells the format of uncompressed input from its first bytes.
func Sniff(head []byte) Format {
	trimmed := bytes.TrimLeft(head, " \t\r\n\ufeff")
	switch {
	case len(trimmed) == 0:
		return FormatEmpty
	case len(head) >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return FormatPickle
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return FormatZip
	case bytes.HasPrefix(trimmed, []byte("{\"")) || bytes.HasPrefix(trimmed, []byte("[{")) || bytes.HasPrefix(trimmed, []byte("{\n")) || bytes.HasPrefix(trimmed, []byte("[\n")):
		return FormatJSON
	case bytes.HasPrefix(bytes.ToLower(trimmed[:min(len(trimmed), 15)]), []byte("<!doctype html")) || bytes.HasPrefix(bytes.ToLower(trimmed[:min(len(trimmed), 6)]), []byte("<html")):
		return FormatHTML
	}
	return FormatText
}

// Decompress undoes gzip, zstd or xz where the first bytes say so, and otherwise passes the input through. What it
// returns ends with ErrTooLarge where the input expands beyond the default Limits.
func Decompress(r io.Reader) (io.Reader, error) { return Limits{}.Decompress(r) }

// Decompress undoes compression within these limits.
func (l Limits) Decompress(r io.Reader) (io.Reader, error) {
	from := &counter{r: r}
	in := bufio.NewReaderSize(from, 256<<10)
	magic, err := in.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read input: %w", err)
	}
	var plain io.Reader
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		plain, err = gzip.NewReader(in)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// One goroutine, and windows no larger than zstd's own default limit.
		plain, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	case bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		plain, err = xz.NewReader(in)
	default:
		return in, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: its compressed form is damaged at byte 0: %w", ErrFormat, err)
	}
	return &inflated{plain: plain, from: from, limit: l.expansion()}, nil
}

func (l Limits) readPickle(r io.Reader) (*Snapshot, error) {
	b := newBuilder(l)
	top, err := pickle.Read(r, b)
	if err != nil {
		return nil, readError(err)
	}
	return b.finish(top)
}

// readError gives an error of the pickle machine its kind: one that is none of the other kinds means a damaged file.
func readError(err error) error {
	var at *pickle.Error
	if errors.As(err, &at) && !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return fmt.Errorf("read snapshot: %w", err)
}

// readHTML finds the snapshot that _memory_viz.py embeds: JSON of the form [{"name": …, "base64": "…"}], a
// pickle padded with zero bytes.
func (l Limits) readHTML(in *bufio.Reader) (*Snapshot, error) {
	if err := skipPast(in, []byte(`"base64": "`)); err != nil {
		return nil, fmt.Errorf("%w: a web page without the field \"base64\" in which _memory_viz.py puts the snapshot", ErrFormat)
	}
	return l.readPickle(base64.NewDecoder(base64.StdEncoding, untilQuote{in}))
}

// skipPast consumes input up to and including a marker.
func skipPast(in *bufio.Reader, marker []byte) error {
	matched := 0
	for matched < len(marker) {
		c, err := in.ReadByte()
		if err != nil {
			return err
		}
		switch {
		case c == marker[matched]:
			matched++
		case c == marker[0]:
			matched = 1
		default:
			matched = 0
		}
	}
	return nil
}

// untilQuote reads up to the closing quote of a JSON string.
type untilQuote struct{ in *bufio.Reader }

func (u untilQuote) Read(p []byte) (int, error) {
	if _, err := u.in.Peek(1); err != nil {
		return 0, err
	}
	ahead, _ := u.in.Peek(min(len(p), u.in.Buffered()))
	end := bytes.IndexByte(ahead, '"')
	if end == 0 {
		return 0, io.EOF
	}
	if end > 0 {
		ahead = ahead[:end]
	}
	n := copy(p, ahead)
	_, err := u.in.Discard(n)
	return n, err
}
