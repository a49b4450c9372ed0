package diagnose_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/explain"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// A made-up training program: it asks the allocator model for memory as PyTorch would, with the stacks PyTorch would record, and
// dies where the card is full. What it leaves is a snapshot as torch.cuda.memory._dump_snapshot writes one.
type program struct {
	a       *alloc.Allocator
	card    units.Bytes
	conf    map[string]any
	nextID  uint32
	now     int64
	events  []map[string]any
	notes   []map[string]any
	stacks  map[uint32][]map[string]any
	dead    bool // a request failed and nobody caught the error
	failed  int
	started bool // something ran on the card: the libraries have their workspaces

	layers     int
	parameter  units.Bytes // of one layer
	activation units.Bytes // that a layer keeps, at scale 1
	params     []*tensor
	grads      []*tensor
	engine     string // the stack of the autograd engine's thread, "" unless C++ frames were recorded
	state      []*tensor
	graph      []*tensor
}

type tensor struct {
	id   uint32
	size units.Bytes
	gone bool
}

// on makes a program with eight layers for a card.
func on(card units.Bytes) *program { return under(card, alloc.Conf{}) }

func under(card units.Bytes, conf alloc.Conf) *program {
	p := &program{card: card, now: 1_700_000_000_000_000, stacks: map[uint32][]map[string]any{}, layers: 8, parameter: 64 * units.MiB, activation: 48 * units.MiB,
		conf: map[string]any{"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0, "expandable_segments": conf.Expandable}}
	p.a = alloc.New(alloc.Policy{Device: card, Conf: conf, OnSegment: p.segment, Streams: []uint64{0, 7}, Pools: [][2]uint64{{0, 0}, {0, 1}}})
	return p
}

// get asks for memory. where is a stack, innermost first, its frames separated by "|": see frames.
func (p *program) get(size units.Bytes, where string) *tensor { return p.take(size, where, 0, 0) }

func (p *program) take(size units.Bytes, where string, stream, pool uint16) *tensor {
	t := &tensor{id: p.nextID, size: size, gone: true}
	if p.dead {
		return t
	}
	p.nextID++
	stack := frames(where)
	if !p.a.Malloc(t.id, size, stream, pool) {
		free := p.card - p.a.LastFailure().Stats.Reserved
		p.record(map[string]any{"action": "oom", "device_free": free, "size": p.a.LastFailure().Rounded, "stream": 0, "frames": stack})
		p.dead = true
		p.failed++
		return t
	}
	t.gone = false
	p.stacks[t.id] = stack
	p.record(map[string]any{"action": "alloc", "addr": p.a.Address(t.id), "size": size, "stream": 7 * uint64(stream), "frames": stack})
	return t
}

// drop gives memory up.
func (p *program) drop(all ...*tensor) {
	for _, t := range all {
		if t == nil || t.gone || p.dead {
			continue
		}
		addr := p.a.Address(t.id)
		p.a.Free(t.id, false)
		t.gone = true
		for _, action := range []string{"free_requested", "free_completed"} {
			p.record(map[string]any{"action": action, "addr": addr, "size": t.size, "stream": 0, "frames": frames("")})
		}
	}
}

// hand gives memory up that another stream still uses.
func (p *program) hand(t *tensor) {
	if t.gone || p.dead {
		return
	}
	p.record(map[string]any{"action": "free_requested", "addr": p.a.Address(t.id), "size": t.size, "stream": 0, "frames": frames("")})
	p.a.Free(t.id, true)
	t.gone = true
}

// caught lets the program go on after a failure, as after except.
func (p *program) caught() { p.dead = false }

func (p *program) record(e map[string]any) {
	p.now += 10
	e["time_us"] = p.now
	p.events = append(p.events, e)
}

func (p *program) segment(e alloc.SegmentEvent) {
	action := map[alloc.SegmentKind]string{alloc.SegmentAlloc: "segment_alloc", alloc.SegmentFree: "segment_free", alloc.SegmentMap: "segment_map", alloc.SegmentUnmap: "segment_unmap"}[e.Kind]
	p.record(map[string]any{"action": action, "addr": e.Address, "size": e.Size, "stream": 7 * uint64(e.Stream), "frames": frames("")})
}

// scope records what torch.profiler.record_function does around a call; PyTorch wraps Optimizer.step so.
func (p *program) scope(name string, body func()) {
	if p.dead {
		return
	}
	p.now++
	p.notes = append(p.notes, map[string]any{"stage": "START", "name": name, "device": 0, "time_us": p.now})
	body()
	if p.dead {
		return
	}
	p.now++
	p.notes = append(p.notes, map[string]any{"stage": "END", "name": name, "device": 0, "time_us": p.now})
}

const (
	inTorch = "/home/me/venv/lib/python3.11/site-packages/torch/"
	inSite  = "/home/me/venv/lib/python3.11/site-packages/"
	inHome  = "/home/me/job/"
)

// frames writes a stack out. "t:" stands for torch's folder, "s:" for that of other packages, and "call" for the two frames of a module's call.
func frames(stack string) []map[string]any {
	all := []map[string]any{}
	if stack == "" {
		return all
	}
	stack = strings.ReplaceAll(stack, "call|", "t:nn/modules/module.py:1790 _call_impl|t:nn/modules/module.py:1779 _wrapped_call_impl|")
	for part := range strings.SplitSeq(stack, "|") {
		place, function, _ := strings.Cut(part, " ")
		i := strings.LastIndexByte(place, ':')
		line, _ := strconv.Atoi(place[i+1:])
		file := place[:i]
		switch {
		case strings.HasPrefix(file, "t:"):
			file = inTorch + file[2:]
		case strings.HasPrefix(file, "s:"):
			file = inSite + file[2:]
		case !strings.HasPrefix(file, "/") && strings.HasSuffix(file, ".py"):
			file = inHome + file
		}
		all = append(all, map[string]any{"filename": file, "line": line, "name": function})
	}
	return all
}

// load puts the model on the card: model = Net().to("cuda") in line 60.
func (p *program) load() {
	for range p.layers {
		p.params = append(p.params, p.get(p.parameter, "t:nn/modules/module.py:1355 convert|t:nn/modules/module.py:942 _apply|t:nn/modules/module.py:1373 to|train.py:60 main|train.py:99 <module>"))
	}
}

// forward runs the model on a batch, in line 72 of the training loop, and keeps what backward needs.
func (p *program) forward(scale float64) { p.forwardAt(scale, "train.py:72 main|train.py:99 <module>") }

func (p *program) forwardAt(scale float64, caller string) {
	if !p.started {
		p.started = true
		p.get(32*units.MiB, "t:nn/modules/linear.py:134 forward|call|train.py:20 forward|call|"+caller)
	}
	for range p.layers {
		for _, line := range []string{"t:nn/modules/linear.py:134 forward|call|train.py:20 forward", "t:nn/functional.py:1701 relu|train.py:21 forward", "t:nn/functional.py:1425 dropout|train.py:22 forward"} {
			p.graph = append(p.graph, p.get(units.Bytes(scale*float64(p.activation/3)), line+"|call|train.py:31 forward|call|"+caller))
		}
	}
}

// backward runs in line 75: gradients appear, activations go. The engine's thread has no Python frames.
func (p *program) backward() {
	root := p.get(4, "t:autograd/__init__.py:222 _make_grads|t:autograd/__init__.py:344 backward|t:_tensor.py:630 backward|train.py:75 main|train.py:99 <module>")
	if len(p.grads) == 0 && p.nextID > 0 {
		p.get(32*units.MiB, p.engine) // cuBLAS workspace of the engine's thread
	}
	fresh := len(p.grads) == 0 || p.grads[0].gone
	if fresh {
		p.grads = nil
	}
	for i := len(p.params) - 1; i >= 0; i-- {
		grad := p.get(p.params[i].size, p.engine)
		for range 3 {
			if n := len(p.graph); n > 0 {
				p.drop(p.graph[n-1])
				p.graph = p.graph[:n-1]
			}
		}
		if fresh {
			p.grads = append(p.grads, grad)
		} else {
			p.drop(grad)
		}
	}
	p.drop(p.graph...)
	p.graph = nil
	p.drop(root)
}

const adam = "|t:optim/adam.py:238 step|t:optim/optimizer.py:81 _use_grad|t:optim/optimizer.py:533 wrapper|train.py:76 main|train.py:99 <module>"

// step runs Adam in line 76: its state in the first step, and a temporary as large as the parameters in each.
func (p *program) step() {
	p.scope("Optimizer.step#AdamW.step", func() {
		if len(p.state) == 0 {
			for _, w := range p.params {
				p.state = append(p.state, p.get(w.size, "t:optim/adam.py:178 _init_group"+adam), p.get(w.size, "t:optim/adam.py:184 _init_group"+adam))
			}
		}
		var temporaries []*tensor
		for _, w := range p.params {
			temporaries = append(temporaries, p.get(w.size, "t:optim/adam.py:768 _multi_tensor_adam"+adam))
		}
		p.drop(temporaries...)
	})
}

// zero is optimizer.zero_grad().
func (p *program) zero() {
	p.scope("Optimizer.zero_grad#AdamW.zero_grad", func() { p.drop(p.grads...) })
}

// batch copies a batch to the card in line 70.
func (p *program) batch(scale float64) *tensor {
	return p.get(units.Bytes(scale*float64(4*units.MiB)), "train.py:70 main|train.py:99 <module>")
}

// train runs whole steps.
func (p *program) train(steps int) {
	for range steps {
		p.trainOn(1)
	}
}

func (p *program) trainOn(scale float64) {
	x := p.batch(scale)
	p.forward(scale)
	p.zero()
	p.backward()
	p.step()
	p.drop(x)
}

// file is the snapshot of the program as it ended.
func (p *program) file(t testing.TB) []byte {
	t.Helper()
	var segments []map[string]any
	for _, s := range p.a.Segments() {
		kind := "large"
		if s.Small {
			kind = "small"
		}
		blocks := []map[string]any{}
		var total, active, requested units.Bytes
		for _, b := range s.Blocks {
			if !b.Mapped {
				continue
			}
			total += b.Size
			state := "active_allocated"
			switch {
			case b.Free:
				state = "inactive"
			case b.Pending:
				state = "active_pending_free"
			}
			stack := frames("")
			if !b.Free {
				active += b.Size
				requested += b.Requested
				stack = p.stacks[b.ID]
			}
			blocks = append(blocks, map[string]any{"address": b.Address, "size": b.Size, "requested_size": b.Requested, "state": state, "frames": stack})
		}
		segments = append(segments, map[string]any{"device": 0, "address": s.Address, "total_size": total, "stream": 7 * uint64(s.Stream), "segment_type": kind,
			"allocated_size": active, "active_size": active, "requested_size": requested, "segment_pool_id": []int{0, int(s.Pool)}, "is_expandable": s.Expandable, "frames": frames(""), "blocks": blocks})
	}
	b, err := json.Marshal(map[string]any{"segments": segments, "device_traces": [][]map[string]any{p.events}, "allocator_settings": p.conf, "external_annotations": p.notes})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// explain is the whole report about the program.
func (p *program) explain(t testing.TB) *report.Explain {
	t.Helper()
	s, err := snapshot.Read(bytes.NewReader(p.file(t)))
	if err != nil {
		t.Fatal(err)
	}
	return explain.Build([]explain.Evidence{{Name: "program", Snapshot: s}})
}
