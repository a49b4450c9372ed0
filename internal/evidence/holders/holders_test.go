package holders

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// ended makes a recording at whose end these allocations are alive, behind one that was freed.
func ended(sizes ...units.Bytes) *recording.Recording {
	r := &recording.Recording{}
	add := func(size units.Bytes, address uint64, died uint32) {
		r.Tape.Initial = append(r.Tape.Initial, tape.Live{ID: uint32(len(r.Died)), Size: size})
		r.Addr, r.Died = append(r.Addr, address), append(r.Died, died)
	}
	add(512, 0x1000, 0)
	at := uint64(0x1000)
	for _, s := range sizes {
		add(s, at, recording.NeverFreed)
		at += uint64(s+511) / 512 * 512
	}
	return r
}

func file(holders ...Holder) *File { return &File{Schema: Schema, When: AtOOM, Holders: holders} }

func TestStoragesAreMatchedByAddressAndSize(t *testing.T) {
	t.Parallel()
	r := ended(512, 1000, 2048, 4096)
	m := New(file(
		Holder{Role: Parameter, Count: 2, Addresses: []int64{0x1000, 512}, Sizes: []int64{512, 1000}, Names: []string{"fc.bias", "fc.weight"}},
		Holder{Role: Variable, Name: Name{Name: "feats[*]"}, Count: 3, Addresses: []int64{0x1000 + 512 + 1024 + 256, 8192, -16384}, Sizes: []int64{128}},
		Holder{Role: Variable, Device: 1, Name: Name{Name: "elsewhere"}, Count: 1, Addresses: []int64{0x1000}, Sizes: []int64{1}},
	), r)
	if want := []int32{Nobody, 0, 0, 1, Nobody}; !slices.Equal(m.Of, want) {
		t.Errorf("holders %v, want %v", m.Of, want)
	}
	if want := []string{"", "fc.bias", "fc.weight", "feats[*]", ""}; !slices.Equal(m.Names, want) {
		t.Errorf("names %q, want %q", m.Names, want)
	}
	if m.Alive != 7656 || m.Held != 3560 || m.Stray != 2 {
		t.Errorf("alive %d, held %d, stray %d", m.Alive, m.Held, m.Stray)
	}
	if m.Holder(1).Role != Parameter || m.Holder(4) != nil || (*Match)(nil).Holder(3) != nil {
		t.Error("a holder is told wrong")
	}
}

func TestWhatIsNotAHoldersFileIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `[]`, `{}`, `{"schema":"plimsoll.holders/2"}`, `{"schema":"plimsoll.holders/1","holders":[{"role":"king"}]}`,
		`{"schema":"plimsoll.holders/1","holders":[{"role":"variable","count":2,"addresses":[1],"sizes":[1]}]}`,
		`{"schema":"plimsoll.holders/1","holders":[{"role":"variable","count":1,"addresses":[1],"sizes":[]}]}`,
		`{"schema":"plimsoll.holders/1","holders":[{"role":"variable","count":1,"addresses":[1],"sizes":[1],"names":["a","b"]}]}`,
	} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestPlacesAndRootsReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Place{
		"train.py:31 main": {"/home/me/train.py", 31, "main"}, "train.py:8": {"train.py", 8, "<module>"}, "cell 3": {File: "cell 3"},
	} {
		if p.String() != want {
			t.Errorf("%q, want %q", p, want)
		}
	}
	for name, want := range map[string]string{"feats[*][1]": "feats", "self.memory[*]": "self.memory", "x": "x", "": "", "[*]": "[*]"} {
		if got := (Name{Name: name}).Root(); got != want {
			t.Errorf("root of %q: %q, want %q", name, got, want)
		}
	}
}

// Whatever the storages, what is matched never exceeds what is alive, and every storage is either matched, shares an allocation or is stray.
func TestNoByteIsHeldTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) units.Bytes { return units.Bytes(rapid.IntRange(1, 5000).Draw(t, "size")) }), 0, 20).Draw(t, "sizes")
		var hs []Holder
		for range rapid.IntRange(0, 8).Draw(t, "holders") {
			n := rapid.IntRange(1, 6).Draw(t, "n")
			h := Holder{Role: Variable, Count: n, Sizes: []int64{rapid.Int64Range(-5, 6000).Draw(t, "s")}}
			for range n {
				h.Addresses = append(h.Addresses, rapid.Int64Range(-3000, 60000).Draw(t, "a"))
			}
			hs = append(hs, h)
		}
		m := New(file(hs...), ended(sizes...))
		var alive units.Bytes
		for _, s := range sizes {
			alive += s
		}
		if m.Alive != alive || m.Held > alive || m.Of[0] != Nobody {
			t.Fatalf("alive %d of %d, held %d", m.Alive, alive, m.Held)
		}
	})
}

func FuzzRead(f *testing.F) {
	whole, err := json.Marshal(file(Holder{Role: Saved, Name: Name{"loss", &Place{"train.py", 3, "main"}}, Op: "MulBackward0", Count: 2, Bytes: 1024,
		Addresses: []int64{0x1000, 512}, Sizes: []int64{512}, Also: []Name{{Name: "total"}}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(packed(f, whole))
	f.Add([]byte(`{"schema":"plimsoll.holders/1","holders":[{"role":"parameter","count":1,"addresses":[-9223372036854775808],"sizes":[9223372036854775807]}]}`))
	r := ended(512, 1000, 2048)
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		m := New(read, r)
		if m.Held > m.Alive {
			t.Fatalf("held %d of %d", m.Held, m.Alive)
		}
		for i := range read.Holders {
			_ = read.Holders[i].Root()
		}
		for _, p := range read.Running {
			_ = p.String()
		}
	})
}
