package explain

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/diagnose"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
)

// accountLimit is how many accounts a report lists by line; what is smaller is joined by role.
const accountLimit = 100

type accountKey struct {
	role   timeline.Role
	place  report.Place
	phase  string
	eval   bool
	holder int32
}

// accounts puts every byte alive at the failure, or at the peak, into one account. What blocks are larger than the requests is an account too.
func accounts(c *diagnose.Case) *report.Accounts {
	out := &report.Accounts{Event: -1, Failure: c.OOM != nil, Exact: c.Blocks > 0, Allocated: c.Blocks, List: []report.Account{}}
	if c.Instant >= 0 && c.Instant < len(c.Event) {
		out.Event = int(c.Event[c.Instant])
	}
	index := map[accountKey]int{}
	var requested, rounded units.Bytes
	for id := range c.Died {
		if !c.Alive(id, c.Instant) {
			continue
		}
		requested += c.Size(id)
		rounded += timeline.Block(c.Size(id))
		k, a := account(c, id)
		i, seen := index[k]
		if !seen {
			i = len(out.List)
			index[k] = i
			out.List = append(out.List, a)
		}
		out.List[i].Bytes += c.Size(id)
		out.List[i].Count++
		if age := c.Age(id, c.Instant); age >= 0 {
			grow(&out.List[i], age)
		}
	}
	if !out.Exact {
		out.Allocated = rounded
	}
	slices.SortStableFunc(out.List, func(x, y report.Account) int { return cmp.Compare(y.Bytes, x.Bytes) })
	out.List = joined(out.List)
	if rest := out.Allocated - requested; rest != 0 {
		out.List = append(out.List, report.Account{Role: string(timeline.Rounding), Bytes: rest})
	}
	return out
}

// account is the empty account an allocation belongs to, and its key.
func account(c *diagnose.Case, id int) (accountKey, report.Account) {
	k := accountKey{role: c.RoleAt(id, c.Instant), phase: c.Phase[id].String(), eval: c.IsEval(c.Stack[id]), holder: -1}
	a := report.Account{Role: string(k.role), Phase: k.phase, Eval: k.eval, Where: place(c, c.Stack[id])}
	if a.Where != nil {
		k.place = *a.Where
	}
	if h := c.Holders.Holder(id); h != nil {
		k.holder = c.Holders.Of[id]
		a.Holder = h.Title()
	}
	return k, a
}

// holding names who keeps the allocations of a finding, the three largest.
func holding(c *diagnose.Case, blocks []int) []report.Holder {
	if c.Holders == nil || len(blocks) == 0 {
		return nil
	}
	of := map[int]bool{}
	for _, id := range blocks {
		of[id] = true
	}
	var parts []timeline.Held
	for _, h := range c.ByHolder() {
		if h.Holder.Role == "" {
			continue
		}
		h.IDs = slices.DeleteFunc(slices.Clone(h.IDs), func(id int) bool { return !of[id] })
		if h.Bytes = 0; len(h.IDs) == 0 {
			continue
		}
		for _, id := range h.IDs {
			h.Bytes += c.Size(id)
		}
		parts = append(parts, h)
	}
	var out []report.Holder
	for _, group := range together(parts) {
		out = append(out, Holder(group))
	}
	slices.SortStableFunc(out, func(a, b report.Holder) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out[:min(3, len(out))]
}

func grow(a *report.Account, age int) {
	if a.Oldest == nil {
		a.Oldest, a.Newest = &age, &age
		return
	}
	oldest, newest := max(*a.Oldest, age), min(*a.Newest, age)
	a.Oldest, a.Newest = &oldest, &newest
}

// joined keeps the largest accounts and joins the others of each role.
func joined(all []report.Account) []report.Account {
	if len(all) <= accountLimit {
		return all
	}
	out, index := slices.Clone(all[:accountLimit]), map[string]int{}
	for _, a := range all[accountLimit:] {
		i, seen := index[a.Role]
		if !seen {
			i = len(out)
			index[a.Role] = i
			out = append(out, report.Account{Role: a.Role})
		}
		out[i].Bytes += a.Bytes
		out[i].Count += a.Count
	}
	return out
}
