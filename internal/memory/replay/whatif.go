package replay

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Setting is a way to configure the allocator.
type Setting struct {
	Text string // as written into the environment; empty: PyTorch's default
	Conf alloc.Conf
}

// ParseSetting reads settings as a version does; "default" and "" are PyTorch's own.
func ParseSetting(text string, v torch.Version) (Setting, error) {
	if text == "default" {
		text = ""
	}
	conf, err := alloc.ParseConf(text, v)
	return Setting{text, conf}, err
}

// Target is where a what-if takes place.
type Target struct {
	Torch torch.Version // 0: the recording's
	// Capacity is what PyTorch may hold, enforced as torch.cuda.set_per_process_memory_fraction does; 0: any amount.
	Capacity units.Bytes
	// Device limits as the end of the device does, where the recorded run met it; 0: any amount.
	Device units.Bytes
}

// Outcome is what a recording would have come to under a setting.
type Outcome struct {
	Setting Setting
	Peak    alloc.Peak // Segments is the largest number held at once
	Retries int        // how often the cache had to be emptied to serve a request
	OOM     *OOM       // nil: every request was served
	// Served is the number of requests that failed in the recording and are served here.
	Served int
	// ReservedOther is the peak with segment addresses in increasing instead of decreasing order. Where it differs, the
	// result depends on the driver.
	ReservedOther units.Bytes
	// Smallest is the smallest capacity at which every request is served; 0: not looked for.
	Smallest units.Bytes
}

// OOM is the request that failed.
type OOM struct {
	Event   int         // of the history
	Request units.Bytes // asked for
	Failure alloc.Failure
}

// WhatIf replays the recording under other settings. Requests that failed in the recording are tried again.
func (c *Case) WhatIf(s Setting, t Target) Outcome {
	out := c.play(s, t, c.below())
	out.ReservedOther = out.Peak.Reserved
	if !s.Conf.Expandable {
		out.ReservedOther = c.play(s, t, alloc.Increasing()).Peak.Reserved
	}
	return out
}

// below places new segments as the driver does, below those held when the history began.
func (c *Case) below() alloc.AddressSource {
	if len(c.start) == 0 {
		return alloc.Regions()
	}
	low := c.start[0].Address
	for i := range c.start {
		low = min(low, c.start[i].Address)
	}
	return alloc.RegionsBelow(low)
}

// play replays the recording with one order of addresses.
func (c *Case) play(s Setting, t Target, addresses alloc.AddressSource) Outcome {
	out := Outcome{Setting: s}
	a, live := c.begin(s, t, addresses)
	out.OOM = c.feed(a, live, &out, hooks{})
	stats := a.Stats()
	out.Peak, out.Retries = stats.Peak, stats.Retries
	return out
}

// begin gives an allocator and the allocations it must be given before the history begins. Where the kind of
// segments stays the same it holds those from before as they were recorded; otherwise nothing, and they are asked for anew.
func (c *Case) begin(s Setting, t Target, addresses alloc.AddressSource) (*alloc.Allocator, []tape.Live) {
	if !t.Torch.Said() {
		t.Torch = c.Torch
	}
	policy := alloc.Policy{
		Conf: s.Conf, Torch: t.Torch, Cap: t.Capacity, Device: t.Device,
		Addresses: addresses, Streams: c.tape.Streams, Pools: c.tape.Pools, IDs: c.tape.Allocs + 1,
	}
	if len(c.start) == 0 || s.Conf.Expandable != c.Conf.Expandable {
		return alloc.New(policy), c.before
	}
	a := alloc.New(policy)
	if err := a.Restore(c.start); err != nil {
		return alloc.New(policy), c.before
	}
	return a, nil
}

// hooks look on while a history is fed to an allocator; nil: nobody does.
type hooks struct {
	onFailure func() bool     // a request failed; true: try again
	after     func(event int) // an event of the history has happened
}

// feed gives an allocator everything that happened until a request fails that onFailure does not help.
func (c *Case) feed(a *alloc.Allocator, before []tape.Live, out *Outcome, h hooks) *OOM {
	fails := func(event int, id uint32, size units.Bytes, stream, pool uint16) *OOM {
		for !a.Malloc(id, size, stream, pool) {
			if h.onFailure == nil || !h.onFailure() {
				return &OOM{Event: event, Request: size, Failure: a.LastFailure()}
			}
		}
		return nil
	}
	for _, l := range before {
		if oom := fails(0, l.ID, l.Size, l.Stream, l.Pool); oom != nil {
			return oom
		}
	}
	for k := range c.tape.Events {
		e := &c.tape.Events[k]
		switch e.Kind {
		case tape.Alloc:
			if oom := fails(int(c.event[k]), e.ID, e.Size, e.Stream, e.Pool); oom != nil {
				return oom
			}
		case tape.Free:
			a.Free(e.ID, e.Deferred)
		case tape.FreeCompleted:
			a.FreeCompleted(e.ID)
		case tape.EmptyCache:
			a.EmptyCache()
		case tape.OOM: // it failed in the recording; what the program did with the memory is not known
			extra := uint32(c.tape.Allocs)
			if oom := fails(int(c.event[k]), extra, e.Size, e.Stream, e.Pool); oom != nil {
				return oom
			}
			a.Free(extra, false)
			out.Served++
		}
		if h.after != nil {
			h.after(int(c.event[k]))
		}
	}
	return nil
}

// liveBefore lists what was alive when the history began in the order it was probably allocated in: segments downwards,
// as the driver places them, and upwards within each.
func (c *Case) liveBefore() []tape.Live {
	segment := map[uint32]uint64{}
	for i := range c.start {
		for _, b := range c.start[i].Blocks {
			if !b.Free {
				segment[b.ID] = c.start[i].Address
			}
		}
	}
	live := slices.Clone(c.Recording.Tape.Initial)
	slices.SortStableFunc(live, func(x, y tape.Live) int {
		if by := cmp.Compare(segment[y.ID], segment[x.ID]); by != 0 {
			return by
		}
		return cmp.Compare(c.Recording.Addr[x.ID], c.Recording.Addr[y.ID])
	})
	return live
}
