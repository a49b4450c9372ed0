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

// ErrFormat is wrapped where the input is none of the formats Read knows.
var ErrFormat = errors.New("not a PyTorch memory snapshot")

// Read reads a snapshot in any of the formats the package knows, compressed or not.
func Read(r io.Reader) (*Snapshot, error) {
	plain, err := Decompress(r)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(plain, 64<<10)
	head, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	switch kind := Sniff(head); kind {
	case "pickle":
		return readPickle(in)
	case "json":
		return readJSON(in)
	case "html":
		return readHTML(in)
	case "empty":
		return nil, fmt.Errorf("%w: the file is empty", ErrFormat)
	case "zip":
		return nil, fmt.Errorf("%w: this is a zip archive (a checkpoint written by torch.save?); a snapshot is written by torch.cuda.memory._dump_snapshot", ErrFormat)
	default:
		return nil, fmt.Errorf("%w: it begins with %q", ErrFormat, clip(string(bytes.ToValidUTF8(head[:min(len(head), 16)], []byte("?")))))
	}
}

// Sniff names the format that the first bytes of uncompressed input promise: pickle, json, html, zip,
// empty, or text when it is none of them.
func Sniff(head []byte) string {
	trimmed := bytes.TrimLeft(head, " \t\r\n\ufeff")
	switch {
	case len(trimmed) == 0:
		return "empty"
	case len(head) >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return "pickle"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "zip"
	case bytes.HasPrefix(trimmed, []byte("{\"")) || bytes.HasPrefix(trimmed, []byte("[{")) || bytes.HasPrefix(trimmed, []byte("{\n")) || bytes.HasPrefix(trimmed, []byte("[\n")):
		return "json"
	case bytes.HasPrefix(bytes.ToLower(trimmed[:min(len(trimmed), 15)]), []byte("<!doctype html")) || bytes.HasPrefix(bytes.ToLower(trimmed[:min(len(trimmed), 6)]), []byte("<html")):
		return "html"
	}
	return "text"
}

// Decompress undoes gzip, zstd or xz where the first bytes say so, and otherwise passes the input through.
func Decompress(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, 256<<10)
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
		return nil, fmt.Errorf("decompress input: %w", err)
	}
	return plain, nil
}

func readPickle(r io.Reader) (*Snapshot, error) {
	b := newBuilder()
	top, err := pickle.Read(r, b)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return b.finish(top)
}

// readHTML finds the snapshot that _memory_viz.py embeds: JSON of the form [{"name": …, "base64": "…"}], a
// pickle padded with zero bytes.
func readHTML(in *bufio.Reader) (*Snapshot, error) {
	if err := skipPast(in, []byte(`"base64": "`)); err != nil {
		return nil, fmt.Errorf("%w: a web page without an embedded snapshot", ErrFormat)
	}
	return readPickle(base64.NewDecoder(base64.StdEncoding, untilQuote{in}))
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
