package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// Input is a hostile file and the command that is to survive it. Arguments that begin with @ name files.
type Input struct {
	Name  string
	Files map[string][]byte
	Args  []string
}

// Executed is the file that the code inside hostile inputs would make in the working directory.
const Executed = "executed"

// Corpus is the same inputs for the same seed: more than five hundred of every format that is read.
func Corpus(seed uint64) []Input {
	c := corpus{seed: seed}
	c.recordings()
	c.pickles()
	c.bombs()
	c.models()
	c.texts()
	c.answers()
	return c.all
}

type corpus struct {
	seed uint64
	all  []Input
}

// choices are different for every input, and the same for the same seed.
func (c *corpus) choices() Choices { return FromSeed(c.seed*1_000_003 + uint64(len(c.all))) }

func (c *corpus) add(kind, file string, data []byte, args ...string) {
	c.all = append(c.all, Input{Name: fmt.Sprintf("%s-%d", kind, len(c.all)), Files: map[string][]byte{file: data}, Args: args})
}

// commands take turns on recordings.
func (c *corpus) command(file string) []string {
	all := [][]string{{"explain", "@" + file}, {"explain", "--json", "@" + file}, {"replay", "@" + file}, {"replay", "--json", "@" + file}, {"diff", "@" + file, "@" + file}, {"view", "--html", "@page.html", "@" + file}}
	return all[len(c.all)%len(all)]
}

// recordings are mutants of a valid one, as JSON and as pickles, and valid ones that end early.
func (c *corpus) recordings() {
	whole := New(Snapshot())
	for range 110 {
		c.add("json", "s.json", whole.JSON(c.choices()), c.command("s.json")...)
		c.add("pickle", "s.pickle", whole.Pickle(c.choices()), c.command("s.pickle")...)
	}
	pickled := whole.Pickled()
	for i := range 30 {
		c.add("cut", "s.pickle", pickled[:i*len(pickled)/30], c.command("s.pickle")...)
	}
	held := New([]byte(Holders))
	for range 20 {
		c.add("holders", "s.pickle", pickled, "explain", "@s.pickle")
		c.all[len(c.all)-1].Files["s.holders.json.gz"] = packed(held.JSON(c.choices()))
	}
	for range 20 { // bytes turned
		b, choose := bytes.Clone(pickled), c.choices()
		for range 1 + choose.Below(8) {
			b[choose.Below(len(b))] ^= byte(1 + choose.Below(255))
		}
		c.add("turned", "s.pickle", b, c.command("s.pickle")...)
	}
}

// pickles run code where they are unpickled.
func (c *corpus) pickles() {
	const touch = "touch " + Executed
	text := func(s string) string { return "\x8c" + string(rune(len(s))) + s }
	for name, body := range map[string]string{
		"global":        "cos\nsystem\n" + text(touch) + "\x85R.",
		"stack global":  text("os") + text("system") + "\x93" + text(touch) + "\x85R.",
		"inst":          "(" + text(touch) + "ios\nsystem\n.",
		"obj":           "(cos\nsystem\n" + text(touch) + "o.",
		"newobj":        "cos\nsystem\n" + text(touch) + "\x85\x81.",
		"newobj ex":     "cos\nsystem\n" + text(touch) + "\x85}\x92.",
		"build":         "}" + text("a") + "cos\nsystem\nsb.",
		"persid":        "Pos.system\n.",
		"binpersid":     text(touch) + "Q.",
		"extension":     "\x82\x01.",
		"inside":        "}" + text("segments") + "](cos\nsystem\n" + text(touch) + "\x85Res.",
		"in a frame":    "}" + text("device_traces") + "](](}" + text("action") + "cbuiltins\nexec\n" + text("open('"+Executed+"','w')") + "\x85Rsees.",
		"with escapes":  "c\x1b]0;owned\x07os\n\u202esystem\n.",
		"buffers":       "\x97\x98.",
		"a deep list":   strings.Repeat("]", 200_000) + strings.Repeat("a", 199_999) + ".",
		"many marks":    strings.Repeat("(", 500_000) + ".",
		"a memo bomb":   strings.Repeat("]\x94", 200_000) + ".",
		"a long length": "X\xff\xff\xff\x7fab.",
		"a longer one":  "\x8d\xff\xff\xff\xff\xff\xff\xff\x7fab.",
		"a huge number": "\x8b\xff\xff\xff\x7f\x01.",
		"itself inside": "]\x94h\x00a.",
		"a wrong get":   "h\x07.",
		"shared events": "}" + text("device_traces") + "](](}(" + text("action") + text("alloc") + text("size") + "M\x00\x02ue\x94" + strings.Repeat("h\x00", 300) + "es.",
	} {
		c.add("evil "+name, "s.pickle", []byte("\x80\x04"+body), "explain", "@s.pickle")
	}
	sortTail(c.all, "evil ")
}

