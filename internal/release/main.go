// Command release builds everything that is published of one version, reproducibly.
//
// It takes the clone it is started in and a folder to write to and returns archives, wheels, checksums, a bill of materials, man pages,
// completions and a Homebrew formula. The same commit gives the same bytes: paths, clocks and the state of the machine do not enter them.
// It refuses a clone with local changes, and a wheel that is larger than people should have to download.
//
//	go run ./internal/release                          everything into dist/
//	go run ./internal/release -only linux/amd64 -out /tmp/dist
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.out, "out", "dist", "folder to write to")
	flag.StringVar(&o.only, "only", "", "platforms to build, separated by commas, as in linux/amd64,linux/amd64/musl (default: all)")
	flag.BoolVar(&o.dirty, "dirty", false, "build a clone with local changes too")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type options struct {
	out, only string
	dirty     bool
}

// source is what a release is made from.
type source struct {
	Version string
	Commit  string
	Date    time.Time
}

func run(o options) error {
	src, err := readSource(o.dirty)
	if err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	docs, err := manual(src)
	if err != nil {
		return err
	}
	common, err := readAll("LICENSE", "README.md")
	if err != nil {
		return err
	}
	python, err := pythonPackage()
	if err != nil {
		return err
	}
	var made []string
	for _, p := range chosen {
		files, err := p.release(src, o.out, append(common, docs...), append(python, docs...))
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name(), err)
		}
		made = append(made, files...)
	}
	sums, err := checksums(o.out, made)
	if err != nil {
		return err
	}
	if err := formula(src, sums).write(o.out); err != nil {
		return err
	}
	return report(o.out, made)
}

// release builds one platform: its binary, its archive and its wheel. It returns the names of the files.
func (p platform) release(src source, out string, beside, python []entry) ([]string, error) {
	binary, err := p.build(src)
	if err != nil {
		return nil, err
	}
	if err := p.checkLinks(binary); err != nil {
		return nil, err
	}
	if err := checkMethods(binary); err != nil {
		return nil, err
	}
	program := entry{p.Program(), binary, 0o755}
	archive := fmt.Sprintf("plimsoll-%s-%s", src.Version, p.Label())
	bom, err := billOfMaterials(src, p, binary)
	if err != nil {
		return nil, err
	}
	names := []string{archive + p.ArchiveEnding(), archive + ".cdx.json", p.WheelName(src.Version)}
	packed := [][]byte{p.archive(archive, append([]entry{program}, beside...), src.Date), bom, wheel(src, p, program, python)}
	if n := len(packed[2]); n > maxWheel {
		return nil, fmt.Errorf("the wheel has %.1f MB, more than %.1f", float64(n)/1e6, float64(maxWheel)/1e6)
	}
	for i, name := range names {
		if err := os.WriteFile(filepath.Join(out, name), packed[i], 0o644); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// build compiles the binary with nothing of this machine in it.
func (p platform) build(src source) ([]byte, error) {
	dir, err := os.MkdirTemp("", "plimsoll-release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	const vars = "github.com/plimsoll/plimsoll/internal/cli."
	flags := fmt.Sprintf("-s -w -buildid= -X %[1]sVersion=%[2]s -X %[1]sCommit=%[3]s -X %[1]sBuildDate=%[4]s", vars, src.Version, src.Commit, src.Date.Format(time.RFC3339))
	file := filepath.Join(dir, p.Program())
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", p.Tags, "-ldflags", flags, "-o", file, "./cmd/plimsoll")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+p.OS, "GOARCH="+p.Arch, "GOAMD64=v1", "GOARM64=v8.0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return os.ReadFile(file)
}

// readSource reads version, commit and date. SOURCE_DATE_EPOCH sets another date (reproducible-builds.org/specs/source-date-epoch).
func readSource(dirty bool) (source, error) {
	version, err := projectVersion("pyproject.toml")
	if err != nil {
		return source{}, err
	}
	src := source{Version: version, Commit: git("rev-parse", "HEAD")}
	if changed := git("status", "--porcelain", "--untracked-files=no"); changed != "" && !dirty {
		return source{}, fmt.Errorf("the clone has local changes (-dirty builds them too):\n%s", changed)
	} else if changed != "" {
		src.Commit += "-dirty"
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		epoch = git("log", "-1", "--format=%ct")
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("the date of the commit: %w (SOURCE_DATE_EPOCH sets it where there is no git)", err)
	}
	src.Date = time.Unix(seconds, 0).UTC()
	return src, nil
}

func git(args ...string) string {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func report(out string, made []string) error {
	for _, name := range made {
		info, err := os.Stat(filepath.Join(out, name))
		if err != nil {
			return err
		}
		fmt.Printf("%6.1f MB  %s\n", float64(info.Size())/1e6, filepath.Join(out, name))
	}
	return nil
}
