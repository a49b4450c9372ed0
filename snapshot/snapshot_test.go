package snapshot

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func read(t testing.TB, path string) *Snapshot {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := Read(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return s
}

// The same recording was written in every format: by CPython with protocols 2 to 5, as torch's C++ pickler lays it
// out, as JSON, inside the page of _memory_viz.py, and compressed.
func TestEveryFormatGivesTheSameSnapshot(t *testing.T) {
	t.Parallel()
	want := read(t, "../testdata/snapshots/oom-model-load.pickle.gz")
	if len(want.Segments) != 55 || want.Traces[0].Len() != 125 || want.Settings.MaxSplitSize != -1 {
		t.Fatalf("the reference has %d segments, %d events", len(want.Segments), want.Traces[0].Len())
	}
	for _, name := range []string{
		"protocol2.pickle", "protocol3.pickle", "protocol4.pickle", "protocol5.pickle", "cpp.pickle",
		"snapshot.json", "viz.html", "snapshot.pickle.xz", "snapshot.pickle.zst",
	} {
		got := read(t, filepath.Join("../testdata/formats", name))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s differs from the reference", name)
		}
	}
}

func TestOlderAndNewerVersionsAreRead(t *testing.T) {
	t.Parallel()
	reference := read(t, "../testdata/snapshots/oom-model-load.pickle.gz")
	v113 := read(t, "../testdata/formats/v113.pickle")
	if len(v113.Traces) != 0 || len(v113.Segments) != len(reference.Segments) {
		t.Errorf("1.13: %d traces, %d segments", len(v113.Traces), len(v113.Segments))
	}
	for i, s := range v113.Segments {
		for k, b := range s.Blocks {
			want := reference.Segments[i].Blocks[k]
			if b.Address != want.Address || b.State != want.State || b.State == Allocated && b.Requested != want.Requested {
				t.Fatalf("1.13: segment %d block %d is %+v, want %+v", i, k, b, want)
			}
		}
	}
	v20 := read(t, "../testdata/formats/v20.pickle")
	if v20.Traces[0].TimeUS != nil || v20.Traces[0].Len() != 125 || v20.Settings.Known {
		t.Errorf("2.0: time %v, %d events, settings %v", v20.Traces[0].TimeUS, v20.Traces[0].Len(), v20.Settings.Known)
	}
	v215 := read(t, "../testdata/formats/v215.pickle")
	if len(v215.Traces[0].Pool) != 125 {
		t.Errorf("2.15: %d pools", len(v215.Traces[0].Pool))
	}
}

func TestEveryRecordingIsConsistent(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("../testdata/snapshots/*.pickle.gz")
	if len(files) < 30 {
		t.Fatalf("only %d recordings", len(files))
	}
	for _, file := range files {
		s := read(t, file)
		if len(s.Warnings) != 0 {
			t.Errorf("%s: %v", file, s.Warnings)
		}
		for _, seg := range s.Segments {
			var allocated int64
			at := seg.Address
			for _, b := range seg.Blocks {
				if b.Address != at {
					t.Fatalf("%s: block at %#x, the one before ends at %#x", file, b.Address, at)
				}
				at += uint64(b.Size)
				if b.State == Allocated {
					allocated += b.Size
				}
			}
			if allocated != seg.AllocatedSize {
				t.Errorf("%s: blocks sum to %d, segment says %d", file, allocated, seg.AllocatedSize)
			}
		}
	}
}