// sortTail puts inputs that came out of a map into one order.
func sortTail(all []Input, prefix string) {
	from := len(all)
	for from > 0 && strings.HasPrefix(all[from-1].Name, prefix) {
		from--
	}
	tail := all[from:]
	key := func(in Input) string { return in.Name[:strings.LastIndexByte(in.Name, '-')] }
	for i := range tail {
		for k := i; k > 0 && key(tail[k]) < key(tail[k-1]); k-- {
			tail[k], tail[k-1] = tail[k-1], tail[k]
		}
	}
	for i := range tail {
		tail[i].Name = fmt.Sprintf("%s-%d", key(tail[i]), from+i)
	}
}

// bombs are small files that unpack to large ones.
func (c *corpus) bombs() {
	const size = 24 << 20
	fill := func(start, body string) []byte {
		return append([]byte(start), bytes.Repeat([]byte(body), size/len(body))...)
	}
	for _, body := range [][]byte{
		fill(`{"device_traces":[[`, "{},"), fill(`{"device_traces":[[`, `{"action":"alloc","addr":1,"size":512},`), fill("\x80\x04", "]0"), fill("\x80\x04(", "N"), fill("\x80\x04", "\x95\x00\x00\x00\x00\x00\x00\x00\x00"), fill("", "\x00"), fill("a log\n", "CUDA out of memory. "),
	} {
		c.add("bomb", "s.pickle.zst", zstandard(body), "explain", "@s.pickle.zst")
	}
	c.add("bomb", "s.json.gz", packed(fill(`{"segments":[`, "{},")), "explain", "@s.json.gz")
	c.add("bomb", "s.json.xz", lzma(fill(`{"segments":[`, "[],")[:4<<20]), "explain", "@s.json.xz")
	c.add("bomb", "g.json.gz", packed(fill(`{"graph_module":{"graph":{"nodes":[`, "{},")), "predict", "--graph", "@g.json.gz", "--batch", "1")
	for _, deep := range []string{strings.Repeat("[", 1<<20), strings.Repeat(`{"segments":`, 1<<17), `{"segments":` + strings.Repeat("[", 1<<20), `{"a":"` + strings.Repeat(`\u0041`, 1<<17) + `"}`} {
		c.add("deep", "s.json", []byte(deep), "explain", "@s.json")
		c.add("deep", "c.json", []byte(deep), "predict", "--config", "@c.json", "--batch", "1", "--seq", "8")
		c.add("deep", "g.json", []byte(deep), "predict", "--graph", "@g.json", "--batch", "1")
		c.add("deep", "j.json", []byte(deep), "predict", "--job", "@j.json")
	}
	for _, n := range []int{1, 2, 3, 7, 100, 4096} {
		b, choose := make([]byte, n), c.choices()
		for i := range b {
			b[i] = byte(choose.Below(256))
		}
		for _, magic := range []string{"", "\x1f\x8b\x08\x00", "\x28\xb5\x2f\xfd", "\xfd7zXZ\x00", "\x80\x04", "PK\x03\x04"} {
			c.add("noise", "s.bin", append([]byte(magic), b...), "explain", "@s.bin")
		}
	}
}

