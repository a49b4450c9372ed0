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
	kinds [256]uint8 // of a byte: 0 where no word has it
	wide  int        // how many kinds there are
	next  []uint16   // by state and kind of byte
	ends  [][]uint16 // by state: the words that end there
	final []bool     // by state: whether any does
}

// spoken are the words that rules ask for in nearly every file; their own (Rule.word) are added.
var spoken = []string{
	"cuda", "device", "gpu", "GPU", "accelerat", "xpu", "mps", "Trainer", "fabric", "distributed", "inference_mode().__enter__", "no_grad().__enter__",
	".remove()", ".reset()", "LightningModule", "self.log(", "drop_last=True", "zero_grad", "CrossEntropyLoss",
	`reduction="sum"`, "reduction='sum'", "scale_grads", "num_items_in_batch", "size_average=False", "nbs", "nominal", "WSL", "wsl",
	`"use_reentrant": False`, "'use_reentrant': False", "use_reentrant=False", "use_cache = False", "use_cache=False",
	"enable_input_require_grads", "prepare_model_for_kbit_training", "prepare_model_for_int8_training", "Variable(",
	`print "`, "print '", "print(", "grad", "register_hook", "torch.func", "checkpoint", "_cp", "ckpt",
}

var search = sync.OnceValue(func() *finder {
	words := append(slices.Clone(spoken), oldWords...)
	for _, s := range spokenTraits {
		words = append(words, s.words...)
	}
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
	f := &finder{words: map[string]int{}, wide: 1, ends: make([][]uint16, 1)}
	for _, w := range words {
		for _, c := range []byte(w) {
			if f.kinds[c] == 0 {
				f.kinds[c] = uint8(f.wide)
				f.wide++
			}
		}
	}
	f.next = make([]uint16, f.wide)
	for _, w := range words {
		if _, known := f.words[w]; known {
			continue
		}
		state := uint16(0)
		for _, c := range []byte(w) {
			to := f.to(state, f.kinds[c])
			if *to == 0 {
				made := uint16(len(f.ends))
				*to = made
				f.next, f.ends = append(f.next, make([]uint16, f.wide)...), append(f.ends, nil)
				state = made
				continue
			}
			state = *to
		}
		f.ends[state] = append(f.ends[state], uint16(len(f.words)))
		f.words[w] = len(f.words)
	}
	f.link()
	return f
}

// to is where a state goes on with a kind of byte.
func (f *finder) to(state uint16, kind uint8) *uint16 { return &f.next[int(state)*f.wide+int(kind)] }

// link lets a state that cannot go on continue with its longest end that begins a word, states nearer the beginning first.
func (f *finder) link() {
	fail := make([]uint16, len(f.ends))
	var queue []uint16
	for _, to := range f.next[:f.wide] {
		if to != 0 {
			queue = append(queue, to)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		state := queue[0]
		f.ends[state] = append(f.ends[state], f.ends[fail[state]]...)
		for kind := range uint8(f.wide) {
			to, back := f.to(state, kind), *f.to(fail[state], kind)
			if *to == 0 {
				*to = back
				continue
			}
			fail[*to] = back
			queue = append(queue, *to)
		}
	}
	f.final = make([]bool, len(f.ends))
	for state, list := range f.ends {
		f.final[state] = len(list) > 0
	}
}

// in tells which words a text contains.
func (f *finder) in(text []byte) []bool {
	found := make([]bool, len(f.words))
	state := 0
	for _, c := range text {
		state = int(f.next[state*f.wide+int(f.kinds[c])])
		if f.final[state] {
			for _, w := range f.ends[state] {
				found[w] = true
			}
		}
	}
	return found
}

// sourceHas tells whether the file's text contains one of the words.
func (p *pass) sourceHas(any ...string) bool { return p.known.has(any...) }

func (k *known) has(any ...string) bool {
	if k.found == nil {
		k.found = k.finder.in(k.source)
	}
	for _, w := range any {
		if i, ok := k.finder.words[w]; ok && k.found[i] || !ok && bytes.Contains(k.source, []byte(w)) {
			return true
		}
	}
	return false
}
