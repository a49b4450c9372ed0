package tape

import (
	"slices"
	"testing"
)

// A head that is tied to the embedding is made and let go: on the host it is never seen, and what comes after has other numbers.
func TestMovedLeavesOutWhatTheConstructorLetsGo(t *testing.T) {
	t.Parallel()
	given := &Tape{
		Owners:  []Owner{{}, {Category: Parameters, Op: "parameter"}, {Category: Activations}, {Category: Other, Op: OpAhead}},
		Moments: []Moment{{Step: 1, Phase: "forward"}}, Allocs: 4,
		Events: []Event{
			{Kind: Alloc, ID: 0, Size: 10, Owner: 1}, {Kind: Alloc, ID: 1, Size: 20, Owner: 1}, {Kind: Free, ID: 1, Size: 20, Owner: 1}, {Kind: Alloc, ID: 2, Size: 30, Owner: 1},
			{Kind: Mark}, {Kind: Alloc, ID: 3, Size: 40, Owner: 2}, {Kind: EmptyCache, ID: 1}, {Kind: Free, ID: 3, Size: 40, Owner: 2}, {Kind: Free, ID: 2, Size: 30, Owner: 1},
		},
	}
	got, ok := given.Moved()
	want := []Event{
		{Kind: Alloc, ID: 0, Size: 10, Owner: 1}, {Kind: Alloc, ID: 1, Size: 30, Owner: 1},
		{Kind: Mark}, {Kind: Alloc, ID: 2, Size: 40, Owner: 2}, {Kind: EmptyCache, ID: 1}, {Kind: Free, ID: 2, Size: 40, Owner: 2}, {Kind: Free, ID: 1, Size: 30, Owner: 1},
	}
	if !ok || got.Allocs != 3 || !slices.Equal(got.Events, want) {
		t.Errorf("%v, %d allocations:\n%v\nwant\n%v", ok, got.Allocs, got.Events, want)
	}
	if again, ok := got.Moved(); ok {
		t.Errorf("nothing is let go, and yet: %v", again)
	}
	given.Events = append([]Event{{Kind: Alloc, ID: 0, Size: 60, Owner: 3}, {Kind: Free, ID: 0, Size: 60, Owner: 3}}, given.Events...)
	if _, ok := given.Moved(); ok {
		t.Error("a model that is read from its file has no constructor on the card")
	}
}
