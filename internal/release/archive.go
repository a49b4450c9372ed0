package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zip"
)

// entry is a file of an archive.
type entry struct {
	Name string
	Data []byte
	Mode os.FileMode
}

// archive packs files into a folder of the archive's name.
func (p platform) archive(folder string, files []entry, date time.Time) []byte {
	var moved []entry
	for _, f := range files {
		moved = append(moved, entry{folder + "/" + f.Name, f.Data, f.Mode})
	}
	if p.ArchiveEnding() == ".zip" {
		return packZip(moved, date)
	}
	return packTar(moved, date)
}

// packTar writes a .tar.gz. It writes to memory, which does not fail.
func packTar(files []entry, date time.Time) []byte {
	var out bytes.Buffer
	z := must(gzip.NewWriterLevel(&out, gzip.BestCompression))
	w := tar.NewWriter(z)
	for _, f := range files {
		must(0, w.WriteHeader(&tar.Header{Name: f.Name, Size: int64(len(f.Data)), Mode: int64(f.Mode), ModTime: date, Format: tar.FormatUSTAR}))
		must(w.Write(f.Data))
	}
	must(0, w.Close())
	must(0, z.Close())
	return out.Bytes()
}

// packZip writes a .zip, which is also what a wheel is.
func packZip(files []entry, date time.Time) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestCompression) })
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: date}
		header.SetMode(f.Mode)
		must(must(w.CreateHeader(header)).Write(f.Data))
	}
	must(0, w.Close())
	return out.Bytes()
}

// must is for writes to memory.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func readAll(names ...string) ([]entry, error) {
	var out []entry
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, entry{filepath.Base(name), data, 0o644})
	}
	return out, nil
}

// checksums writes SHA256SUMS, as sha256sum -c reads it, and returns the sums by name.
func checksums(out string, names []string) (map[string]string, error) {
	sums := map[string]string{}
	var lines []string
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		sums[name] = hex.EncodeToString(sum[:])
		lines = append(lines, fmt.Sprintf("%s  %s\n", sums[name], name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return sums, os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
