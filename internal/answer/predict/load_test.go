package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// tiedJob is a job on a model whose head is its table of embeddings.
func tiedJob(t *testing.T) (job.Job, Source) {
	t.Helper()
	for _, row := range measuredRows(t) {
		if row.Model == "gpt2" && row.Accumulate == 1 && !row.Checkpointing {
			src, err := source(t, row.Job)
			if err != nil {
				t.Fatal(err)
			}
			return row.Job, src
		}
	}
	t.Fatal("no row of gpt2")
	return job.Job{}, Source{}
}

// loading is the most that is allocated before the first step, and what is then.
func loading(t *testing.T, tp *tape.Tape) (most, after units.Bytes) {
	t.Helper()
	loads := true
	if _, err := alloc.Run(tp, alloc.Policy{}, func(i int, a *alloc.Allocator) {
		if e := tp.Events[i]; e.Kind == tape.Mark {
			loads = tp.Moments[e.Owner].Phase == eager.PhaseLoad
		}
		if loads {
			after = a.Stats().Allocated
			most = max(most, after)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return most, after
}

func TestATiedHeadIsThereTwiceOnlyWhereTheModelIsBuiltOnTheCard(t *testing.T) {
	t.Parallel()
	j, src := tiedJob(t)
	j.LoRARank, j.LoRATargets = 8, []string{"c_attn"}
	const table = 50257 * 768 * 4
	for _, c := range []struct {
		load setup.Load
		bits int
		over units.Bytes // above what is loaded in the end
	}{{setup.LoadCard, 0, table}, {setup.LoadHost, 0, 0}, {setup.LoadMapped, 0, 0}, {"", 0, 0}, {"", 4, 0}} {
		k := j
		k.Load, k.BaseBits = c.load, c.bits
		p, _, _, err := train(k, src, h200(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		most, after := loading(t, p.Tape())
		if over := most - after; over < c.over-1<<20 || over > c.over+1<<20 {
			t.Errorf("load %q, %d bits: at most %d bytes while it is loaded, %d after it; want %d between them", c.load, c.bits, most, after, c.over)
		}
	}
}

func TestOneBlockIsTakenAheadOfWhatADeviceMapReads(t *testing.T) {
	t.Parallel()
	j, src := tiedJob(t)
	j.Load, j.LoRARank, j.LoRATargets = setup.LoadMapped, 8, []string{"c_attn"}
	for _, bits := range []int{0, 4} {
		j.BaseBits = bits
		p, _, _, err := train(j, src, h200(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		read := units.Bytes(0)
		for _, e := range p.Tape().Events {
			if e.Kind == tape.Alloc && p.Tape().Owners[e.Owner].Op == tape.OpRead {
				read += e.Size
			}
		}
		for _, e := range p.Tape().Events {
			if e.Kind == tape.Alloc {
				if owner := p.Tape().Owners[e.Owner]; owner.Op != tape.OpAhead || e.Size != read || read == 0 {
					t.Errorf("%d bits: the first block is %q with %d bytes; %d are read", bits, owner.Op, e.Size, read)
				}
				break
			}
		}
		got, r, err := NewVariants(src, h200(t)).tapeOf(j, setup.Cut{})
		if err != nil {
			t.Fatal(err)
		}
		if err := sameTape(got, p.Tape()); err != nil || r.zones == nil {
			t.Errorf("%d bits, zones %v: %v", bits, r.zones, err)
		}
	}
}
