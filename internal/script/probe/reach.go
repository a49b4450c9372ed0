package probe

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Args is a command line under which the probe in dir is found where env(1) sets PYTHONPATH itself.
func Args(args []string, dir string) []string {
	if len(args) == 0 || filepath.Base(args[0]) != "env" {
		return args
	}
	out := slices.Clone(args)
	for i := 1; i < len(out); i++ {
		name, value, assigned := strings.Cut(out[i], "=")
		switch {
		case assigned && name == "PYTHONPATH" && value != "":
			out[i] = name + "=" + dir + string(os.PathListSeparator) + value
		case assigned && name == "PYTHONPATH":
			out[i] = name + "=" + dir
		case out[i] == "-u" || out[i] == "-C":
			i++
		case !assigned && !strings.HasPrefix(out[i], "-"):
			return out // the command begins
		}
	}
	return out
}

// Python is an interpreter as a shell finds it.
type Python struct{ Name, Path string }

// pythons are the names under which interpreters are called.
var pythons = regexp.MustCompile(`^python(3(\.[0-9]+)?t?)?$`)

// IsPython tells whether a program of that name is a Python interpreter.
func IsPython(name string) bool { return pythons.MatchString(name) }

// Find lists the interpreters that a search path leads to, each name once.
func Find(path string) []Python {
	var found []Python
	for _, dir := range filepath.SplitList(path) {
		entries, err := os.ReadDir(dir)
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		for _, e := range entries {
			name := e.Name()
			if !IsPython(name) || slices.ContainsFunc(found, func(p Python) bool { return p.Name == name }) {
				continue
			}
			full := filepath.Join(dir, name)
			if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				found = append(found, Python{name, full})
			}
		}
	}
	return found
}

// Shims writes programs of the interpreters' names into a folder, each of which puts the probe in dir in front of PYTHONPATH again and becomes the interpreter.
func Shims(folder, dir string, found []Python) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make a folder for python: %w", err)
	}
	for _, p := range found {
		text := fmt.Sprintf("#!/bin/sh\nPYTHONPATH=%s${PYTHONPATH:+:$PYTHONPATH}\nexport PYTHONPATH\nexec %s \"$@\"\n", quoted(dir), quoted(p.Path))
		if err := os.WriteFile(filepath.Join(folder, p.Name), []byte(text), 0o700); err != nil {
			return fmt.Errorf("write a program for %s: %w", p.Name, err)
		}
	}
	return nil
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

var (
	setsPath = regexp.MustCompile(`(?m)^[^#\n]*\bPYTHONPATH=`)
	asksPath = regexp.MustCompile(`\b(which|type|command\s+-[vV]|whereis|hash)\b`)
)

// scriptSize bounds what is read of a script.
const scriptSize = 256 << 10

// NeedsShims tells whether a command is a shell script that sets PYTHONPATH, and asks nowhere which program a name leads to: such a script would
// be told of a program that is not where it expects it.
func NeedsShims(args []string, search func(name string) string) bool {
	text := shellText(args, search)
	return setsPath.Match(text) && !asksPath.Match(text)
}

// shellText is the text that a shell would run; empty where the command is no shell's.
func shellText(args []string, search func(name string) string) []byte {
	if len(args) == 0 {
		return nil
	}
	if isShell(filepath.Base(args[0])) {
		for i, word := range args[1:] {
			switch {
			case strings.HasPrefix(word, "-") && strings.HasSuffix(word, "c") && !strings.HasPrefix(word, "--"):
				return []byte(strings.Join(args[min(i+2, len(args)):], "\n"))
			case !strings.HasPrefix(word, "-"):
				return head(word)
			}
		}
		return nil
	}
	path := search(args[0])
	if path == "" {
		return nil
	}
	text := head(path)
	line, _, _ := bytes.Cut(text, []byte("\n"))
	for word := range strings.FieldsSeq(strings.TrimPrefix(string(line), "#!")) {
		if bytes.HasPrefix(line, []byte("#!")) && isShell(filepath.Base(word)) {
			return text
		}
	}
	return nil
}

func isShell(name string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh"}, name)
}

func head(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, scriptSize))
	return text
}
