// Package fuzz holds the fuzz targets that begin with whole documents: every answer of plimsoll on inputs that nearly make sense.
//
// It takes the choices of a fuzzer and returns failures where an answer crashes, contradicts itself, or prints what steers a terminal. Targets for the bytes of
// single readers stand beside the readers. One package, so that one binary holds them all.
package fuzz

import (
	"bytes"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// reader is something that reads what a stranger wrote, and inputs to begin with.
type reader struct {
	read  func([]byte) error
	seeds []string
}

const tiny = `{"segments":[],"device_traces":[[{"action":"alloc","addr":512,"size":512,"frames":[]}]]}`

var readers = map[string]reader{
	"snapshot": {func(b []byte) error { _, err := snapshot.Read(bytes.NewReader(b)); return err },
		[]string{tiny, string(hostile.New([]byte(tiny)).Pickled())}},
	"holders": {func(b []byte) error { _, err := holders.Read(bytes.NewReader(b)); return err },
		[]string{`{"schema":"plimsoll.holders/1","holders":[{"role":"parameter","count":1,"addresses":[1],"sizes":[2]}]}`}},
	"notes": {func(b []byte) error { _, err := probenotes.Read(bytes.NewReader(b)); return err },
		[]string{`{"schema":"plimsoll.notes/1","history":[[1,2,3]]}`}},
	"graph": {func(b []byte) error { _, err := exported.Parse(b); return err },
		[]string{`{"graph_module":{"graph":{"inputs":[],"outputs":[],"nodes":[],"tensor_values":{}}}}`}},
	"config": {func(b []byte) error { _, err := hfconfig.Parse(b); return err },
		[]string{`{"model_type":"gpt2","n_layer":1}`, hostile.Config}},
	"header": {func(b []byte) error { _, err := hfconfig.ReadHeader(bytes.NewReader(b)); return err },
		[]string{"\x02\x00\x00\x00\x00\x00\x00\x00{}"}},
	"job": {func(b []byte) error { _, err := job.Parse(b); return err },
		[]string{`{"graph":"g","batch":4}`}},
	"message": {func(b []byte) error { _, err := oomtext.Read(bytes.NewReader(b)); return err },
		[]string{"CUDA out of memory. Tried to allocate 2.00 GiB", "RuntimeError: CUDA error: out of memory\n"}},
	"source": {func(b []byte) error { pysource.Parse(b); return nil },
		[]string{"for x in y:\n    z += model(x)\n", "f'{a!r:>{b}}'\n"}},
	"settings": {func(b []byte) error { _, err := alloc.ParseConf(string(b), torch.Latest); return err },
		[]string{"max_split_size_mb:64,roundup_power2_divisions:[256:1,>:8]"}},
	"size": {func(b []byte) error { _, err := units.Parse(string(b)); return err },
		[]string{"24GiB", "1.5e3 MB"}},
}

// try reads an input; what a reader says of it can be printed.
func (r reader) try(data []byte) (said string, err error) {
	refused := r.read(data)
	if refused == nil {
		return "", nil
	}
	return refused.Error(), hostile.CheckText([]byte(refused.Error()))
}

// reading fuzzes one reader with bytes.
func reading(f *testing.F, name string) {
	r := readers[name]
	for _, s := range r.seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := r.try(data); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzBytesSnapshot(f *testing.F) { reading(f, "snapshot") }
func FuzzBytesHolders(f *testing.F)  { reading(f, "holders") }
func FuzzBytesNotes(f *testing.F)    { reading(f, "notes") }
func FuzzBytesGraph(f *testing.F)    { reading(f, "graph") }
func FuzzBytesConfig(f *testing.F)   { reading(f, "config") }
func FuzzBytesHeader(f *testing.F)   { reading(f, "header") }
func FuzzBytesJob(f *testing.F)      { reading(f, "job") }
func FuzzBytesMessage(f *testing.F)  { reading(f, "message") }
func FuzzBytesSource(f *testing.F)   { reading(f, "source") }
func FuzzBytesSettings(f *testing.F) { reading(f, "settings") }
func FuzzBytesSize(f *testing.F)     { reading(f, "size") }
