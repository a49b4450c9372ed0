package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/script/modelcode"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// fileJob is a job and the folder its file names are relative to.
type fileJob struct {
	job.Job
	dir    string
	file   string // that describes it
	where  string // its file and line among other jobs
	broken error  // what is wrong with its line of a file; the other lines are as good as ever
}

func (j fileJob) path(name string) string {
	if filepath.IsAbs(name) || j.dir == "" {
		return name
	}
	return filepath.Join(j.dir, name)
}

func readJobFile(env Env, name string) (fileJob, error) {
	var r io.Reader = env.Stdin
	dir := ""
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fileJob{}, unreadable(fmt.Errorf("read the job: %w", err))
		}
		defer f.Close()
		r, dir = f, filepath.Dir(name)
	}
	j, err := job.Read(r)
	if err != nil && !job.Incomplete(err) { // flags come later, and what is still missing then is refused
		return fileJob{}, unreadable(fmt.Errorf("%s: %w", inputName(name), err))
	}
	return fileJob{Job: j, dir: dir, file: name}, nil
}

// inputName is what a person calls an input.
func inputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// jobLines opens a JSONL file of jobs, to be read as they are needed.
func jobLines(env Env, name string) (lines iter.Seq[fileJob], stop func() error, err error) {
	var r io.Reader = env.Stdin
	dir, stop := "", func() error { return nil }
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, unreadable(fmt.Errorf("read the jobs: %w", err))
		}
		r, dir, stop = f, filepath.Dir(name), f.Close
	}
	return func(yield func(fileJob) bool) {
		for l := range job.Lines(r) {
			j := fileJob{Job: l.Job, dir: dir, where: fmt.Sprintf("%s, line %d: ", inputName(name), l.Number)}
			if j.ID == "" {
				j.ID = fmt.Sprintf("line %d", l.Number)
			}
			if l.Err != nil && !job.Incomplete(l.Err) {
				j.broken = fmt.Errorf("%s, %w", inputName(name), l.Err)
			}
			if !yield(j) {
				return
			}
		}
	}, stop, nil
}

// modelFiles reads graphs once, however many jobs name them, and keeps the last few; jobs may ask from several goroutines.
type modelFiles struct {
	mu     sync.Mutex
	graphs map[string]func() (*exported.Graph, error)
	code   *modelcode.Reader
}

// newModelFiles reads models that are not built in with a Python; empty: the one at hand.
func newModelFiles(env Env, python string) *modelFiles {
	code := &modelcode.Reader{Python: python, Env: env.environ()}
	if env.StderrIsTerminal {
		code.Told = env.Stderr
	}
	return &modelFiles{graphs: map[string]func() (*exported.Graph, error){}, code: code}
}

// source reads the model of a job, fills in what the model decides and checks the job.
func (m *modelFiles) source(j *fileJob) (predict.Source, error) {
	if j.Graph != "" && len(j.Config) == 0 && j.ConfigFile == "" {
		g, err := m.graph(j.path(j.Graph))
		if err != nil {
			return predict.Source{}, unreadable(err)
		}
		if j.Loss == "" && j.Classes > 0 {
			j.Loss = "cross-entropy"
		}
		return predict.Source{Graph: g}, checked(j)
	}
	if err := m.locate(j); err != nil {
		return predict.Source{}, unreadable(err)
	}
	if len(j.Config) == 0 && j.ConfigFile == "" {
		return predict.Source{}, checked(j)
	}
	data, err := configText(j)
	if err != nil {
		return predict.Source{}, unreadable(err)
	}
	quantized(j, hfconfig.QuantizationOf(data))
	c, err := hfconfig.Parse(data)
	if errors.Is(err, hfconfig.ErrUnsupported) {
		return m.fromCode(j, data, err)
	}
	if err != nil {
		return predict.Source{}, unreadable(named(j, err))
	}
	if j.Task == "" {
		j.Task = c.Task()
	}
	if j.Image == 0 && c.Has("image_size") && j.Task == "image-cls" {
		j.Image = c.Int("image_size")
	}
	if (j.Task != c.Family.Task || j.Attn == setup.FlashAttention2) && !predict.HasHead(j.Job, c) {
		missing := fmt.Errorf("model_type %q has no head for task %q here", c.Type, j.Task)
		if j.Attn == setup.FlashAttention2 {
			missing = fmt.Errorf("model_type %q is not built in with attn %s", c.Type, j.Attn)
		}
		return m.fromCode(j, data, missing)
	}
	return predict.Source{Config: c}, checked(j)
}

// locate finds the configuration of a job that names its model: config_file as a name on the hub, or model alone.
func (m *modelFiles) locate(j *fileJob) error {
	name := cmp.Or(j.ConfigFile, j.Model)
	switch {
	case len(j.Config) > 0 || name == "":
		return nil
	case j.ConfigFile != "":
		info, err := os.Stat(j.path(name))
		if err == nil && !info.IsDir() || err != nil && (filepath.IsAbs(name) || strings.HasSuffix(name, ".json")) {
			return nil // a file, or one that is missing
		}
		if err == nil {
			name = j.path(name)
		}
	}
	found, err := modelcode.Locate(name, m.code.Env)
	switch {
	case err != nil && j.file != "" && j.ConfigFile == "":
		return fmt.Errorf("%s: \"model\": %w", inputName(j.file), err)
	case err != nil:
		return err
	}
	j.ConfigFile, j.dir = found.Path, ""
	asFound(j, found)
	return nil
}

