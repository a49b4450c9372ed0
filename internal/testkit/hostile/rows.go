package hostile

import (
	"bytes"
	"fmt"
	"strings"
)

// Row is a class of input that once broke plimsoll, and the commands that must survive it.
type Row struct {
	Number int
	What   string
	Files  map[string][]byte
	Runs   [][]string // arguments that begin with @ name files
	Exits  []int      // any of these
	Says   string     // somewhere in what is printed
	Lacks  string     // nowhere in it
}

// unreadable and answers are exit codes: refused as unreadable; answered, with or without a finding.
var (
	unreadable = []int{4}
	either     = []int{0, 3, 4}
)

// Rows are the inputs of the first trial that were not refused in one clear sentence, by its numbers. What is missing here needs no input file and has a test
// of its own: 7 and 8 (an earlier failure, killed ranks), 12 and 19 (the page's token, slow readers), 20 (IPv6).
func Rows() []Row {
	return []Row{
		{Number: 1, What: "55 bytes of JSON: an event without a stream", Files: files("s.json", `{"segments":[],"device_traces":[[{"action":"alloc"}]]}`), Runs: verbs("@s.json"), Exits: either},
		{Number: 2, What: "a segment on device 9e18", Files: files("s.json", onDevice("9000000000000000000")), Runs: verbs("@s.json"), Exits: unreadable},
		{Number: 2, What: "a segment on device 2³¹", Files: files("s.json", onDevice("2147483648")), Runs: verbs("@s.json"), Exits: unreadable},
		{Number: 3, What: "endless events, 884 kB of zstd", Files: files("s.json.zst", frames884("{},", `{"segments":[],"device_traces":[[`)), Runs: verbs("@s.json.zst"), Exits: unreadable},
		{Number: 4, What: "one list of events placed 300 times, 141 kB", Files: files("s.pickle", shared(4_900)), Runs: verbs("@s.pickle"), Exits: unreadable},
		{Number: 4, What: "the same, 3.5 MB", Files: files("s.pickle", shared(120_000)), Runs: verbs("@s.pickle"), Exits: unreadable},
		{Number: 5, What: "escape sequences in the name of a refused global", Files: files("s.pickle", "\x80\x04c\x1b]0;owned\x07os\n\u202esystem\n."), Runs: verbs("@s.pickle"), Exits: unreadable},
		{Number: 5, What: "escape sequences in the name of a file", Files: files("d/\x1b]0;owned\x07\u202e.pickle", "\x80\x04cut", "d/good.json", string(Snapshot())), Runs: [][]string{{"explain", "@d"}}, Exits: unreadable},
		{Number: 6, What: "a memory error that nobody observed", Runs: [][]string{{"run", "--", "sh", "-c", "echo 'RuntimeError: CUDA error: out of memory' >&2; exit 1"}}, Exits: []int{1}, Says: "out of memory", Lacks: "not a memory error"},
		{Number: 6, What: "a command that is killed", Runs: [][]string{{"run", "--", "sh", "-c", "kill -9 $$"}}, Exits: []int{137}, Lacks: "did not do it"},
		{Number: 9, What: "a folder with one cut file", Files: files("d/cut.json", string(Snapshot()[:900]), "d/good.json", string(Snapshot())), Runs: [][]string{{"explain", "@d"}}, Exits: unreadable, Says: "cut.json"},
		{Number: 10, What: "300 jobs in one file", Files: files("jobs.jsonl", strings.Repeat(small+"\n", 300)), Runs: [][]string{{"predict", "--jobs", "@jobs.jsonl", "--json"}}, Exits: []int{0}},
		{Number: 11, What: "a malformed line among jobs", Files: files("jobs.jsonl", small+"\n{\"id\":\n"+small+"\n"), Runs: [][]string{{"predict", "--jobs", "@jobs.jsonl"}}, Exits: unreadable, Says: "jobs.jsonl, line 2"},
		{Number: 13, What: "negative sizes", Files: files("s.json", sized("-4096")), Runs: verbs("@s.json"), Exits: unreadable},
		{Number: 13, What: "sizes of null", Files: files("s.json", sized("null")), Runs: verbs("@s.json"), Exits: unreadable},
		{Number: 13, What: "sizes of text", Files: files("s.json", sized(`"4096"`)), Runs: verbs("@s.json"), Exits: unreadable},
		{Number: 14, What: "random addresses", Files: files("s.json", addressed()), Runs: verbs("@s.json"), Exits: either, Lacks: "TiB"},
		{Number: 14, What: "a size of 2⁶³−1", Files: files("s.json", sized("9223372036854775807")), Runs: verbs("@s.json"), Exits: unreadable},
		{Number: 15, What: "num_hidden_layers null", Files: files("config.json", config(`"num_hidden_layers":null`)), Runs: predicted(), Exits: unreadable, Says: "num_hidden_layers"},
		{Number: 15, What: "num_hidden_layers 0", Files: files("config.json", config(`"num_hidden_layers":0`)), Runs: predicted(), Exits: unreadable, Says: "num_hidden_layers"},
		{Number: 16, What: "vocab_size null", Files: files("config.json", config(`"vocab_size":null`)), Runs: predicted(), Exits: unreadable, Says: "vocab_size"},
		{Number: 16, What: "a graph with negative sizes", Files: files("g.json", strings.Replace(Graph, `"sizes":[{"as_int":4}`, `"sizes":[{"as_int":-4}`, 1)), Runs: [][]string{{"predict", "--graph", "@g.json", "--batch", "2"}}, Exits: unreadable, Says: "g.json"},
		{Number: 17, What: "--lora-dropout NaN", Files: files("config.json", Config), Runs: [][]string{append(predicted()[0], "--lora-rank", "2", "--lora-dropout", "NaN")}, Exits: []int{2}, Says: "NaN"},
		{Number: 17, What: "n_positions 0", Files: files("config.json", `{"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":1,"vocab_size":16,"n_positions":0}`), Runs: predicted(), Exits: unreadable, Says: "n_positions"},
		{Number: 18, What: "billions of opcodes, 1 MB of zstd", Files: files("s.pickle.zst", frames884("]0", "\x80\x04")), Runs: verbs("@s.pickle.zst"), Exits: unreadable},
	}
}

