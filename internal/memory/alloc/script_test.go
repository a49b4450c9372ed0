package alloc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// TestScripts runs the scenarios of testdata; docs/allocator-scripts.md describes their language.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := script{ids: map[string]uint32{}}
			for i, line := range strings.Split(string(text), "\n") {
				line, _, _ = strings.Cut(line, "#")
				words := strings.Fields(line)
				if len(words) == 0 {
					continue
				}
				if err := s.run(words[0], words[1:]); err != nil {
					t.Fatalf("%s:%d: %s: %v", file, i+1, strings.TrimSpace(line), err)
				}
				if s.a != nil {
					if err := s.a.Check(); err != nil {
						t.Fatalf("%s:%d: damage: %v", file, i+1, err)
					}
				}
			}
		})
	}
}

type script struct {
	policy Policy
	a      *Allocator
	ids    map[string]uint32
}

func (s *script) allocator() *Allocator {
	if s.a == nil {
		s.a = New(s.policy)
	}
	return s.a
}

func (s *script) run(verb string, args []string) (err error) {
	switch verb {
	case "torch":
		s.policy.Torch, err = torch.ParseVersion(args[0])
	case "config":
		err = s.config(strings.Join(args, " "))
	case "cap":
		s.policy.Cap, err = units.Parse(args[0])
	case "device":
		s.policy.Device, err = units.Parse(args[0])
	case "total":
		s.policy.Total, err = units.Parse(args[0])
	case "addresses":
		s.policy.Addresses = map[string]AddressSource{"increasing": Increasing(), "decreasing": Decreasing()}[args[0]]
	case "malloc":
		err = s.malloc(args)
	case "free":
		s.allocator().Free(s.id(args[0]), len(args) > 1 && args[1] == "deferred")
	case "complete":
		s.allocator().FreeCompleted(s.id(args[0]))
	case "empty_cache":
		s.allocator().EmptyCache()
	case "release_pool":
		n, _ := strconv.Atoi(args[0])
		s.allocator().ReleasePool(uint16(n))
	case "reset_peaks":
		s.allocator().ResetPeaks()
	case "expect":
		err = s.expect(args)
	default:
		err = fmt.Errorf("unknown verb")
	}
	return err
}

// config sets the settings; "config TEXT refused" expects the version to refuse them.
func (s *script) config(text string) error {
	text, wantsError := strings.CutSuffix(text, " refused")
	c, err := ParseConf(text, s.policy.Torch)
	if wantsError {
		if err == nil {
			return fmt.Errorf("accepted")
		}
		return nil
	}
	s.policy.Conf = c
	if s.a != nil {
		s.a.SetConf(c)
	}
	return err
}

func (s *script) id(name string) uint32 {
	id, ok := s.ids[name]
	if !ok {
		id = uint32(len(s.ids))
		s.ids[name] = id
	}
	return id
}

// malloc NAME SIZE [stream N] [pool N] [fails]
func (s *script) malloc(args []string) error {
	size, err := units.Parse(args[1])
	if err != nil {
		return err
	}
	var stream, pool int
	want := true
	for i := 2; i < len(args); i++ {
		switch args[i] {
		case "fails":
			want = false
		case "stream":
			i++
			stream, err = strconv.Atoi(args[i])
		case "pool":
			i++
			pool, err = strconv.Atoi(args[i])
		default:
			err = fmt.Errorf("unknown word %q", args[i])
		}
		if err != nil {
			return err
		}
	}
	if got := s.allocator().Malloc(s.id(args[0]), size, uint16(stream), uint16(pool)); got != want {
		return fmt.Errorf("served: %v, want %v; %+v", got, want, s.a.Stats())
	}
	return nil
}

// expect QUANTITY VALUE …, or: expect blocks 32MiB:used 8MiB:free …, or: expect A before|after B
func (s *script) expect(args []string) error {
	if args[0] == "blocks" {
		return s.expectBlocks(args[1:])
	}
	if len(args) == 3 && (args[1] == "before" || args[1] == "after") {
		x, y := s.a.Address(s.id(args[0])), s.a.Address(s.id(args[2]))
		if (x < y) != (args[1] == "before") {
			return fmt.Errorf("they lie at %#x and %#x", x, y)
		}
		return nil
	}
	st := s.allocator().Stats()
	got := map[string]units.Bytes{
		"requested": st.Requested, "allocated": st.Allocated, "active": st.Active, "reserved": st.Reserved,
		"segments": units.Bytes(st.Segments), "retries": units.Bytes(st.Retries), "ooms": units.Bytes(st.OOMs),
		"peak_reserved": st.Peak.Reserved, "peak_allocated": st.Peak.Allocated,
		"device_allocs": units.Bytes(st.DeviceAllocs), "device_frees": units.Bytes(st.DeviceFrees),
	}
	for i := 0; i+1 < len(args); i += 2 {
		want, err := units.Parse(args[i+1])
		if err != nil {
			return err
		}
		value, known := got[args[i]]
		if !known || value != want {
			return fmt.Errorf("%s is %d (%v), want %d", args[i], int64(value), value, int64(want))
		}
	}
	return nil
}

// expectBlocks compares the blocks that hold memory, by address, over all segments.
func (s *script) expectBlocks(want []string) error {
	var got []string
	for _, seg := range s.a.Segments() {
		for _, b := range seg.Blocks {
			switch {
			case !b.Mapped:
			case b.Free:
				got = append(got, fmt.Sprintf("%d:free", b.Size))
			case b.Pending:
				got = append(got, fmt.Sprintf("%d:pending", b.Size))
			default:
				got = append(got, fmt.Sprintf("%d:used", b.Size))
			}
		}
	}
	for i, w := range want {
		text, state, _ := strings.Cut(w, ":")
		size, err := units.Parse(text)
		if err != nil {
			return err
		}
		want[i] = fmt.Sprintf("%d:%s", int64(size), state)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("blocks are %v", got)
	}
	return nil
}
