package replay

import (
	"cmp"
	"runtime"
	"slices"
	"sync"

	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Settings lists what is worth trying on a version, PyTorch's default first. Garbage collection is worth trying only
// under a cap, without which it does nothing.
func Settings(v torch.Version, capped bool) []Setting {
	texts := []string{
		"",
		"expandable_segments:True",
		"roundup_power2_divisions:4",
		"roundup_power2_divisions:8",
		"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", // PyTorch's documentation
		"max_split_size_mb:64",
		"max_split_size_mb:128",
		"max_split_size_mb:512",
	}
	if capped {
		texts = append(texts, "garbage_collection_threshold:0.8", "max_split_size_mb:64,garbage_collection_threshold:0.6")
	}
	var out []Setting
	for _, text := range texts {
		if s, err := ParseSetting(text, v); err == nil { // this version reads it
			out = append(out, s)
		}
	}
	return out
}

// Row is a setting compared.
type Row struct {
	Outcome
	Recorded bool // the settings of the recorded run
	// Limited is the outcome at the limit asked about, where Outcome is without one; nil where it is the same.
	Limited *Outcome
}

// Failure is the request that fails at the limit asked about, nil where none does.
func (r *Row) Failure() *OOM {
	if r.Limited != nil {
		return r.Limited.OOM
	}
	return r.OOM
}

// Question is what to compare.
type Question struct {
	Settings []Setting
	Torch    torch.Version // 0: the recording's
	// Capacity is enforced where positive. Otherwise peaks are those without a limit, and the recorded run's own
	// limit, where it had one, decides who fails.
	Capacity units.Bytes
}

// Compare replays the recording under every setting and ranks them: those that serve every request first, then by
// the peak of reserved memory. It runs the replays on all processors; the result does
// not depend on their order.
func (c *Case) Compare(q Question) []Row {
	rows := make([]Row, len(q.Settings))
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, s := range q.Settings {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rows[i] = c.row(s, q)
		})
	}
	wait.Wait()
	slices.SortStableFunc(rows, func(x, y Row) int {
		if fx, fy := x.Failure() != nil, y.Failure() != nil; fx != fy {
			return compareBool(fx, fy)
		}
		return cmp.Compare(x.Peak.Reserved, y.Peak.Reserved)
	})
	return rows
}

func (c *Case) row(s Setting, q Question) Row {
	t := Target{Torch: q.Torch, Capacity: q.Capacity}
	row := Row{Outcome: c.WhatIf(s, t), Recorded: s.Conf == c.Conf}
	if q.Capacity == 0 && c.Limit.Known() {
		limited := c.play(s, Target{Torch: q.Torch, Capacity: c.Limit.Cap, Device: c.Limit.Device}, c.below())
		row.Limited = &limited
	}
	fails := units.Bytes(0)
	if row.Failure() != nil {
		if fails = q.Capacity; fails == 0 {
			fails = c.Limit.Bytes()
		}
	}
	row.Smallest = c.Smallest(s, t, fails)
	return row
}

// Sensible lists the settings worth trying on a version (0: the recording's) and the recorded ones.
func (c *Case) Sensible(v torch.Version, capped bool) []Setting {
	if !v.Said() {
		v = c.Torch
	}
	settings := Settings(v, capped)
	for _, s := range settings {
		if s.Conf == c.Conf {
			return settings
		}
	}
	return append(settings, Setting{c.ConfText, c.Conf})
}

func compareBool(x, y bool) int {
	if x == y {
		return 0
	}
	if x {
		return 1
	}
	return -1
}

// Known tells whether the recorded run showed a limit.
func (l Limit) Known() bool { return l.Cap > 0 || l.Device > 0 }

// Bytes is the limit as one number, 0 where none is known.
func (l Limit) Bytes() units.Bytes {
	if l.Cap > 0 {
		return l.Cap
	}
	return l.Device
}
