package cli

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

// Configurations and settings that no model has end with the field's name and the exit code of unreadable input, not with a verdict.
func TestModelsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	const sizes = `"n_embd":8,"n_head":1`
	for name, c := range map[string]struct {
		config, want string
		code         int
		flags        []string
	}{
		"layers of null":       {config: `{"model_type":"gpt2","n_layer":null,"vocab_size":16,` + sizes + `}`, want: "n_layer is null", code: exitUnreadable},
		"no layers":            {config: `{"model_type":"gpt2","n_layer":0,"vocab_size":16,` + sizes + `}`, want: "n_layer: 0 is not a size", code: exitUnreadable},
		"a vocabulary of null": {config: `{"model_type":"gpt2","n_layer":1,"vocab_size":null,` + sizes + `}`, want: "vocab_size is null", code: exitUnreadable},
		"no positions":         {config: `{"model_type":"gpt2","n_layer":1,"vocab_size":16,"n_positions":0,` + sizes + `}`, want: "n_positions: 0 is not a size", code: exitUnreadable},
		"a dropout of NaN": {
			config: `{"model_type":"gpt2","n_layer":1,"vocab_size":16,` + sizes + `}`, want: "lora_dropout NaN", code: exitUsage,
			flags: []string{"--lora-rank", "2", "--lora-targets", "c_attn", "--lora-dropout", "NaN"},
		},
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte(c.config), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := invoke(t, "", append([]string{"predict", "--config", path, "--batch", "1", "--seq", "8"}, c.flags...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "Reshape") {
			t.Errorf("%s: exit %d, %q", name, code, stderr)
		}
	}
}

// A graph of a function has nothing to train: no verdict about it would mean anything.
func TestAGraphWithoutParametersIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model.json")
	write(t, path, strings.Replace(hostile.Graph, `{"parameter":{"arg":{"name":"w"},"parameter_name":"fc.weight"}}`, `{"user_input":{"arg":{"as_tensor":{"name":"w"}}}}`, 1))
	code, stdout, stderr := invoke(t, "", "predict", "--graph", path, "--batch", "4")
	if code != exitUnreadable || stdout != "" || !strings.Contains(stderr, "model.json") || !strings.Contains(stderr, "no input in its graph_signature is a parameter") {
		t.Errorf("exit %d, %q %q", code, stdout, stderr)
	}
}

// firstSize is the first size of a parameter in the text of a graph.
var firstSize = regexp.MustCompile(`("p_0_weight": \{"dtype": \d+, "sizes": \[\{"as_int": )\d+`)

func unpacked(t *testing.T, data []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || !firstSize.Match(text) {
		t.Fatalf("no size to change: %v", err)
	}
	return string(text)
}

// A graph whose sizes contradict each other says so in plain words.
func TestAGraphThatContradictsItselfIsRefused(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(graphs + "seed-mlp.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []string{"-4", "9000000000000000000", "0"} {
		text := firstSize.ReplaceAllString(unpacked(t, data), "${1}"+size)
		path := filepath.Join(t.TempDir(), "model.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := invoke(t, "", "predict", "--graph", path, "--batch", "4", "--loss", "cross-entropy")
		if code != exitUnreadable || stdout != "" || !strings.Contains(stderr, "model.json") {
			t.Errorf("a size of %s: exit %d, %q", size, code, stderr)
		}
	}
}
