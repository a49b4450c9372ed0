package holders

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Nobody is the holder of an allocation that none was found for.
const Nobody = -1

// Match is a recording of one device with the holders of what is alive at its end.
type Match struct {
	File   *File
	Device int
	Of     []int32  // by allocation ID: index into File.Holders, or Nobody
	Names  []string // by allocation ID: the name of its storage; empty where Of is Nobody

	Alive units.Bytes // requested bytes alive at the end of the recording
	Held  units.Bytes // of them, with a holder
	Stray int         // storages of the file that the recording does not know
}

// New matches by address and size. A storage belongs to the allocation that begins at its address, or else to the one it lies in.
func New(f *File, r *recording.Recording) *Match {
	m := &Match{File: f, Device: r.Device, Of: make([]int32, len(r.Died)), Names: make([]string, len(r.Died))}
	alive := aliveAtEnd(r)
	for i := range m.Of {
		m.Of[i] = Nobody
	}
	for _, a := range alive {
		m.Alive += a.size
	}
	for i := range f.Holders {
		h := &f.Holders[i]
		if h.Device != r.Device {
			continue
		}
		for _, s := range h.Storages() {
			m.place(alive, i, s)
		}
	}
	return m
}

func (m *Match) place(alive []span, holder int, s Storage) {
	i, ok := lies(alive, s)
	if !ok {
		m.Stray++
		return
	}
	if id := alive[i].id; m.Of[id] == Nobody { // several storages can lie in one allocation; the first is the largest holder's
		m.Of[id], m.Names[id] = int32(holder), s.Name
		m.Held += alive[i].size
	}
}

// Holder is who keeps an allocation alive; nil: nobody that was seen.
func (m *Match) Holder(id int) *Holder {
	if m == nil || m.Of[id] == Nobody {
		return nil
	}
	return &m.File.Holders[m.Of[id]]
}

// span is an allocation that is alive at the end.
type span struct {
	address uint64
	size    units.Bytes
	id      int
}

func aliveAtEnd(r *recording.Recording) []span {
	var out []span
	for id, died := range r.Died {
		if died == recording.NeverFreed {
			out = append(out, span{r.Addr[id], r.Size(id), id})
		}
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.address, b.address) })
	return out
}

// lies finds the allocation a storage lies in as a whole.
func lies(alive []span, s Storage) (int, bool) {
	i, found := slices.BinarySearchFunc(alive, s.Address, func(a span, address uint64) int { return cmp.Compare(a.address, address) })
	if !found {
		i--
	}
	if i < 0 || s.Size < 0 {
		return 0, false
	}
	offset := s.Address - alive[i].address
	return i, offset <= uint64(alive[i].size) && uint64(s.Size) <= uint64(alive[i].size)-offset
}