func TestManyDevicesInJSONAreToldApart(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"segments": [], "device_traces": [`)
	for d := range 8 {
		if d > 0 {
			b.WriteString(",")
		}
		b.WriteString("[")
		for i := range d {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, `{"action":"alloc","addr":%d,"size":%d,"stream":0,"pool_id":[0,1],"frames":[{"name":"f","filename":"a.py","line":%d}]}`, 512*i, d, i)
		}
		b.WriteString("]")
	}
	b.WriteString(`]}`)
	s, err := Read(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	for d := range 8 {
		if s.Traces[d].Len() != d {
			t.Errorf("device %d has %d events, want %d", d, s.Traces[d].Len(), d)
		}
		for i := range s.Traces[d].Len() {
			if s.Traces[d].Size[i] != int64(d) || s.Traces[d].PoolIDs[s.Traces[d].Pool[i]] != [2]int64{0, 1} {
				t.Errorf("device %d event %d: size %d", d, i, s.Traces[d].Size[i])
			}
			if frames := s.Stacks.Stack(s.Traces[d].Stack[i]); len(frames) != 1 || s.Stacks.Frames[frames[0]].Line != i {
				t.Errorf("device %d event %d has stack %v", d, i, frames)
			}
		}
	}
}

func TestAHistoryOutOfOrderIsSortedAndSaidSo(t *testing.T) {
	t.Parallel()
	s, err := Read(strings.NewReader(`{"segments": [], "device_traces": [[
		{"action":"alloc","addr":512,"size":1,"time_us":30,"user_metadata":"late"},{"action":"alloc","addr":1024,"size":2,"time_us":10},{"action":"alloc","addr":2048,"size":3,"time_us":20}]]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Traces[0].Size; !reflect.DeepEqual(got, []int64{2, 3, 1}) {
		t.Errorf("sizes in order of time: %v", got)
	}
	if n := s.Traces[0].Notes; len(n) != 1 || n[0].Event != 2 || n[0].UserMetadata != "late" {
		t.Errorf("notes: %v", n)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "out of order") {
		t.Errorf("warnings: %v", s.Warnings)
	}
}

func TestWhatIsNoSnapshotIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	zipped := &bytes.Buffer{}
	w := gzip.NewWriter(zipped)
	w.Write([]byte("\x80\x04](K\x01e"))
	w.Close()
	whole, err := os.ReadFile("../testdata/formats/protocol4.pickle")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, input, reason string }{
		{"nothing", "", "empty"},
		{"text", "hello world", "begins with"},
		{"a checkpoint", "PK\x03\x04rest", "torch.save"},
		{"a list of numbers", "\x80\x04](K\x01e.", "something other than segments"},
		{"a dict of numbers", "\x80\x04}\x8c\x01aK\x01s.", "neither segments"},
		{"other JSON", `{"a": 1}`, "neither segments"},
		{"cut JSON", `{"segments": [{"address": 1`, "ends here"},
		{"deep JSON", `{"a": ` + strings.Repeat("[", 1000), "nested"},
		{"a page without data", "<!DOCTYPE html><html></html>", "without the field"},
		{"cut inside gzip", zipped.String(), "ends here"},
		{"cut gzip", zipped.String()[:20], "EOF"},
		{"a cut snapshot", string(whole[:len(whole)/2]), "ends here"},
		{"a hostile pickle", "\x80\x04cos\nsystem\n.", "could run code"},
		{"a shared event", "\x80\x04](}(\x8c\x06action\x8c\x05allocu\x94h\x00e.", "two lists"},
	} {
		_, err := Read(strings.NewReader(c.input))
		if err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v; want a reason with %q", c.name, err, c.reason)
		}
	}
	if _, err := Read(strings.NewReader("\x80\x04cos\nsystem\n.")); !errors.Is(err, ErrUnsafe) {
		t.Errorf("a hostile pickle is not told as such: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"protocol2.pickle", "protocol4.pickle", "cpp.pickle", "v113.pickle", "snapshot.pickle.xz", "snapshot.pickle.zst"} {
		b, err := os.ReadFile(filepath.Join("../testdata/formats", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 8000)])
	}
	f.Add([]byte(`{"segments":[{"address":1,"total_size":512,"blocks":[{"size":512,"state":"inactive"}]}],"device_traces":[[]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		for i := range s.Traces {
			tr := &s.Traces[i]
			for k := range tr.Len() {
				s.Stacks.Stack(tr.Stack[k])
				_ = tr.Streams[tr.Stream[k]]
			}
		}
	})
}
