package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
)

const (
	recordingEnding = ".pickle"
	notesEnding     = ".json"
)

// A recording NAME.pickle may have the holders of what is alive at its end beside it, in NAME.holders.json.zlib; older versions wrote the second.
var holdersEndings = []string{".holders.json.zlib", ".holders.json.gz"}

// ofHolders is the name of a holders file without its ending.
func ofHolders(path string) (stem string, ok bool) {
	for _, ending := range holdersEndings {
		if stem, ok = strings.CutSuffix(path, ending); ok {
			break
		}
	}
	return stem, ok
}

func isHolders(path string) bool {
	_, ok := ofHolders(path)
	return ok
}

// holdersBeside reads the holders of a recording; nil: it has none.
func holdersBeside(env Env, recording string) (*holders.File, error) {
	for _, ending := range holdersEndings {
		path, ok := fileBeside(recording, ending)
		if !ok {
			return nil, nil
		}
		read, err := readHolders(env, path)
		if !errors.Is(err, fs.ErrNotExist) {
			return read, err
		}
	}
	return nil, nil
}

func readHolders(env Env, path string) (*holders.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	plain, err := env.limited().Decompress(f)
	if err != nil {
		return nil, unreadable(fmt.Errorf("%s: %w", path, err))
	}
	read, err := holders.Read(plain)
	if err != nil {
		return nil, unreadable(fmt.Errorf("%s: %w", path, err))
	}
	return read, nil
}

// fileBeside is the file of another kind that belongs to a recording, by its name.
func fileBeside(recording, ending string) (string, bool) {
	name := filepath.Base(recording)
	at := strings.LastIndex(name, recordingEnding) // also of .pickle.gz, .pickle.zst
	if at < 0 {
		return "", false
	}
	return filepath.Join(filepath.Dir(recording), name[:at]+ending), true
}

// batchBeside is the batch size in the notes that plimsoll run wrote of the recorded process; 0 where there are none.
func batchBeside(recording string) int {
	path, ok := fileBeside(recording, notesEnding)
	if !ok {
		return 0
	}
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	p, err := probenotes.Read(f)
	if err != nil {
		return 0
	}
	return p.TrainingBatch()
}

// recordingOf finds the recording that a holders file belongs to.
func recordingOf(path string) ([]string, error) {
	stem, _ := ofHolders(path)
	found, err := filepath.Glob(stem + recordingEnding + "*")
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s says who holds the memory of a recording, but the recording (%s) is not next to it", path,
			filepath.Base(stem)+recordingEnding)
	}
	return found[:min(1, len(found))], err
}
