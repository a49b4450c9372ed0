package lintout

import (
	"io"
	"path/filepath"

	"github.com/aymanbagabas/go-udiff"
)

// Diff writes what changes in a file, for people and for patch.
func Diff(w io.Writer, path string, before, after []byte) error {
	path = filepath.ToSlash(path)
	_, err := io.WriteString(w, udiff.Unified("a/"+path, "b/"+path, string(before), string(after)))
	return err
}
