package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

var allocatorRules = []rule{fragmentation, streamHeld, cudnnWorkspace, confConflict, streamsApart}

// fragmentation: enough was held and free to serve the request, but in pieces. The allocator model decides: it
// replays the run under other settings within the same limit.
func fragmentation(c *Case) (claim, bool) {
	if c.OOM == nil || c.Snapshot.Settings.Expandable {
		return claim{}, false
	}
	unused := c.OOM.Held - c.InUse
	enough := unused >= c.OOM.Request && 50*unused >= c.OOM.Held
	fits := 20*unused >= c.OOM.Held && c.InUse+c.OOM.Request <= c.OOM.Limit.Low
	if !enough && !fits && !(c.Frag != nil && c.Frag.Survives) {
		return claim{}, false
	}
	f := report.Finding{
		ID: "fragmentation", Severity: report.Error, Bytes: unused, Confidence: 0.75,
		Title: fmt.Sprintf("fragmentation: %s is reserved but unused, in pieces too small for the request", unused),
		Evidence: []string{
			fmt.Sprintf("%s was requested while %s of the %s reserved by PyTorch was unused", c.OOM.Request, unused, c.OOM.Held),
		},
	}
	if c.dark() && 2*unused < c.OOM.Held {
		f.Severity = report.Warning
	}
	if c.Frag == nil {
		f.Remedies = []report.Remedy{{Action: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", Saves: unused, CheckedBy: report.ByRule, Command: "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}}
		return claim{Finding: f, kind: allocator}, true
	}
	return c.replayed(f), true
}

// replayed adds what the allocator model found. A setting that serves the request and leaves less than the step still needs only puts the failure off.
func (c *Case) replayed(f report.Finding) claim {
	f.Where = c.Frag.Pins
	line := c.Frag.Variable + "=" + c.Frag.Conf
	out := claim{Finding: f, kind: allocator}
	if !c.Frag.Survives {
		out.Confidence = 0.4
		out.Evidence = append(out.Evidence, "a replay under every sensible allocator setting fails at the same request: settings alone do not save this run")
		if c.onlyPieces(&out) {
			out.Confidence = 0.85
			out.Evidence = append(out.Evidence, fmt.Sprintf("with this request %s would be in use, and %s is allowed: the tensors that stay are placed so that no free piece is large enough", c.InUse+c.OOM.Request, c.OOM.Limit.Bytes))
			out.remedy(report.Remedy{Action: "allocate the large tensor before the small ones, or compact what stays: copy it to the CPU, free it, call torch.cuda.empty_cache(), copy it back", CheckedBy: report.ByRule}, change{})
		}
		return out
	}
	out.without = change{setting: &c.Frag.Setting}
	out.Confidence = 0.8
	if c.Frag.Valid {
		out.Confidence = 0.95
		out.Evidence = append(out.Evidence, "replayed: the recorded run is reproduced address by address, and the same requests run within the same limit under "+c.Frag.Conf)
	}
	if 10*f.Bytes < c.OOM.Held {
		out.Confidence = 0.6
		out.Evidence = append(out.Evidence, "but this gains little: the card is nearly full, and a larger request later in the run may fail again")
	}
	out.remedy(report.Remedy{Action: line, Saves: max(0, c.OOM.Held+c.OOM.Segment-c.Frag.Peak), CheckedBy: report.ByReplay, Command: "export " + line}, out.without)
	return out
}

// streamHeld: memory that was freed but still waits for another stream.
func streamHeld(c *Case) (claim, bool) {
	pending := c.PendingFree()
	if c.OOM == nil {
		pending = max(pending, c.Peak.Requested-c.InUse) // what counts at the peak and is not alive was given up, and waits
	}
	if 20*pending < c.Peak.Reserved || pending == 0 {
		return claim{}, false
	}
	return claim{without: change{saves: pending}, Finding: report.Finding{
		ID: "stream-held", Severity: c.severity(report.Warning), Confidence: 0.8, Bytes: pending, Where: c.pendingPlaces(),
		Title:    fmt.Sprintf("%s is freed but cannot be reused until another stream catches up", pending),
		Evidence: []string{"tensors used on a second stream (record_stream: prefetching, FSDP, NCCL) return to the pool only when that stream has finished with them"},
		Remedies: []report.Remedy{
			{Action: "limit how far the side stream runs ahead (FSDP: limit_all_gathers=True; prefetch one batch)", Saves: pending, CheckedBy: report.ByRule},
			{Action: "TORCH_NCCL_AVOID_RECORD_STREAMS=1 for collectives", CheckedBy: report.ByRule},
		},
	}}, true
}

