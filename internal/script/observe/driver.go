package observe

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/script/verdict"
)

// The driver is asked often while a command starts, when short programs live and die, and less often later.
const (
	askFirst = 200 * time.Millisecond
	askLater = 2 * time.Second
)

// onlooker asks the driver who holds memory while a command runs.
type onlooker struct {
	source watch.Source
	family *family

	mu   sync.Mutex
	seen verdict.Driver
	done chan struct{}
	end  sync.WaitGroup
}

// watchDriver starts asking; a nil source is never asked.
func watchDriver(source watch.Source, f *family) *onlooker {
	o := &onlooker{source: source, family: f, done: make(chan struct{})}
	if source == nil {
		return o
	}
	if r, err := source.Read(context.Background(), time.Now()); err == nil {
		o.seen.Before(r)
	}
	o.end.Go(func() {
		for wait := askFirst; ; wait = min(wait+wait/4, askLater) {
			select {
			case <-o.done:
				return
			case <-time.After(wait):
				o.look()
			}
		}
	})
	return o
}

func (o *onlooker) look() {
	r, err := o.source.Read(context.Background(), time.Now())
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen.During(r, o.family.member)
}

// finish ends the asking and gives what was seen.
func (o *onlooker) finish() verdict.Driver {
	close(o.done)
	o.end.Wait()
	return o.seen
}

// family tells which processes belong to a run: they carry its mark in their environment, or descend from one that is in it.
type family struct {
	proc  string       // the folder of the system's processes
	mark  string       // NAME=VALUE in the environment of every process of the run
	probe string       // folder of the probe
	root  atomic.Int64 // the command's process; 0 before it is started
	known map[int]verdict.Blindness
}

// deepest bounds the walk from a process to its ancestors.
const deepest = 64

func (f *family) started(pid int) { f.root.Store(int64(pid)) }

// member tells whether a process belongs to the run, and why it may load no probe.
func (f *family) member(pid int) (verdict.Blindness, bool) {
	if why, ok := f.known[pid]; ok {
		return why, true
	}
	environ, readable := f.read(pid, "environ")
	if !(readable && hasEntry(environ, f.mark)) && !f.descends(pid) {
		return "", false
	}
	why := f.blindness(pid, environ)
	f.known[pid] = why
	return why, true
}

func (f *family) descends(pid int) bool {
	for range deepest {
		if pid <= 1 {
			return false
		}
		if int64(pid) == f.root.Load() {
			return true
		}
		stat, ok := f.read(pid, "stat")
		if !ok {
			return false
		}
		// The parent is the fourth field of proc_pid_stat(5); the name before it may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			return false
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	return false
}

// blindness is why a process of the run may load no probe, read from its command line and its environment.
func (f *family) blindness(pid int, environ []byte) verdict.Blindness {
	line, ok := f.read(pid, "cmdline")
	if !ok {
		return verdict.Unknown
	}
	words := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	switch {
	case !probe.IsPython(filepath.Base(words[0])):
		return verdict.NoPython
	case ignoresPath(words[1:]):
		return verdict.Isolated
	case !hasEntry(environ, f.mark):
		return verdict.Cleared
	case !bytes.Contains(environ, []byte(f.probe)):
		return verdict.Replaced
	}
	return verdict.NeverLoaded
}

func (f *family) read(pid int, name string) ([]byte, bool) {
	data, err := os.ReadFile(filepath.Join(f.proc, strconv.Itoa(pid), name))
	return data, err == nil
}

func hasEntry(environ []byte, entry string) bool {
	for have := range bytes.SplitSeq(environ, []byte{0}) {
		if string(have) == entry {
			return true
		}
	}
	return false
}

// ignoresPath tells whether Python's own options make it ignore PYTHONPATH or skip sitecustomize.
func ignoresPath(words []string) bool {
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case !strings.HasPrefix(word, "-") || word == "-" || strings.HasPrefix(word, "--"):
			return false
		case strings.ContainsAny(before(word, "cmWX"), "IES"):
			return true
		case strings.ContainsAny(word, "cm"):
			return false // what follows is the program's
		case strings.HasSuffix(word, "W") || strings.HasSuffix(word, "X"):
			i++ // its value
		}
	}
	return false
}

// before is the part of a word before the first of some letters.
func before(word, letters string) string {
	if at := strings.IndexAny(word, letters); at >= 0 {
		return word[:at]
	}
	return word
}
