package modelcode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// repository is a name on the Hugging Face hub: organisation/model, or an old model without organisation.
var repository = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$`)

// Locate finds the config.json that a person means: a file, a folder, the index of a checkpoint's weights, or a name on the Hugging Face
// hub whose configuration lies in the local cache.
func Locate(name string, env []string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return configIn(name)
	case err == nil && (strings.HasSuffix(name, ".index.json") || strings.HasSuffix(name, ".safetensors")):
		return configIn(filepath.Dir(name))
	case err == nil:
		return name, nil
	case !repository.MatchString(name) || strings.HasSuffix(name, ".json"):
		return "", fmt.Errorf("%s: no such file (the name of a model on the Hugging Face hub looks like Qwen/Qwen3-8B)", name)
	}
	dir := hubCache(env)
	repo := filepath.Join(dir, "models--"+strings.ReplaceAll(name, "/", "--"))
	for _, snapshot := range snapshots(repo) {
		if path, err := configIn(snapshot); err == nil {
			return path, nil
		}
	}
	return "", NotCached{Name: name, Dir: dir}
}

// NotCached says that a model's configuration is not on this machine.
type NotCached struct{ Name, Dir string }

func (n NotCached) Error() string {
	return fmt.Sprintf("%s is not in the local Hugging Face cache (%s).\nIts config.json is enough, a few kB. Add --download to fetch it, or run:\n  hf download %s config.json", n.Name, n.Dir, n.Name)
}

func configIn(dir string) (string, error) {
	path := filepath.Join(dir, "config.json")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s has no config.json", dir)
	}
	return path, nil
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
    from huggingface_hub import hf_hub_download
except ImportError:
    sys.exit("huggingface_hub is not installed")
try:
    print(hf_hub_download(sys.argv[1], "config.json"))
except Exception as problem:
    sys.exit(str(problem).strip().splitlines()[-1][:300])
`

// Download fetches the config.json of a model into the Hugging Face cache with huggingface_hub and gives its path.
func (r *Reader) Download(name string) (string, error) {
	path, err := r.interpreter()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(path, "-c", fetchConfig, name)
	cmd.Env = r.Env
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("%s was not downloaded: %s", name, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("%s was not downloaded: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