// streamsApart: memory that one stream has freed serves no other (https://github.com/pytorch/pytorch/blob/v2.11.0/c10/cuda/CUDACachingAllocator.cpp, BlockComparatorSize
// orders free blocks by stream first), so that several streams with the same work hold it several times.
func streamsApart(c *Case) (claim, bool) {
	held := map[uint64]units.Bytes{}
	var total, active units.Bytes
	for i := range c.Snapshot.Segments {
		if s := &c.Snapshot.Segments[i]; s.Device == c.Device && s.PoolID == [2]int64{} {
			held[s.Stream] += units.Bytes(s.TotalSize)
			total += units.Bytes(s.TotalSize)
			active += units.Bytes(s.ActiveSize)
		}
	}
	large := 0
	for _, b := range held {
		large += one(10*b >= total)
	}
	unused := min(total-active, c.Peak.Reserved-c.Peak.Requested)
	if large < 2 || 2*unused < c.Peak.Reserved {
		return claim{}, false
	}
	return claim{kind: allocator, Finding: report.Finding{
		ID: "stream-held", Severity: report.Warning, Confidence: 0.8, Bytes: unused, Where: c.streamPlaces(),
		Title: fmt.Sprintf("%d streams keep separate memory: %s reserved, at most %s in use", large, c.Peak.Reserved, c.Peak.Requested),
		Evidence: []string{
			"memory freed on one stream is reused only by that stream, so work that moves between streams needs its memory once per stream",
		},
		Remedies: []report.Remedy{{Action: "allocate on one stream and use record_stream(), or do the work of all branches on one stream", Saves: unused, CheckedBy: report.ByRule}},
	}}, true
}

// streamPlaces are the lines that asked for most on streams other than the default.
func (c *Case) streamPlaces() []report.Place {
	sums := map[snapshot.StackID]units.Bytes{}
	for i := range c.Tape.Events {
		if e := &c.Tape.Events[i]; e.Kind == tape.Alloc && e.Stream != 0 {
			sums[c.Stack[e.ID]] += e.Size
		}
	}
	stacks := slices.Collect(maps.Keys(sums))
	slices.SortFunc(stacks, func(a, b snapshot.StackID) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	return c.loopPlaces(stacks...)
}

// pendingPlaces are the lines that made what waits.
func (c *Case) pendingPlaces() []report.Place {
	var stacks []snapshot.StackID
	for i := range c.Snapshot.Segments {
		s := &c.Snapshot.Segments[i]
		for _, b := range s.Blocks {
			if s.Device == c.Device && b.State == snapshot.PendingFree {
				stacks = append(stacks, b.Stack)
			}
		}
	}
	return c.places(stacks...)
}

// PendingFree is what waits for other streams at the end.
func (c *Case) PendingFree() units.Bytes {
	var sum units.Bytes
	for i := range c.Snapshot.Segments {
		s := &c.Snapshot.Segments[i]
		if s.Device != c.Device {
			continue
		}
		for _, b := range s.Blocks {
			if b.State == snapshot.PendingFree {
				sum += units.Bytes(b.Size)
			}
		}
	}
	return sum
}

// confConflict: allocator settings that work against each other or do nothing.
func confConflict(c *Case) (claim, bool) {
	s := &c.Snapshot.Settings
	var why []string
	if s.Expandable && s.MaxSplitSize >= 0 {
		why = append(why, "max_split_size_mb with expandable_segments makes large free blocks unusable for smaller requests; reserved memory can grow without bound (pytorch#193400)")
	}
	if s.Expandable && s.GarbageCollection > 0 {
		why = append(why, "garbage_collection_threshold never releases expandable segments")
	}
	if strings.Contains(s.Conf, "cudaMallocAsync") && (s.MaxSplitSize >= 0 || s.Expandable) {
		why = append(why, "backend:cudaMallocAsync ignores the other settings")
	}
	if len(why) == 0 {
		return claim{}, false
	}
	return claim{kind: allocator, Finding: report.Finding{
		ID: "alloc-conf-conflict", Severity: report.Warning, Confidence: 0.9, Title: "allocator settings that work against each other",
		Evidence: append([]string{"set: " + s.Conf}, why...),
		Remedies: []report.Remedy{{Action: "expandable_segments:True alone", CheckedBy: report.ByRule, Command: "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}},
	}}, true
}
