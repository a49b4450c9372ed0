package workspace

import (
	"path/filepath"
	"slices"
)

// Fence is folders outside of which nothing is read, however a file is found: settings above the code, modules it imports, what a link leads to.
// Without folders there is no fence.
type Fence []string

// NewFence makes a fence of folders, with links followed.
func NewFence(folders []string) (Fence, error) {
	var f Fence
	for _, folder := range folders {
		path, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return nil, err
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		f = append(f, path)
	}
	return f, nil
}

// Allows tells whether a file or folder may be read. What is not there may be looked for where its name is inside.
func (f Fence) Allows(path string) bool {
	if len(f) == 0 {
		return true
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return slices.ContainsFunc(f, func(folder string) bool {
		rel, err := filepath.Rel(folder, path)
		return err == nil && filepath.IsLocal(rel)
	})
}
