package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/plimsoll/plimsoll/internal/code/baseline"
	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// Write replaces a file in one step, with the permissions it had. What a link points to is replaced, not the link.
func Write(path string, text []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".plimsoll-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Chmod(info.Mode().Perm()), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// WriteBaseline lists findings in a file.
func WriteBaseline(path string, findings []lint.Finding) error {
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	text, err := baseline.Of(folder, findings, absolute).Bytes()
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the baseline: %w", err)
	}
	return nil
}

// HideKnown drops the findings that the baseline lists, and counts them and those that are gone from the code.
func (s Settings) HideKnown(findings []lint.Finding) (fresh []lint.Finding, known, gone int, err error) {
	if s.Baseline == "" || !s.Fence.Allows(s.Baseline) {
		return findings, 0, 0, nil
	}
	text, err := os.ReadFile(s.Baseline)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("read the baseline: %w", err)
	}
	folder, err := filepath.Abs(filepath.Dir(s.Baseline))
	if err != nil {
		return nil, 0, 0, err
	}
	b, err := baseline.Read(folder, text)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("read %s: %w", s.Baseline, err)
	}
	fresh, known, gone = b.New(findings, absolute)
	return fresh, known, gone, nil
}

// absolute is the path of a file from the root of the file system on.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
