package hostile

import (
	"bytes"
	"encoding/json"
	"testing"
)

const document = `{"segments":[{"device":0,"total_size":512}],"device_traces":[[{"action":"alloc","addr":1,"size":512,"frames":[{"name":"f","line":3}]}]],"x":1.5,"y":null}`

func TestTheSameChoicesMakeTheSameMutant(t *testing.T) {
	t.Parallel()
	d, seen := New([]byte(document)), map[string]bool{}
	for seed := range uint64(300) {
		a := d.JSON(FromSeed(seed))
		if !bytes.Equal(a, d.JSON(FromSeed(seed))) || !bytes.Equal(d.Pickle(FromSeed(seed)), d.Pickle(FromSeed(seed))) {
			t.Fatalf("seed %d makes two mutants", seed)
		}
		if !json.Valid(a) {
			t.Errorf("seed %d: no JSON: %s", seed, a)
		}
		seen[string(a)] = true
	}
	if len(seen) < 280 {
		t.Errorf("only %d mutants of 300 seeds", len(seen))
	}
}

func TestNoChoicesLeaveThePickleAsItIs(t *testing.T) {
	t.Parallel()
	d := New([]byte(`{"a":[1,"x",null]}`))
	if got, want := string(d.Pickled()), "\x80\x04}\x94(X\x01\x00\x00\x00a]\x94(\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00xNeu."; got != want {
		t.Errorf("%q", got)
	}
}
