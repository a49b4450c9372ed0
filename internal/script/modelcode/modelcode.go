// Package modelcode reads models from their own modelling code: the transformers, timm or diffusers that is installed beside Plimsoll.
//
// It takes a config.json and the sizes and precision of a job and returns the graph of its training step, written down while the model ran on tensors without
// data (probe, _serve.py). Nothing is computed, no weights are needed, no code of a model's repository is run. Graphs are kept in a cache by configuration,
// precision and versions: asking again, also for other batches and sequences, starts no Python. Refused with the reason: a Python without torch or
// the model's library, and models whose step depends on data.
package modelcode

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/script/probe"
)

// Reader reads models with one Python. The zero value of a field means: the usual one.
type Reader struct {
	Python string    // the interpreter; empty: a virtual environment's, else python3 on PATH
	Cache  string    // folder of graphs; empty: the user's cache
	Env    []string  // environment of the interpreter
	Told   io.Writer // is told that reading takes a while; nil: nobody

	mu      sync.Mutex
	read    map[string]*exported.Graph
	found   map[hfconfig.Library]*python
	missing map[hfconfig.Library]error // why none was found: looking again would only start Python again
	asks    map[hfconfig.Library]*server
}

// request is what the probe is asked for (_serve.py).
type request struct {
	Library    string          `json:"library,omitempty"` // whose model it is; empty: transformers'
	Config     json.RawMessage `json:"config"`
	Task       string          `json:"task,omitempty"`
	Batch      int             `json:"batch,omitempty"`
	Seq        int             `json:"seq,omitempty"`
	TargetSeq  int             `json:"target_seq,omitempty"`
	Image      int             `json:"image,omitempty"`
	Frames     int             `json:"frames,omitempty"`
	ParamDType string          `json:"param_dtype,omitempty"`
	Autocast   string          `json:"autocast,omitempty"`
	Attn       string          `json:"attn,omitempty"`
	UseCache   bool            `json:"use_cache,omitempty"`
	Routing    string          `json:"routing,omitempty"`
}

// Graph is the training step of a job whose model is this configuration.
func (r *Reader) Graph(j job.Job, config []byte) (*exported.Graph, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lib, _ := hfconfig.LibraryOf(config)
	p, err := r.with(lib)
	if err != nil {
		return nil, err
	}
	q := request{
		Config: config, Task: j.Task, Batch: max(j.Batch, 1), Seq: j.Seq, TargetSeq: j.TargetSeq, Image: j.Image, Frames: j.Frames,
		ParamDType: string(j.ParamDType), Autocast: string(j.Autocast), Attn: string(j.Attn), UseCache: j.UseCache, Routing: j.Routing,
	}
	if q.Attn == "sdpa" { // the default, where the model has it
		q.Attn = ""
	}
	if q.ParamDType == "" || j.BaseBits > 0 { // everything beside a quantized base is raised to fp32 (prepare_model_for_kbit_training)
		q.ParamDType = "fp32"
	}
	if lib != hfconfig.Transformers {
		q.Library = string(lib)
	}
	open, closed, err := r.names(p, q)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{open, closed} {
		if g := r.known(name); g != nil {
			return g, nil
		}
	}
	return r.ask(p, q, open, closed)
}

// reading are the files of the probe that decide what a graph looks like.
var reading = []string{"_models.py", "_inputs.py", "_fields.py", "_numbers.py", "_parts.py", "_sounds.py", "_pictures.py", "_forward.py", "_answers.py", "_shapes.py", "_layers.py", "_flash.py", "_functions.py", "_packages.py", "_timm.py", "_diffusers.py", "_serve.py"}

// readingCode are these files in a row. They are part of the program, and a prediction asks for several graphs.
var readingCode = sync.OnceValues(func() (code []byte, err error) {
	err = fs.WalkDir(probe.Files(), "plimsoll", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains(reading, d.Name()) {
			return err
		}
		data, err := fs.ReadFile(probe.Files(), path)
		code = append(code, data...)
		return err
	})
	return code, err
})

