package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/klauspost/compress/zip"
)

var example = source{Version: "1.2.3", Commit: strings.Repeat("a", 40), Date: time.Unix(1_700_000_000, 0).UTC()}

func packageFiles(t *testing.T) []entry {
	t.Helper()
	t.Chdir("../..")
	python, err := pythonPackage()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := manual(example)
	if err != nil {
		t.Fatal(err)
	}
	return append(python, docs...)
}

func TestAWheelHoldsWhatItsRecordSays(t *testing.T) {
	files := packageFiles(t)
	for i, p := range platforms {
		packed := wheel(example, p, entry{p.Program(), []byte("binary"), 0o755}, files)
		if i == 0 && !bytes.Equal(packed, wheel(example, p, entry{p.Program(), []byte("binary"), 0o755}, files)) {
			t.Errorf("%s: two wheels differ", p.Name())
		}
		r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
		if err != nil {
			t.Fatal(err)
		}
		contents := map[string]string{}
		for _, f := range r.File {
			in, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			data, _ := io.ReadAll(in)
			contents[f.Name] = string(data)
		}
		record := contents["plimsoll_gpu-1.2.3.dist-info/RECORD"]
		for name, data := range contents {
			sum := sha256.Sum256([]byte(data))
			line := fmt.Sprintf("%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
			if !strings.HasSuffix(name, "/RECORD") && !strings.Contains(record, line) {
				t.Errorf("%s: RECORD lacks %s", p.Name(), line)
			}
		}
		for name, want := range map[string]string{
			"plimsoll_gpu-1.2.3.data/scripts/" + p.Program(): "binary",
			"plimsoll_gpu-1.2.3.dist-info/METADATA":          "Name: plimsoll-gpu\nVersion: 1.2.3\n",
			"plimsoll/__init__.py":                           "def start(",
			"plimsoll/__main__.py":                           "find()",
		} {
			if !strings.Contains(contents[name], want) {
				t.Errorf("%s: %s lacks %q", p.Name(), name, want)
			}
		}
		if strings.Contains(contents["plimsoll_gpu-1.2.3.dist-info/METADATA"], "](docs/") {
			t.Errorf("the description has links that lead nowhere on PyPI")
		}
		if _, there := contents["plimsoll_gpu-1.2.3.data/data/share/man/man1/plimsoll-explain.1"]; there != (p.OS != "windows") {
			t.Errorf("%s: man page there: %v", p.Name(), there)
		}
	}
}

func TestEveryPlatformHasTagsOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, p := range platforms {
		for tag := range strings.SplitSeq(p.Wheel, ".") {
			if seen[tag] != "" {
				t.Errorf("%s and %s share the tag %s", seen[tag], p.Name(), tag)
			}
			seen[tag] = p.Name()
			if p.Musl != strings.HasPrefix(tag, "musllinux") || p.Musl != (p.Tags == "nogpu") {
				t.Errorf("%s: only a static binary is for musl, and every one for musl is static: tag %s, build tags %q", p.Name(), tag, p.Tags)
			}
		}
	}
}

