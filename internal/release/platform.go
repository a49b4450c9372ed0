package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A platform is a system that a binary is built for.
type platform struct {
	OS, Arch string
	Musl     bool   // of Linux: a static binary, for systems without glibc
	Tags     string // build tags
	Wheel    string // platform tags of its wheel (packaging.python.org/specifications/platform-compatibility-tags)
	Brew     string // how a Homebrew formula asks for it; empty: not offered there
}

// platforms are all that a release has. The driver's library is loaded with dlopen, so the binary for glibc is a dynamic one; without that (nogpu) the binary is
// static and runs on musl, where nvidia-smi is asked. checkLinks holds both to their tags.
// macOS 12 is what Go 1.26 needs (go.dev/doc/go1.25#darwin).
var platforms = []platform{
	{OS: "linux", Arch: "amd64", Wheel: "manylinux_2_17_x86_64.manylinux2014_x86_64", Brew: "on_linux on_intel"},
	{OS: "linux", Arch: "arm64", Wheel: "manylinux_2_17_aarch64.manylinux2014_aarch64", Brew: "on_linux on_arm"},
	{OS: "linux", Arch: "amd64", Musl: true, Tags: "nogpu", Wheel: "musllinux_1_1_x86_64"},
	{OS: "linux", Arch: "arm64", Musl: true, Tags: "nogpu", Wheel: "musllinux_1_1_aarch64"},
	{OS: "darwin", Arch: "amd64", Wheel: "macosx_12_0_x86_64", Brew: "on_macos on_intel"},
	{OS: "darwin", Arch: "arm64", Wheel: "macosx_12_0_arm64", Brew: "on_macos on_arm"},
	{OS: "windows", Arch: "amd64", Wheel: "win_amd64"},
	{OS: "windows", Arch: "arm64", Wheel: "win_arm64"},
}

// Name is how -only names a platform.
func (p platform) Name() string { return strings.ReplaceAll(p.Label(), "-", "/") }

// Label is its part of the names of files.
func (p platform) Label() string {
	label := p.OS + "-" + p.Arch
	if p.Musl {
		label += "-musl"
	}
	return label
}

// Program is the name of the binary.
func (p platform) Program() string {
	if p.OS == "windows" {
		return "plimsoll.exe"
	}
	return "plimsoll"
}

// ArchiveEnding is zip where nothing else can be counted on.
func (p platform) ArchiveEnding() string {
	if p.OS == "windows" {
		return ".zip"
	}
	return ".tar.gz"
}

// newestGlibc is the second number of the glibc that the tag manylinux_2_17 promises to do with.
const newestGlibc = 17

// checkLinks refuses a binary that needs more of a Linux than the tags of its wheel say.
func (p platform) checkLinks(binary []byte) error {
	if p.OS != "linux" {
		return nil
	}
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return err
	}
	if p.Musl {
		if slices.ContainsFunc(f.Progs, func(s *elf.Prog) bool { return s.Type == elf.PT_INTERP }) {
			return errors.New("the binary for musl is not static")
		}
		return nil
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return fmt.Errorf("what the binary needs of glibc: %w", err)
	}
	for _, s := range symbols {
		var minor int
		if n, _ := fmt.Sscanf(s.Version, "GLIBC_2.%d", &minor); n == 1 && minor > newestGlibc {
			return fmt.Errorf("the binary needs %s of %s", s.Name, s.Version)
		}
	}
	return nil
}

// byName is a function that calls methods by names that only the running program knows; its name is in every binary that has it, stripped or not. (It is put
// together here so that it is not in this program, which has the function only in its test.)
func byName() string { return strings.Join([]string{"text/template", "(*state)", "evalField"}, ".") }

// checkMethods refuses a binary in which methods are called by name: the linker then keeps every exported method of every type (15 % of the wheel). A dependency
// can bring that back, as cobra does where a command sets a template of its own.
func checkMethods(binary []byte) error {
	if bytes.Contains(binary, []byte(byName())) {
		return fmt.Errorf("%s is in the binary, so that nothing which it might call was left out (go build -ldflags=-dumpdep says who calls it)", byName())
	}
	return nil
}

// choose reads -only.
func choose(only string) ([]platform, error) {
	if only == "" {
		return platforms, nil
	}
	var chosen []platform
	for name := range strings.SplitSeq(only, ",") {
		found := false
		for _, p := range platforms {
			if p.Name() == name {
				chosen, found = append(chosen, p), true
			}
		}
		if !found {
			return nil, fmt.Errorf("-only %s: there is no such platform", name)
		}
	}
	return chosen, nil
}