// names are where the graph lies: for any batch and sequence, or for the sizes of the request where the model's operators depend on them.
func (r *Reader) names(p *python, q request) (open, closed string, err error) {
	code, err := readingCode()
	if err != nil {
		return "", "", fmt.Errorf("read the probe: %w", err)
	}
	sizes := fmt.Sprintf("%d-%d-%d", q.Seq, q.TargetSeq, q.Batch)
	q.Batch, q.Seq, q.TargetSeq = 0, 0, 0
	text, err := json.Marshal(q)
	if err != nil {
		return "", "", fmt.Errorf("describe the model: %w", err)
	}
	hash := sha256.New()
	hash.Write(code)
	fmt.Fprintf(hash, "%s %s %s", text, p.Torch, p.Version)
	key := fmt.Sprintf("%x", hash.Sum(nil)[:16])
	return filepath.Join(r.cache(), key+".graph"), filepath.Join(r.cache(), key+"-"+sizes+".graph"), nil
}

func (r *Reader) cache() string {
	if r.Cache != "" {
		return r.Cache
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "plimsoll", "models")
}

// known is a graph that was read before; nil where there is none, or none that can be read.
func (r *Reader) known(name string) *exported.Graph {
	if g := r.read[name]; g != nil {
		return g
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	g, err := exported.Unpack(data)
	if err != nil || g.Trace == nil {
		return nil
	}
	r.keep(name, g)
	return g
}

func (r *Reader) keep(name string, g *exported.Graph) {
	if r.read == nil {
		r.read = map[string]*exported.Graph{}
	}
	r.read[name] = g
}

// ask has Python read the model.
func (r *Reader) ask(p *python, q request, open, closed string) (*exported.Graph, error) {
	dir, err := os.MkdirTemp("", "plimsoll-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the model: %w", err)
	}
	defer os.RemoveAll(dir)
	asked, out := filepath.Join(dir, "request.json"), filepath.Join(dir, "graph.json.gz")
	text, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("describe the model: %w", err)
	}
	if err := os.WriteFile(asked, text, 0o600); err != nil {
		return nil, fmt.Errorf("describe the model: %w", err)
	}
	if r.Told != nil {
		fmt.Fprintf(r.Told, "plimsoll: reading the model from the code of %s %s; this takes up to a minute, once\n", p.Library, p.Version)
	}
	killed, err := r.answered(p, asked, out)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return nil, failure(out, killed)
	}
	g, err := exported.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read the model's step: %w", err)
	}
	name := open
	if g.Trace == nil || !g.Trace.Fits(q.Seq > 0, q.TargetSeq > 0) {
		name = closed
	}
	r.keep(name, g)
	if packed, err := exported.Pack(g); err == nil {
		store(name, packed)
	}
	return g, nil
}

// store keeps a graph for the next time. A cache that cannot be written costs time, nothing else.
func store(name string, data []byte) {
	if os.MkdirAll(filepath.Dir(name), 0o755) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(name), "new-*")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if errors.Join(err, f.Close()) != nil || os.Rename(f.Name(), name) != nil {
		os.Remove(f.Name())
	}
}

// environ lets Python find the probe, and keeps it from the GPU and the network.
func (r *Reader) environ(dir string) []string {
	env := probe.Environ(r.Env, dir, probe.Settings{})
	return append(env, "CUDA_VISIBLE_DEVICES=", "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "TOKENIZERS_PARALLELISM=false")
}

// Failed says why a model could not be read from its code.
type Failed struct {
	Why  string `json:"why"`
	Asks bool   `json:"asks"` // the job has to say something more
}

func (f Failed) Error() string {
	if f.Asks {
		return f.Why
	}
	return "the model was not read from its code: " + f.Why
}

// Asks tells a failure that ends when the job says something more, such as the length of its sequences.
func Asks(err error) bool {
	var f Failed
	return errors.As(err, &f) && f.Asks
}

func failure(out string, killed bool) error {
	var f Failed
	data, err := os.ReadFile(out + ".failure")
	switch {
	case err == nil && json.Unmarshal(data, &f) == nil:
		return f
	case killed:
		return Failed{Why: "Python was killed; there may be too little memory"}
	}
	return Failed{Why: "Python ended before it had read the model"}
}
