package main

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/plimsoll/plimsoll/internal/script/probe"
)

// distribution is the name on PyPI; command and module are called plimsoll.
const distribution = "plimsoll_gpu"

// maxWheel is what pip install may have to download, in bytes.
const maxWheel = 12_000_000

// metadata describes the package (packaging.python.org/specifications/core-metadata).
const metadata = `Metadata-Version: 2.1
Name: plimsoll-gpu
Version: %s
Summary: Why a PyTorch job ran out of GPU memory, whether one fits, and how to make it fit
Home-page: https://github.com/plimsoll/plimsoll
License: Apache-2.0
Keywords: pytorch,cuda,gpu,memory,out of memory,oom
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: Go
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Python: >=3.9
Description-Content-Type: text/markdown

%s`

// WheelName is the name of a platform's wheel (packaging.python.org/specifications/binary-distribution-format).
func (p platform) WheelName(version string) string {
	return fmt.Sprintf("%s-%s-py3-none-%s.whl", distribution, version, p.Wheel)
}

// wheel packs the binary as a script, the Python package, man pages and completions.
func wheel(src source, p platform, program entry, files []entry) []byte {
	info := fmt.Sprintf("%s-%s.dist-info/", distribution, src.Version)
	data := fmt.Sprintf("%s-%s.data/", distribution, src.Version)
	all := []entry{{data + "scripts/" + program.Name, program.Data, 0o755}}
	for _, f := range files {
		switch {
		case strings.HasPrefix(f.Name, "plimsoll/"):
			all = append(all, f)
		case p.OS != "windows" && shared(f.Name) != "":
			all = append(all, entry{data + "data/share/" + shared(f.Name), f.Data, f.Mode})
		case f.Name == "README.md":
			all = append(all, entry{info + "METADATA", fmt.Appendf(nil, metadata, src.Version, forPyPI(src, f.Data)), 0o644})
		}
	}
	var tags string
	for tag := range strings.SplitSeq(p.Wheel, ".") {
		tags += "Tag: py3-none-" + tag + "\n"
	}
	all = append(all, entry{info + "WHEEL", []byte("Wheel-Version: 1.0\nGenerator: plimsoll\nRoot-Is-Purelib: false\n" + tags), 0o644})
	var record strings.Builder
	for _, f := range all {
		sum := sha256.Sum256(f.Data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.Data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	return packZip(append(all, entry{info + "RECORD", []byte(record.String()), 0o644}), src.Date)
}

// shared is where shells and man look for a page or a completion below share/; empty for what is neither.
func shared(name string) string {
	switch {
	case strings.HasPrefix(name, "man/"):
		return name
	case name == "completions/plimsoll.bash":
		return "bash-completion/completions/plimsoll"
	case name == "completions/_plimsoll":
		return "zsh/site-functions/_plimsoll"
	case name == "completions/plimsoll.fish":
		return "fish/vendor_completions.d/plimsoll.fish"
	}
	return ""
}

// forPyPI makes links to files of the repository absolute.
func forPyPI(src source, readme []byte) string {
	base := "https://github.com/plimsoll/plimsoll/blob/v" + src.Version + "/"
	text := strings.ReplaceAll(string(readme), "](docs/images/", "](https://raw.githubusercontent.com/plimsoll/plimsoll/v"+src.Version+"/docs/images/")
	for _, start := range []string{"docs/", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "deploy/"} {
		text = strings.ReplaceAll(text, "]("+start, "]("+base+start)
	}
	return text
}

// pythonPackage is the package plimsoll as it goes into a wheel, and the README that describes it.
func pythonPackage() ([]entry, error) {
	files, err := readAll("README.md")
	if err != nil {
		return nil, err
	}
	sources := probe.Files()
	names, err := fs.Glob(sources, "plimsoll/*.py")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := fs.ReadFile(sources, name)
		if err != nil {
			return nil, err
		}
		files = append(files, entry{path.Clean(name), data, 0o644})
	}
	return files, nil
}

// projectVersion is the version of this tree. The hook package of pre-commit depends on the binary's package of the same version.
func projectVersion(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var p struct {
		Project struct {
			Version      string
			Dependencies []string
		}
	}
	if err := toml.Unmarshal(text, &p); err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	if v := p.Project.Version; v == "" || len(p.Project.Dependencies) != 1 || p.Project.Dependencies[0] != "plimsoll-gpu=="+v {
		return "", errors.New(file + ": want a version, and plimsoll-gpu of that version as the one dependency")
	}
	return p.Project.Version, nil
}
