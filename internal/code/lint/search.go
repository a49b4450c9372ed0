package lint

import (
	"bytes"
	"slices"
	"sync"
)

// Rules ask whether a file speaks of something at all before they look for it. finder answers for all their words in one pass over the
// text (Aho and Corasick, 1975): to search for each word alone took a fifth of the time of a whole check.
type finder struct {
	words map[string]int
	next  [][256]uint16 // by state and byte
	ends  [][]uint16    // by state: the words that end there
}

// spoken are the words that rules ask for in nearly every file; their own (Rule.word) are added.
var spoken = []string{
	"cuda", "device", "gpu", "GPU", "accelerat", "xpu", "mps", "Trainer", "fabric", "distributed", "inference_mode().__enter__", "no_grad().__enter__",
	".remove()", ".reset()", "LightningModule", "self.log(", "drop_last=True", "zero_grad", "CrossEntropyLoss",
	`reduction="sum"`, "reduction='sum'", "scale_grads", "num_items_in_batch", "size_average=False", "nbs", "nominal", "WSL", "wsl",
	`"use_reentrant": False`, "'use_reentrant': False", "use_reentrant=False", "use_cache = False", "use_cache=False",
	"enable_input_require_grads", "prepare_model_for_kbit_training", "prepare_model_for_int8_training", "Variable(",
}

var search = sync.OnceValue(func() *finder {
	words := append(slices.Clone(spoken), oldWords...)
	for _, s := range shown {
		words = append(words, s.words...)
	}
	for _, r := range rules {
		if r.word != "" {
			words = append(words, r.word)
		}
	}
	return newFinder(words)
})

func newFinder(words []string) *finder {
	f := &finder{words: map[string]int{}, next: make([][256]uint16, 1), ends: make([][]uint16, 1)}
	for _, w := range words {
		if _, known := f.words[w]; known {
			continue
		}
		state := uint16(0)
		for _, c := range []byte(w) {
			if f.next[state][c] == 0 {
				f.next, f.ends = append(f.next, [256]uint16{}), append(f.ends, nil)
				f.next[state][c] = uint16(len(f.next) - 1)
			}
			state = f.next[state][c]
		}
		f.ends[state] = append(f.ends[state], uint16(len(f.words)))
		f.words[w] = len(f.words)
	}
	f.link()
	return f
}

// link lets a state that cannot go on continue with its longest end that begins a word, states nearer the beginning first.
func (f *finder) link() {
	fail := make([]uint16, len(f.next))
	var queue []uint16
	for _, to := range f.next[0] {
		if to != 0 {
			queue = append(queue, to)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		state := queue[0]
		f.ends[state] = append(f.ends[state], f.ends[fail[state]]...)
		for c, to := range f.next[state] {
			if to == 0 {
				f.next[state][c] = f.next[fail[state]][c]
				continue
			}
			fail[to] = f.next[fail[state]][c]
			queue = append(queue, to)
		}
	}
}

// in tells which words a text contains.
func (f *finder) in(text []byte) []bool {
	found := make([]bool, len(f.words))
	state := uint16(0)
	for _, c := range text {
		state = f.next[state][c]
		for _, w := range f.ends[state] {
			found[w] = true
		}
	}
	return found
}

// sourceHas tells whether the file's text contains one of the words.
func (p *pass) sourceHas(any ...string) bool {
	f := p.known.finder
	if p.known.found == nil {
		p.known.found = f.in(p.m.File.Source)
	}
	for _, w := range any {
		if i, ok := f.words[w]; ok && p.known.found[i] || !ok && bytes.Contains(p.m.File.Source, []byte(w)) {
			return true
		}
	}
	return false
}
