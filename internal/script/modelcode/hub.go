package modelcode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/spelling"
)

// repository is a name on the Hugging Face hub: organisation/model, or an old model without organisation.
var repository = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$`)

// Found is the model that a name means.
type Found struct {
	Path    string          // of its config.json
	Config  json.RawMessage // instead of a file: what the name says by itself, a model of timm
	Part    string          // of a pipeline of diffusers: the folder of the part that is trained
	Adapter *Adapter        // of PEFT, where the name is that of an adapter: Path is then its base model's
}

// Locate finds the config.json that a person means: a file, a folder, the index of a checkpoint's weights, a name on the Hugging Face
// hub whose configuration lies in the local cache, or the name of a model of timm.
func Locate(name string, env []string) (Found, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return configIn(name, env)
	case err == nil:
		return file(name, env)
	}
	if model, ok := ofTimm(name); ok {
		return inTimm(name, model, env)
	}
	if !repository.MatchString(name) || strings.HasSuffix(name, ".json") {
		return Found{}, fmt.Errorf("%s: no such file (the name of a model on the Hugging Face hub looks like Qwen/Qwen3-8B)", name)
	}
	return cached(name, env)
}

// cached finds a name of the hub in the local cache.
func cached(name string, env []string) (Found, error) {
	dir := hubCache(env)
	repo := filepath.Join(dir, "models--"+strings.ReplaceAll(name, "/", "--"))
	for _, snapshot := range snapshots(repo) {
		found, err := configIn(snapshot, env)
		var missing NoConfig
		if !errors.As(err, &missing) {
			return found, err
		}
	}
	return Found{}, NotCached{Name: name, Dir: dir, Near: near(name, dir)}
}

// weights are the endings of files that hold a model's weights: its config.json lies beside them.
var weights = []string{".index.json", ".safetensors", ".bin", ".pt", ".pth", ".ckpt"}

// file is the configuration that a file is, or that lies beside it.
func file(name string, env []string) (Found, error) {
	if begins(name, "GGUF") {
		return Found{}, fmt.Errorf("%s is a GGUF file, quantized weights for llama.cpp, which are not trained: name the model it was made from, for example Qwen/Qwen3-8B", name)
	}
	if slices.ContainsFunc(weights, func(ending string) bool { return strings.HasSuffix(name, ending) }) {
		return configIn(filepath.Dir(name), env)
	}
	if base := filepath.Base(name); base == adapterFile || base == pipelineFile {
		return configIn(filepath.Dir(name), env)
	}
	return Found{Path: name}, nil
}

// begins tells whether a file starts with these bytes.
func begins(name, magic string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == magic
}

// Files that folders of models have in place of a config.json, or beside it.
const (
	configFile   = "config.json"
	adapterFile  = "adapter_config.json"
	pipelineFile = "model_index.json"
)

// trained are the parts of a pipeline of diffusers that its scripts train, in the order they are looked for.
var trained = []string{"unet", "transformer", "prior", "decoder", "vae"}

// configIn finds the configuration in a folder: a model's own, that of the trained part of a pipeline, or that of the model an adapter is for.
func configIn(dir string, env []string) (Found, error) {
	own := filepath.Join(dir, configFile)
	if exists(own) && !exists(filepath.Join(dir, pipelineFile)) {
		return Found{Path: own}, nil
	}
	if exists(filepath.Join(dir, adapterFile)) {
		return adapted(dir, env)
	}
	for _, part := range trained {
		if path := filepath.Join(dir, part, configFile); exists(path) {
			return Found{Path: path, Part: part}, nil
		}
	}
	if exists(own) {
		return Found{Path: own}, nil
	}
	return Found{}, NoConfig{Dir: dir}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// NoConfig says that a folder has no configuration of a model.
type NoConfig struct{ Dir string }

func (n NoConfig) Error() string {
	return fmt.Sprintf("%s has no config.json (nor a pipeline's model_index.json, nor an adapter_config.json)", n.Dir)
}

// NotCached says that a model's configuration is not on this machine.
type NotCached struct {
	Name, Dir string
	Near      []string // models in the cache whose names are almost this one
}

func (n NotCached) Error() string {
	text := fmt.Sprintf("%s is not in the local Hugging Face cache (%s).", n.Name, n.Dir)
	if len(n.Near) > 0 {
		text += fmt.Sprintf("\nDid you mean %s, which is?", strings.Join(n.Near, " or "))
	}
	text += fmt.Sprintf("\nIts config.json is enough, a few kB. Add --download to fetch it, or run:\n  hf download %s --include \"*config.json\"", n.Name)
	if !strings.Contains(n.Name, "/") {
		text += fmt.Sprintf("\nA model of timm is named timm:%s.", n.Name)
	}
	return text
}

// near are the names of cached models that are almost this one.
func near(name, dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var known []string
	for _, e := range entries {
		if model, ok := strings.CutPrefix(e.Name(), "models--"); ok {
			known = append(known, strings.ReplaceAll(model, "--", "/"))
		}
	}
	found := spelling.Near(name, known)
	return found[:min(len(found), 3)]
}

// ofTimm tells the name of a model of timm: timm:resnet50, timm/resnet50.a1_in1k as the hub has it, or with hf-hub: in front as timm writes it.
func ofTimm(name string) (model string, ok bool) {
	model = strings.TrimPrefix(strings.TrimPrefix(name, "hf-hub:"), "hf_hub:")
	for _, prefix := range []string{"timm:", "timm/"} {
		if model, ok := strings.CutPrefix(model, prefix); ok {
			return model, timmName.MatchString(model)
		}
	}
	return "", false
}

var timmName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*$`)

