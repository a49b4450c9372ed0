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

// readers are everything that reads what a stranger wrote.
var readers = map[string]func([]byte) error{
	"snapshot": func(b []byte) error { _, err := snapshot.Read(bytes.NewReader(b)); return err },
	"holders":  func(b []byte) error { _, err := holders.Read(bytes.NewReader(b)); return err },
	"notes":    func(b []byte) error { _, err := probenotes.Read(bytes.NewReader(b)); return err },
	"graph":    func(b []byte) error { _, err := exported.Parse(b); return err },
	"config":   func(b []byte) error { _, err := hfconfig.Parse(b); return err },
	"header":   func(b []byte) error { _, err := hfconfig.ReadHeader(bytes.NewReader(b)); return err },
	"job":      func(b []byte) error { _, err := job.Parse(b); return err },
	"message":  func(b []byte) error { _, err := oomtext.Read(bytes.NewReader(b)); return err },
	"source":   func(b []byte) error { pysource.Parse(b); return nil },
	"settings": func(b []byte) error { _, err := alloc.ParseConf(string(b), torch.Latest); return err },
	"size":     func(b []byte) error { _, err := units.Parse(string(b)); return err },
}

// reading fuzzes one reader with bytes: it returns, and what it says can be printed.
func reading(f *testing.F, name string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	read := readers[name]
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := read(data); err != nil && hostile.CheckText([]byte(err.Error())) != nil {
			t.Fatal(hostile.CheckText([]byte(err.Error())))
		}
	})
}

const tiny = `{"segments":[],"device_traces":[[{"action":"alloc","addr":512,"size":512,"frames":[]}]]}`

func FuzzBytesSnapshot(f *testing.F) {
	reading(f, "snapshot", tiny, string(hostile.New([]byte(tiny)).Pickled()))
}
func FuzzBytesHolders(f *testing.F) {
	reading(f, "holders", `{"schema":"plimsoll.holders/1","holders":[{"role":"parameter","count":1,"addresses":[1],"sizes":[2]}]}`)
}
func FuzzBytesNotes(f *testing.F) {
	reading(f, "notes", `{"schema":"plimsoll.notes/1","history":[[1,2,3]]}`)
}
func FuzzBytesGraph(f *testing.F) {
	reading(f, "graph", `{"graph_module":{"graph":{"inputs":[],"outputs":[],"nodes":[],"tensor_values":{}}}}`)
}
func FuzzBytesConfig(f *testing.F) {
	reading(f, "config", `{"model_type":"gpt2","n_layer":1}`, hostile.Config)
}
func FuzzBytesHeader(f *testing.F) { reading(f, "header", "\x02\x00\x00\x00\x00\x00\x00\x00{}") }
func FuzzBytesJob(f *testing.F)    { reading(f, "job", `{"graph":"g","batch":4}`) }
func FuzzBytesMessage(f *testing.F) {
	reading(f, "message", "CUDA out of memory. Tried to allocate 2.00 GiB", "RuntimeError: CUDA error: out of memory\n")
}
func FuzzBytesSource(f *testing.F) {
	reading(f, "source", "for x in y:\n    z += model(x)\n", "f'{a!r:>{b}}'\n")
}
func FuzzBytesSettings(f *testing.F) {
	reading(f, "settings", "max_split_size_mb:64,roundup_power2_divisions:[256:1,>:8]")
}
func FuzzBytesSize(f *testing.F) { reading(f, "size", "24GiB", "1.5e3 MB") }
