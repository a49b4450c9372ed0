package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/snapshot"
)

// readEvidence reads snapshots and logs from files, directories and standard input ("-").
func readEvidence(env Env, args []string) ([]explain.Evidence, error) {
	// A snapshot is columns without pointers: collecting garbage often costs next to nothing and keeps a file of a
	// million events in little more memory than its columns take.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	var all []explain.Evidence
	for _, arg := range args {
		if arg == "-" {
			e, err := readOne(env, "standard input", env.Stdin, 0)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
			continue
		}
		files, err := expand(arg)
		if err != nil && isMessage(arg) {
			e, err := readOne(env, "the text", strings.NewReader(arg), 0)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
			continue
		}
		if err != nil && len(args) > 1 {
			all = append(all, skipFile(env, arg, err))
			continue
		}
		if err != nil {
			return nil, unreadable(err)
		}
		for _, name := range files {
			e, err := readFile(env, name)
			if err != nil && len(files)+len(args) > 2 { // one bad file does not hide the others
				e = skipFile(env, name, err)
			} else if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// isMessage tells an error text that was given as an argument, in quotes, from the name of a file.
func isMessage(arg string) bool {
	return strings.Contains(arg, " ") && strings.Contains(strings.ToLower(arg), "memory")
}

// skipFile says that a file cannot be read, and goes on with the others.
func skipFile(env Env, name string, err error) explain.Evidence {
	text := plainText(err)
	fmt.Fprintf(env.Stderr, "plimsoll: skipped %s\n", screen.CleanLines(text))
	return explain.Evidence{Name: name, Unreadable: text}
}

// expand lists the files of a directory, or gives the file itself.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if isHolders(path) {
			return recordingOf(path)
		}
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !empty(d) { // a program that printed nothing leaves an empty log
			files = append(files, p)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("folder %s is empty", path)
	}
	slices.Sort(files)
	return ownRecordings(slices.DeleteFunc(files, isHolders)), err
}

// alive are the recordings that plimsoll run makes of a process before it fails, or in place of a failure, the more telling first: rank0-17.growth.pickle beside rank0-17.pickle.
var alive = []string{".growth.pickle", ".peak.pickle"}

// ownRecordings leaves out recordings of a process for which there is a more telling one: the one of its failure, else the one that shows growth.
func ownRecordings(files []string) []string {
	has := map[string]bool{}
	for _, f := range files {
		if stem, _, ok := strings.Cut(f, ".pickle"); ok {
			has[stem] = true
		}
	}
	return slices.DeleteFunc(files, func(f string) bool {
		for i, when := range alive {
			stem, _, ok := strings.Cut(f, when)
			if !ok {
				continue
			}
			better := has[stem]
			for _, other := range alive[:i] {
				better = better || has[strings.TrimSuffix(stem+other, ".pickle")]
			}
			return better
		}
		return false
	})
}

func empty(d fs.DirEntry) bool {
	info, err := d.Info()
	return err == nil && info.Size() == 0
}

func readFile(env Env, name string) (explain.Evidence, error) {
	f, err := os.Open(name)
	if err != nil {
		return explain.Evidence{}, unreadable(err)
	}
	defer f.Close()
	var size int64
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	e, err := readOne(env, name, f, size)
	if err == nil && e.Snapshot != nil {
		e.Batch = batchBeside(name)
		e.Holders, err = holdersBeside(env, name)
	}
	return e, err
}

// readOne reads a snapshot or a text, told apart by the first bytes.
func readOne(env Env, name string, r io.Reader, size int64) (explain.Evidence, error) {
	e := explain.Evidence{Name: name}
	c := &counted{Reader: r}
	defer reading(env, name, c, size)()
	plain, err := env.limited().Decompress(c)
	if err != nil {
		return e, unreadable(fmt.Errorf("%s: %w", name, tooLarge(err)))
	}
	next := readAhead(plain)
	defer next.Close()
	in := bufio.NewReaderSize(next, 256<<10)
	head, _ := in.Peek(512) // what is shorter is peeked whole
	if kind := snapshot.Sniff(head); kind == snapshot.FormatText || kind == snapshot.FormatJSON && !looksLikeSnapshot(in) {
		log, err := oomtext.Read(in)
		if err != nil {
			return e, unreadable(fmt.Errorf("%s: %w", name, err))
		}
		e.Messages, e.Hints, e.Length = log.Messages, log.Hints, log.Bytes
		return e, nil
	}
	if e.Snapshot, err = env.limited().Read(in); err != nil {
		return e, unreadable(fmt.Errorf("%s: %w", name, tooLarge(err)))
	}
	return e, nil
}

// nothingIn says that files were read to their ends and have nothing to explain.
func nothingIn(all []explain.Evidence) error {
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = fmt.Sprintf("%s (read to its end at byte %d)", e.Name, e.Length)
	}
	return fmt.Errorf("no memory snapshot and no out-of-memory message in %s", strings.Join(names, ", "))
}

// looksLikeSnapshot tells a snapshot written as JSON from a log of JSON lines.
func looksLikeSnapshot(in *bufio.Reader) bool {
	head, _ := in.Peek(64 << 10)
	return bytes.Contains(head, []byte(`"segments"`)) || bytes.Contains(head, []byte(`"device_traces"`)) || bytes.Contains(head, []byte(`"total_size"`))
}
