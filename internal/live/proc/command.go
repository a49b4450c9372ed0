package proc

import (
	"path"
	"strings"
)

// shortCommand cuts a command line down to what names it: the program, for an interpreter also the script or module.
// Folders and arguments are left out: they are long and may carry secrets.
func shortCommand(line []byte) string {
	arguments := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	if arguments[0] == "" {
		return ""
	}
	program := path.Base(arguments[0])
	if rest, ok := strings.CutPrefix(program, "-"); ok { // login shells
		program = rest
	}
	if strings.ContainsRune(program, ' ') { // a process that renamed itself: "ray::Worker.train() 4 of 8"
		return limit(program)
	}
	if !strings.HasPrefix(program, "python") && !strings.HasPrefix(program, "pypy") {
		return limit(program)
	}
	return limit(strings.TrimSpace("python " + scriptOf(arguments[1:])))
}

// scriptOf finds what a Python interpreter runs; flags as in python --help.
func scriptOf(arguments []string) string {
	for i := 0; i < len(arguments); i++ {
		a := arguments[i]
		switch {
		case a == "-c":
			return "-c"
		case a == "-m":
			if i+1 < len(arguments) {
				return "-m " + arguments[i+1]
			}
			return "-m"
		case a == "-W" || a == "-X" || a == "--check-hash-based-pycs":
			i++
		case a == "-":
			return "-"
		case !strings.HasPrefix(a, "-"):
			return path.Base(a)
		}
	}
	return ""
}

func limit(s string) string {
	const longest = 80
	if len(s) > longest {
		return s[:longest]
	}
	return s
}
