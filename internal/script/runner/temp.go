package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// prefix begins the names of temporary folders, owner is the file in them that says whose they are.
const (
	prefix = "plimsoll-"
	owner  = "owner"
)

// Folder makes a temporary folder that a later run removes should this process be killed. Where there is no place for temporary files, memory is used.
func Folder() (string, error) {
	var failed error
	for _, place := range []string{os.TempDir(), os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"} {
		if place == "" || !filepath.IsAbs(place) {
			continue
		}
		sweep(place)
		folder, err := os.MkdirTemp(place, prefix)
		if err == nil {
			me, _ := read(os.Getpid())
			err = os.WriteFile(filepath.Join(folder, owner), []byte(fmt.Sprintf("%d %s", os.Getpid(), me.started)), 0o600)
			if err == nil {
				return folder, nil
			}
			os.RemoveAll(folder)
		}
		failed = errors.Join(failed, err)
	}
	if failed == nil {
		failed = errors.New("there is no folder for temporary files")
	}
	return "", failed
}

// Keep makes a temporary folder a lasting one.
func Keep(folder string) { _ = os.Remove(filepath.Join(folder, owner)) }

// sweep removes what processes that were killed have left in a folder.
func sweep(place string) {
	marks, _ := filepath.Glob(filepath.Join(place, prefix+"*", owner))
	for _, mark := range marks {
		data, err := os.ReadFile(mark)
		if err != nil {
			continue // someone else's
		}
		number, started, ok := strings.Cut(string(data), " ")
		pid, err := strconv.Atoi(number)
		if ok && err == nil && started != "" && !alive(process{pid, started}) {
			os.RemoveAll(filepath.Dir(mark))
		}
	}
}

// removeOurs removes a temporary folder, and nothing that is not one.
func removeOurs(folder string) {
	if _, err := os.Stat(filepath.Join(folder, owner)); err == nil && strings.HasPrefix(filepath.Base(folder), prefix) {
		os.RemoveAll(folder)
	}
}