// quantized says how weights are counted that were saved in fewer bits; adapters are trained on them as they are.
func quantized(j *fileJob, q hfconfig.Quantization) {
	if j.BaseBits > 0 || q.Method == "" {
		return
	}
	if bits := q.Base(); bits > 0 && j.LoRARank > 0 {
		j.BaseBits = bits
		j.Notes = append(j.Notes, fmt.Sprintf("the frozen base has %d bits, as its quantization_config says (%s)", bits, q.Method))
		return
	}
	j.Notes = append(j.Notes, q.Note(string(cmp.Or(j.ParamDType, torch.FP32))))
}

func checked(j *fileJob) error {
	if err := j.Check(); err != nil {
		return usageError("%w", err)
	}
	return nil
}

// fromCode reads a model that is not built in from its modelling code.
func (m *modelFiles) fromCode(j *fileJob, config []byte, unsupported error) (predict.Source, error) {
	if err := j.Attn.Runs(j.Precision()); err != nil {
		return predict.Source{}, usageError("%w", err)
	}
	config = hfconfig.StandardJSON(config)
	about := hfconfig.About(config)
	said := j.Job // what the model's code decides itself is no part of the question, so that every question is the same
	read := func(asked job.Job) (*exported.Graph, error) {
		asked.Task, asked.Image, asked.Frames = said.Task, said.Image, said.Frames
		return m.code.Graph(asked, config)
	}
	g, err := read(j.Job)
	switch {
	case errors.Is(err, modelcode.ErrNoPython):
		return predict.Source{}, unreadable(named(j, unread{unsupported, err}))
	case modelcode.Asks(err):
		return predict.Source{}, unreadable(named(j, err))
	case err != nil:
		return predict.Source{}, unreadable(named(j, fmt.Errorf("%w, and %w; a script that trains it can be captured instead: plimsoll predict -- python train.py", unsupported, err)))
	}
	j.Task = g.Trace.Task
	if j.Image == 0 && j.Task == "image-cls" {
		j.Image = about.Image
	}
	if j.Model == "" {
		j.Model = about.Type
	}
	if lib, _ := hfconfig.LibraryOf(config); lib != hfconfig.Transformers && j.Load == "" {
		j.Load = setup.LoadHost // scripts of timm and diffusers build the model on the host and move it
	}
	if err := checked(j); err != nil {
		return predict.Source{}, err
	}
	j.CheckpointModules = g.Trace.Checkpoints
	return predict.Source{Graph: g, Read: read}, nil
}

// unread says that a model is not built in, and that there is no Python to read it with.
type unread struct {
	reason error // why no built-in model serves
	python error // what is missing, and how to install it
}

func (u unread) Error() string {
	return fmt.Sprintf("%v, and cannot be read from its own code: %v", u.reason, u.python)
}

func (u unread) Unwrap() []error { return []error{u.reason, u.python} }

// named puts the file of a job's model in front of an error about it.
func named(j *fileJob, err error) error {
	switch {
	case j.ConfigFile != "":
		path := j.path(j.ConfigFile)
		if folder, ok := strings.CutSuffix(path, "config.json"); ok && strings.HasPrefix(err.Error(), "config.json") {
			return fmt.Errorf("%s%w", folder, err) // the error names the file already
		}
		return fmt.Errorf("%s: %w", path, err)
	case j.Graph != "":
		return fmt.Errorf("%s: %w", j.path(j.Graph), err)
	case j.file != "":
		return fmt.Errorf("%s: %w", j.file, err)
	}
	return err
}

// configText is the configuration of a job, written in it or in a file of its own.
func configText(j *fileJob) ([]byte, error) {
	if len(j.Config) > 0 {
		return j.Config, nil
	}
	name := j.path(j.ConfigFile)
	if info, err := os.Stat(name); err == nil && info.IsDir() { // a model's folder, as it is downloaded
		name = filepath.Join(name, "config.json")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return data, nil
}

// maxConfig is more than any configuration has; the reader refuses what is longer than it takes.
const maxConfig = 8 << 20

// maxGraphs is how many graphs are kept at a time.
const maxGraphs = 16

func (m *modelFiles) graph(name string) (*exported.Graph, error) {
	m.mu.Lock()
	read, ok := m.graphs[name]
	if !ok {
		if len(m.graphs) >= maxGraphs { // a file of jobs may name any number
			clear(m.graphs)
		}
		read = sync.OnceValues(func() (*exported.Graph, error) { return readGraph(name) })
		m.graphs[name] = read
	}
	m.mu.Unlock()
	return read()
}

func readGraph(name string) (*exported.Graph, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the graph: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the graph: %w", err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("read the graph: %s is a directory", name)
	}
	g, err := exported.Read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return g, nil
}

// parseSizes reads "3,224,224".
func parseSizes(text string) ([]int, error) {
	var sizes []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("%q is not a list of sizes like 3,224,224", text)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// compareWeights counts the parameters of safetensors files and says whether the model has as many. Files may leave tied weights out, and
// may hold buffers.
func compareWeights(names []string, r *report.Prediction) error {
	if len(names) == 0 {
		return nil
	}
	var stored int64
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return unreadable(fmt.Errorf("read the weights: %w", err))
		}
		h, err := hfconfig.ReadHeader(f)
		f.Close()
		if err != nil {
			return unreadable(fmt.Errorf("%s: %w", name, err))
		}
		stored += h.Parameters()
	}
	r.Stored = stored
	note := fmt.Sprintf("the weights hold %s parameters, as the model does", units.Count(int(stored)))
	if stored != r.Params {
		note = fmt.Sprintf("the weights hold %s parameters, the model %s: check that they belong together", units.Count(int(stored)), units.Count(int(r.Params)))
	}
	r.Assumptions = append(r.Assumptions, note)
	return nil
}