// inTimm is a model of timm: its configuration in the cache of the hub, else what its name says, which timm knows the rest of.
func inTimm(name, model string, env []string) (Found, error) {
	if !strings.HasPrefix(name, "timm:") {
		if found, err := cached("timm/"+model, env); err == nil {
			return found, nil
		}
	}
	config, err := json.Marshal(map[string]string{"architecture": model})
	if err != nil {
		return Found{}, fmt.Errorf("name a model of timm: %w", err)
	}
	return Found{Config: config}, nil
}

// hubCache is where huggingface_hub keeps what it fetched.
func hubCache(env []string) string {
	vars := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	switch {
	case vars["HF_HUB_CACHE"] != "":
		return vars["HF_HUB_CACHE"]
	case vars["HF_HOME"] != "":
		return filepath.Join(vars["HF_HOME"], "hub")
	case vars["XDG_CACHE_HOME"] != "":
		return filepath.Join(vars["XDG_CACHE_HOME"], "huggingface", "hub")
	}
	return filepath.Join(vars["HOME"], ".cache", "huggingface", "hub")
}

// snapshots lists the fetched revisions of a repository: what main is first, then the others by name.
func snapshots(repo string) []string {
	var out []string
	if main, err := os.ReadFile(filepath.Join(repo, "refs", "main")); err == nil {
		if rev := strings.TrimSpace(string(main)); repository.MatchString(rev) {
			out = append(out, filepath.Join(repo, "snapshots", rev))
		}
	}
	entries, err := os.ReadDir(filepath.Join(repo, "snapshots"))
	if err != nil {
		return out
	}
	for _, e := range entries {
		if path := filepath.Join(repo, "snapshots", e.Name()); !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

const fetchConfig = `
import sys
try:
    from huggingface_hub import snapshot_download
except ImportError:
    sys.exit("huggingface_hub is not installed in " + sys.executable + "; run: " + sys.executable + " -m pip install huggingface_hub")
try:
    snapshot_download(sys.argv[1], allow_patterns=["*config.json", "model_index.json"])
except Exception as problem:
    lines = [line for line in str(problem).strip().splitlines() if line.strip()] or [type(problem).__name__]
    sys.exit(lines[-1][:300])
`

// Download fetches the configuration of a model into the Hugging Face cache with huggingface_hub.
func (r *Reader) Download(name string) error {
	path, err := r.interpreter()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "-c", fetchConfig, name)
	cmd.Env = r.Env
	_, err = cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%s was not downloaded: %s", name, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return fmt.Errorf("%s was not downloaded: %w", name, err)
	}
	return nil
}
