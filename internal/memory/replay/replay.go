// Package replay plays a recorded history through the allocator model: first under its own settings, to prove
// that the model may be believed, then under others, to tell what they would have changed.
//
// It takes a recording of one device (package recorded) and returns a Case with its Fidelity (how many recorded
// addresses the model reproduces), the limit the run was under, and for any settings the peaks, the request that
// fails, the smallest capacity that suffices and what pins fragmented memory. A what-if on a recording that does
// not reproduce is still computed, but Fidelity.Exact says that it may not be believed.
//
// What a history does not record is inferred and only that: calls of empty_cache, a memory cap set by the
// program, and what was held before the history began.
package replay

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Options say what is known beyond the file.
type Options struct {
	Torch torch.Version // the release that recorded it; 0: found out
	Cap   units.Bytes   // the memory cap of the recorded run; 0: found out
	At    int           // a tape event of interest, counted from 1: Case.AllocatedAt tells what was allocated after it; 0: none
}

// Case is a recording that has been replayed under its own settings.
type Case struct {
	Recording *recording.Recording
	Torch     torch.Version
	// TorchKnown says that the version was given or follows from the file; otherwise it is the one whose rules
	// reproduce the recording best.
	TorchKnown  bool
	Conf        alloc.Conf
	ConfText    string
	Limit       Limit
	Fidelity    Fidelity
	InUse       units.Bytes // the most that was in use at once
	Allocated   units.Bytes // the same without what waited for other streams: PyTorch's peak of allocated_bytes
	AllocatedAt units.Bytes // allocated after the event of Options.At
	// EmptyCaches is the number of calls of empty_cache found in the history.
	EmptyCaches int
	Warnings    []string

	at     int       // Options.At
	tape   tape.Tape // the recording's, with calls of empty_cache put in
	event  []uint32  // trace event of each event of tape
	start  []alloc.SegmentState
	before []tape.Live // what was alive when the history began, in the order to ask for it anew
	runs   []run
	// requested is the most that was asked for at once: no capacity below it can suffice.
	requested units.Bytes
}

// Limit is what bounded the recorded run's memory, as far as its history shows.
type Limit struct {
	// Cap is a memory fraction the program had set; 0: none showed. It lies in [AtLeast, Below); Cap is the roundest
	// number of bytes in there. Below is 0 where nothing bounds it.
	Cap, AtLeast, Below units.Bytes
	// Device is what the device could give PyTorch when it ran out; 0: it never did.
	Device units.Bytes
	Given  bool // Cap was not inferred but given
}

// Fidelity is how well the model reproduces a recording under its own settings.
type Fidelity struct {
	Events         int // of the history
	Allocs         int // requests served in it
	AddressMatches int // of them, placed at the recorded address
	// FirstDivergence is the event of the history at which model and recording first differ; -1: nowhere.
	FirstDivergence int
	Divergence      string // what differed there

	SegmentEvents  int // segments taken, given back, mapped and unmapped
	SegmentMatches int // of them, reproduced in place, size and order
	OOMs, OOMsSeen int // recorded failures, and those the model has too

	ReservedPeakRecorded units.Bytes
	ReservedPeakReplayed units.Bytes
	// FinalBlocks is the number of active blocks in the recorded final state, FinalMatches those the model has too.
	FinalBlocks, FinalMatches int
}

// Exact tells whether every address, segment, failure and peak was reproduced.
func (f Fidelity) Exact() bool {
	return f.FirstDivergence < 0 && f.AddressMatches == f.Allocs && f.SegmentMatches == f.SegmentEvents &&
		f.OOMs == f.OOMsSeen && f.ReservedPeakRecorded == f.ReservedPeakReplayed
}

// better tells whether f reproduces more than g.
func (f Fidelity) better(g Fidelity) bool {
	if f.Exact() != g.Exact() {
		return f.Exact()
	}
	return f.AddressMatches+f.SegmentMatches > g.AddressMatches+g.SegmentMatches
}

// Open replays a recording under its own settings. It refuses a recording without a history.
func Open(r *recording.Recording, o Options) (*Case, error) {
	if r.Trace.Len() == 0 {
		return nil, fmt.Errorf("device %d has no history in this snapshot, only its final state; record one with torch.cuda.memory._record_memory_history()", r.Device)
	}
	if o.Torch.Said() {
		return open(r, o.Torch, o)
	}
	var best *Case
	versions, known := plausible(r)
	for _, v := range versions {
		c, err := open(r, v, o)
		if err != nil {
			return nil, err
		}
		if best == nil || c.Fidelity.better(best.Fidelity) {
			best = c
		}
		if best.Fidelity.Exact() {
			break
		}
	}
	best.TorchKnown = known
	return best, nil
}

func open(r *recording.Recording, v torch.Version, o Options) (*Case, error) {
	c := &Case{Recording: r, Torch: v, TorchKnown: true, at: o.At}
	c.readConf()
	if c.Conf.Async {
		return nil, fmt.Errorf("the recording used backend:cudaMallocAsync, which keeps no history of blocks")
	}
	c.runs = segmentRuns(r.Trace)
	c.start = c.initialState()
	c.before = c.liveBefore()
	c.infer(o.Cap)
	return c, nil
}

// plausible lists the releases that can have written the file, the one most worth trying first. A file does not
// name its version; the fields it has bound it.
func plausible(r *recording.Recording) (versions []torch.Version, known bool) {
	var releases torch.Span
	settings := r.Snapshot.Settings
	has := func(key string) bool { _, ok := settings.Raw[key]; return ok }
	switch {
	case has("max_cached_size") || has("max_round_threshold"):
		releases = torch.SnapshotNamesCachedSizes
	case r.Trace.Pool != nil:
		releases = torch.SnapshotNamesPools
	case has("graph_capture_record_stream_reuse"):
		releases = torch.SnapshotNamesStreamReuse
	case settings.Known:
		releases = torch.SnapshotHasSettings
	default:
		releases = torch.SnapshotHasNoSettings
	}
	for _, v := range torch.Distinct() {
		if releases.Has(v) {
			versions = append(versions, v)
		}
	}
	return versions, len(versions) == 1
}

// readConf finds the settings of the recorded run: the numbers the file gives, and from the text those it does not.
func (c *Case) readConf() {
	s := c.Recording.Snapshot.Settings
	c.ConfText = s.Conf
	conf, err := alloc.ParseConf(s.Conf, c.Torch)
	if err != nil {
		c.Warnings = append(c.Warnings, "the recorded settings are not ones this version reads: "+err.Error())
	}
	c.Conf = conf
	if !s.Known { // before 2.3 only the events tell
		for _, a := range c.Recording.Trace.Action {
			c.Conf.Expandable = c.Conf.Expandable || a == snapshot.ActionSegmentMap
		}
		return
	}
	c.Conf.Expandable = s.Expandable
	c.Conf.GarbageCollection = s.GarbageCollection
	c.Conf.MaxSplit = max(0, units.Bytes(s.MaxSplitSize))
	c.Conf.Divisions = [alloc.Intervals]int{}
	for i := range c.Conf.Divisions {
		c.Conf.Divisions[i] = s.RoundupPower2[1<<i]
	}
}
