package fitrun

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/observe"
)

func TestOneOfSeveralDecidersLeavesTheJobAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args    []string
		environ []string
		want    string
	}{
		{[]string{"torchrun", "--nnodes", "2", "train.py"}, nil, "several machines (--nnodes 2)"},
		{[]string{"torchrun", "--nnodes=1:4", "train.py"}, nil, "several machines (--nnodes 1:4)"},
		{[]string{"accelerate", "launch", "--num_machines", "2", "train.py"}, nil, "several machines (--num-machines 2)"},
		{[]string{"srun", "python", "train.py"}, []string{"SLURM_NNODES=2"}, "several machines (SLURM_NNODES=2)"},
		{[]string{"python", "train.py"}, []string{"WORLD_SIZE=4", "RANK=1"}, "one rank of several (WORLD_SIZE=4)"},
		{[]string{"python", "train.py"}, []string{"SLURM_NNODES=2"}, ""},
		{[]string{"torchrun", "--nnodes", "1", "train.py", "--nnodes-of-tree=x"}, nil, ""},
	} {
		if got := beyondUs(c.args, observe.Request{Env: c.environ}.Variable); !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%v %v: %q, want %q", c.args, c.environ, got, c.want)
		}
	}
}
