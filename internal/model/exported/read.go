package exported

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/plimsoll/plimsoll/internal/document"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Of a member of an archive: what may come out of however few bytes, and how many times its size. torch.export.save stores without compressing.
const (
	maxPlain = 16 << 20
	maxRatio = 256
)

// Read reads a graph from a file of the given size: a .pt2 archive, or a model.json, plain or gzipped.
// Of an archive only the model.json inside is read, whatever the size of the weights.
func Read(r io.ReaderAt, size int64) (*Graph, error) {
	var magic [4]byte
	if n, err := r.ReadAt(magic[:], 0); n < 4 && err != nil && err != io.EOF {
		return nil, fmt.Errorf("read graph: %w", err)
	}
	switch {
	case magic == [4]byte{'P', 'K', 3, 4}:
		return readArchive(r, size)
	case magic[0] == 0x1f && magic[1] == 0x8b:
		return readGzip(io.NewSectionReader(r, 0, size))
	}
	return readJSON(io.NewSectionReader(r, 0, size))
}

// Parse reads a graph that lies in memory.
func Parse(data []byte) (*Graph, error) { return Read(bytes.NewReader(data), int64(len(data))) }

func readGzip(r io.Reader) (*Graph, error) {
	z, err := snapshot.Decompress(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotGraph, err)
	}
	return readJSON(z)
}

func readJSON(r io.Reader) (*Graph, error) {
	text, err := document.Read(r, document.Graph)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotGraph, err)
	}
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, fmt.Errorf("%w: byte 0 begins neither a .pt2 archive nor JSON (write one with torch.export.save(program, \"model.pt2\"))", ErrNotGraph)
	}
	return parse(text)
}

// readArchive finds the program inside a .pt2: models/model.json in archives of PyTorch 2.8 and later
// (torch/export/pt2_archive/constants.py), serialized_exported_program.json before.
func readArchive(r io.ReaderAt, size int64) (*Graph, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotGraph, err)
	}
	for _, f := range z.File {
		if !isProgram(f.Name) {
			continue
		}
		if f.UncompressedSize64 > max(maxPlain, maxRatio*f.CompressedSize64) {
			return nil, fmt.Errorf("%w: %.60q in the archive unpacks to %d bytes from %d", ErrNotGraph, f.Name, f.UncompressedSize64, f.CompressedSize64)
		}
		inner, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("%w: open %.60q in the archive: %w", ErrNotGraph, f.Name, err)
		}
		defer inner.Close()
		return readJSON(inner)
	}
	return nil, fmt.Errorf("%w: a zip archive without models/model.json; a checkpoint saved with torch.save is not a graph (write one with torch.export.save)", ErrNotGraph)
}

func isProgram(name string) bool {
	dir, base := path.Split(name)
	return base == "serialized_exported_program.json" || strings.HasSuffix(dir, "models/") && strings.HasSuffix(base, ".json")
}