// small is a job that is predicted in no time.
const small = `{"config":{"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":1,"vocab_size":16,"n_positions":8},"batch":1,"seq":8}`

func files(namesAndTexts ...string) map[string][]byte {
	all := map[string][]byte{}
	for i := 0; i < len(namesAndTexts); i += 2 {
		all[namesAndTexts[i]] = []byte(namesAndTexts[i+1])
	}
	return all
}

// verbs are the commands that read recordings.
func verbs(file string) [][]string {
	return [][]string{{"explain", file}, {"explain", "--json", file}, {"replay", file}, {"diff", file, file}, {"view", "--html", "@page.html", file}}
}

func predicted() [][]string {
	return [][]string{{"predict", "--config", "@config.json", "--batch", "1", "--seq", "8"}}
}

func onDevice(device string) string {
	return `{"segments":[{"device":` + device + `,"address":512,"total_size":2097152,"allocated_size":512,"active_size":512,"stream":0,"segment_type":"small","blocks":[{"address":512,"size":512,"state":"active_allocated"}]}],"device_traces":[]}`
}

func sized(size string) string {
	return `{"segments":[{"device":0,"address":512,"total_size":` + size + `,"allocated_size":512,"active_size":512,"stream":0,"segment_type":"small","blocks":[{"address":512,"size":` + size + `,"state":"active_allocated"}]}],` +
		`"device_traces":[[{"action":"alloc","addr":512,"size":` + size + `,"stream":0,"frames":[]}]]}`
}

// addressed is a history whose blocks lie where no allocator puts them.
func addressed() string {
	var b strings.Builder
	b.WriteString(`{"segments":[],"device_traces":[[`)
	choose := FromSeed(14)
	for i := range 4000 {
		if i > 0 {
			b.WriteByte(',')
		}
		action := []string{"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free"}[choose.Below(5)]
		fmt.Fprintf(&b, `{"action":%q,"addr":%d,"size":%d,"stream":0,"frames":[]}`, action, choose.Below(1<<40), 512+choose.Below(1<<20))
	}
	b.WriteString(`]]}`)
	return b.String()
}

func config(field string) string {
	name, _, _ := strings.Cut(field, ":")
	var kept []string
	for _, part := range strings.Split(strings.Trim(`"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":128,"vocab_size":100`, "{}"), ",") {
		if !strings.HasPrefix(part, name+":") {
			kept = append(kept, part)
		}
	}
	return "{" + strings.Join(append(kept, field), ",") + "}"
}

// frames884 is 884 kB of zstd frames that unpack to gigabytes of body behind a beginning.
func frames884(body, beginning string) string {
	frame := zstandard(bytes.Repeat([]byte(body), 8<<20/len(body)))
	return string(zstandard([]byte(beginning))) + strings.Repeat(string(frame), 884_000/len(frame))
}

// shared is a pickle in which one list of n events stands in the place of 300.
func shared(n int) string {
	text := func(s string) string { return "\x8c" + string(rune(len(s))) + s }
	event := "}(h\x00h\x01h\x02M\x00\x02u" // {"action": "alloc", "size": 512}
	return "\x80\x04" + text("action") + "\x94" + "0" + text("alloc") + "\x94" + "0" + text("size") + "\x94" + "0" +
		"}(" + text("segments") + "]" + text("device_traces") + "](](" + strings.Repeat(event, n) + "e\x94" + strings.Repeat("h\x03", 299) + "eu."
}