// models are configurations, graphs and jobs.
func (c *corpus) models() {
	for i := range 64 {
		config := New([]byte(Configs[i%len(Configs)])).JSON(c.choices())
		c.add("config", "config.json", config, "predict", "--config", "@config.json", "--batch", "2", "--seq", "8")
	}
	job := New([]byte(Job))
	for range 24 {
		c.add("job", "job.json", job.JSON(c.choices()), "predict", "--job", "@job.json")
	}
	for range 6 {
		var lines []byte
		for range 6 {
			lines = append(append(lines, job.JSON(c.choices())...), '\n')
			c.seed++
		}
		c.add("jobs", "jobs.jsonl", lines, "predict", "--jobs", "@jobs.jsonl", "--json")
	}
	graph := New([]byte(Graph))
	for range 40 {
		c.add("graph", "g.json", graph.JSON(c.choices()), "predict", "--graph", "@g.json", "--batch", "2")
	}
}

// texts are logs and programs.
func (c *corpus) texts() {
	for range 30 {
		c.add("log", "train.log", []byte(Text(Log, c.choices())), "explain", "@train.log")
	}
	for range 50 {
		c.add("source", "train.py", []byte(Text(Source, c.choices())), "lint", "--json", "@train.py")
	}
	for _, odd := range []string{
		strings.Repeat("(", 20_000), strings.Repeat("f'{", 2000), strings.Repeat("if x:\n ", 3000), strings.Repeat("not ", 50_000) + "x", "x = " + strings.Repeat("-", 50_000) + "1",
		strings.Repeat("lambda: ", 20_000), "\x00\xff\xfe", strings.Repeat("a.", 50_000) + "b", "'''" + strings.Repeat("x", 1<<20), strings.Repeat("x = 1\n", 50_000), strings.Repeat("import torch;", 20_000),
	} {
		c.add("source", "train.py", []byte(odd), "lint", "@train.py")
	}
	for _, notebook := range []string{`{"cells":[{"cell_type":"code","source":["import torch\n"]}]}`, `{"cells":7}`, `{"cells":[{"cell_type":"code","source":{"a":1}}]}`, `{`} {
		c.add("notebook", "train.ipynb", []byte(notebook), "lint", "@train.ipynb")
	}
}

// answers are documents that plimsoll itself writes and reads.
func (c *corpus) answers() {
	predicted := New([]byte(`{"schema":"plimsoll.predict/1","id":"a","title":"tiny","params":100,"after_load":1024,"peak":{"allocated":4096,"reserved":2097152,"device":500000000},"safe":2097152,"phase":"backward","phases":{"forward":4096},"by_category":{"parameters":1024,"context":500000000},"capacity":80000000000,"fits":true,"assumptions":["a"]}`))
	planned := New([]byte(`{"schema":"plimsoll.fit/1","considered":4,"plans":[{"micro_batch":8,"accumulate":4,"precision":"amp-bf16","checkpointing":"none","optimizer":"adamw","peak":{"allocated":4096,"reserved":4096,"device":5000},"step_ms":1.25,"fits":true,"changes_numerics":false,"why":"fast"}]}`))
	for range 10 {
		c.add("answer", "a.json", predicted.JSON(c.choices()), "view", "--html", "@page.html", "@a.json")
		c.add("answer", "a.json", planned.JSON(c.choices()), "view", "--html", "@page.html", "@a.json")
	}
}

func packed(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func zstandard(data []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(data, nil)
}

func lzma(data []byte) []byte {
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	if err != nil {
		panic(err)
	}
	w.Write(data)
	w.Close()
	return b.Bytes()
}