func TestAnArchiveUnpacksToAProgramWithItsManual(t *testing.T) {
	files := append(packageFiles(t), entry{"plimsoll", []byte("binary"), 0o755})
	packed := platforms[0].archive("plimsoll-1.2.3-linux-amd64", files, example.Date)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*tar.Header{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(h.Name, "plimsoll-1.2.3-linux-amd64/")] = h
	}
	for _, name := range []string{"plimsoll", "README.md", "man/man1/plimsoll.1", "man/man1/plimsoll-mcp.1", "completions/plimsoll.bash", "completions/_plimsoll", "completions/plimsoll.fish"} {
		if h := found[name]; h == nil || !h.ModTime.Equal(example.Date) {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if found["plimsoll"].Mode != 0o755 {
		t.Errorf("the program has mode %o", found["plimsoll"].Mode)
	}
}

func TestABinaryThatLoadsLibrariesIsNotForMusl(t *testing.T) {
	t.Parallel()
	self, err := os.Executable() // opens the driver's library as plimsoll does
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := (platform{OS: runtime.GOOS, Musl: true}).checkLinks(binary); err == nil && runtime.GOOS == "linux" {
		t.Error("a dynamic binary passes for one that runs on musl")
	}
}

func TestABinaryThatCallsMethodsByNameIsRefused(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := template.Must(template.New("").Parse("{{.Name}}")).Execute(&out, platforms[0]); err != nil || out.String() != "linux/amd64" { // as text/template does
		t.Fatalf("%q: %v", out.String(), err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if checkMethods(binary) == nil {
		t.Error("a binary with text/template passes")
	}
}

func TestTheBillOfMaterialsListsTheModulesOfABinary(t *testing.T) {
	t.Parallel()
	self, err := os.Executable() // a Go binary like any other
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	text, err := billOfMaterials(example, platforms[0], binary)
	if err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(text, &b); err != nil || b.Format != "CycloneDX" || len(b.Metadata.Component.Hashes) != 1 {
		t.Fatalf("%v %s", err, text)
	}
	if !strings.Contains(string(text), "pkg:golang/github.com/spf13/cobra@v") {
		t.Errorf("no cobra in %s", text)
	}
}

func TestTheFormulaNamesArchivesAndSums(t *testing.T) {
	t.Parallel()
	sums := map[string]string{"plimsoll-1.2.3-linux-amd64.tar.gz": "11", "plimsoll-1.2.3-darwin-arm64.tar.gz": "22"}
	text := string(formula(example, sums))
	for _, want := range []string{`version "1.2.3"`, `/v1.2.3/plimsoll-1.2.3-darwin-arm64.tar.gz"` + "\n      sha256 \"22\"", "on_linux do\n    on_intel do"} {
		if !strings.Contains(text, want) {
			t.Errorf("the formula lacks %q:\n%s", want, text)
		}
	}
	if strings.Count(text, "url ") != 2 {
		t.Errorf("the formula offers archives that were not built:\n%s", text)
	}
}

// The README's install lines are what the tests carry out (scripts/test-install.sh, and below what a machine without the outside can check).
func TestTheReadmesInstallLinesAreThoseThatAreTested(t *testing.T) {
	t.Chdir("../..")
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	_, section, _ := strings.Cut(read("README.md"), "## Install\n\n```sh\n")
	section, _, _ = strings.Cut(section, "```")
	script, goMod, docker := read("scripts/test-install.sh"), read("go.mod"), read("Dockerfile")
	checks := map[string]func(line string) bool{
		"pip install plimsoll-gpu":           func(string) bool { return strings.Contains(script, `install --quiet plimsoll-gpu`) },
		"uvx --from plimsoll-gpu plimsoll":   func(string) bool { return strings.Contains(script, "uvx --from plimsoll-gpu plimsoll") },
		"brew install plimsoll/tap/plimsoll": func(string) bool { return strings.Contains(string(formula(example, nil)), "class Plimsoll < Formula") },
		"docker run --rm -v \"$PWD:/work\" ghcr": func(string) bool {
			return strings.Contains(docker, "WORKDIR /work") && strings.Contains(docker, `ENTRYPOINT ["/usr/local/bin/plimsoll"]`)
		},
		"go install ./cmd/plimsoll": func(string) bool { return strings.Contains(script, "go install ./cmd/plimsoll") },
	}
	lines := strings.Split(strings.TrimSpace(section), "\n")
	if len(lines) != len(checks) {
		t.Errorf("%d install lines, %d checks", len(lines), len(checks))
	}
	for _, line := range lines {
		checked := false
		for start, check := range checks {
			if strings.HasPrefix(line, start) {
				checked = check(line)
			}
		}
		if !checked {
			t.Errorf("no test stands for the install line %q", line)
		}
	}
	wanted := regexp.MustCompile(`(?m)^go (1\.\d+)`).FindStringSubmatch(goMod)[1]
	if !strings.Contains(docker, "FROM golang:"+wanted+" ") || !strings.Contains(section, "Go "+wanted) {
		t.Errorf("go.mod wants Go %s; Dockerfile or README name another", wanted)
	}
	if version, err := projectVersion("pyproject.toml"); err != nil || version == "" {
		t.Errorf("version %q: %v", version, err)
	}
}
