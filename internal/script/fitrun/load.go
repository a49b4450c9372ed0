package fitrun

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
)

// load reads a captured job and the graph that lies beside it.
func load(file string) (job.Job, *exported.Graph, error) {
	f, err := os.Open(file)
	if err != nil {
		return job.Job{}, nil, fmt.Errorf("read the captured job: %w", err)
	}
	defer f.Close()
	j, err := job.Read(f)
	if err != nil {
		return job.Job{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	if j.Loss == "" && j.Classes > 0 {
		j.Loss = "cross-entropy"
	}
	if err := j.Check(); err != nil {
		return job.Job{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	name := filepath.Join(filepath.Dir(file), filepath.Base(j.Graph))
	g, err := os.Open(name)
	if err != nil {
		return job.Job{}, nil, fmt.Errorf("read the captured graph: %w", err)
	}
	defer g.Close()
	info, err := g.Stat()
	if err != nil {
		return job.Job{}, nil, fmt.Errorf("read the captured graph: %w", err)
	}
	graph, err := exported.Read(g, info.Size())
	if err != nil {
		return job.Job{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	return j, graph, nil
}
