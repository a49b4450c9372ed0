package oomtext

import "sync"

// automaton finds the triggers of all templates in one pass (Aho and Corasick, 1975). It sees letters and
// digits only, in lower case; everything else leaves its state as it is, so neither a line break nor a
// quote mark nor a hyphen inside a trigger hides it.
type automaton struct {
	class  [256]uint8
	next   []uint32            // next[state+class]; a state is the index of its row, those that accept come last
	accept uint32              // the first state that accepts
	ends   map[uint32][]uint16 // the words that end in each accepting state, by number
}

const (
	classes  = 37 // 26 letters, 10 digits, everything else
	skipping = classes - 1
)

// triggerAutomaton is built once, when the first text is read.
var triggerAutomaton = sync.OnceValue(func() *automaton { return newAutomaton(triggerWords()) })

func newAutomaton(words []string) *automaton {
	a := &automaton{}
	for c := range a.class {
		a.class[c] = classOf(byte(c))
	}
	trie := newTrie()
	for i, w := range words {
		trie.add(w, uint16(i))
	}
	trie.link()
	a.number(trie)
	return a
}

func classOf(c byte) uint8 {
	switch {
	case c >= 'a' && c <= 'z':
		return c - 'a'
	case c >= 'A' && c <= 'Z':
		return c - 'A'
	case digit(c):
		return 26 + c - '0'
	}
	return skipping
}

// number lays the states out so that one comparison tells whether a state accepts.
func (a *automaton) number(t *trie) {
	order := make([]uint32, len(t.accepts))
	n := uint32(0)
	for _, wanted := range []bool{false, true} {
		if wanted {
			a.accept = n
		}
		for s, accepts := range t.accepts {
			if accepts == wanted {
				order[s] = n
				n += classes
			}
		}
	}
	a.ends = map[uint32][]uint16{}
	for s, words := range t.ends {
		if len(words) > 0 {
			a.ends[order[s]] = words
		}
	}
	a.next = make([]uint32, len(order)*classes)
	for s, row := range t.children {
		for c, to := range row {
			a.next[int(order[s])+c] = order[to]
		}
		a.next[int(order[s])+skipping] = order[s]
	}
}

// scan runs text through the automaton from state and returns where the first trigger ends (-1 none) and
// the state there.
func (a *automaton) scan(state uint32, text []byte) (int, uint32) {
	next, accept := a.next, a.accept
	for i, c := range text {
		to := next[int(state)+int(a.class[c])]
		if to >= accept && to != state {
			return i + 1, to
		}
		state = to
	}
	return -1, state
}

// hits calls found with every word that ends in text, by its number, and the position of its last letter or digit.
func (a *automaton) hits(text string, found func(word uint16, last int)) {
	state := uint32(0)
	for i := range len(text) {
		class := a.class[text[i]]
		state = a.next[state+uint32(class)]
		if state >= a.accept && class != skipping {
			for _, w := range a.ends[state] {
				found(w, i)
			}
		}
	}
}

// trie is the automaton while it is built; state 0 is the root.
type trie struct {
	children [][classes]uint32
	accepts  []bool
	ends     [][]uint16
}

func newTrie() *trie {
	return &trie{children: make([][classes]uint32, 1), accepts: make([]bool, 1), ends: make([][]uint16, 1)}
}

func (t *trie) add(word string, number uint16) {
	at := uint32(0)
	for i := range len(word) {
		c := classOf(word[i])
		if c == skipping {
			continue
		}
		if t.children[at][c] == 0 {
			t.children = append(t.children, [classes]uint32{})
			t.accepts = append(t.accepts, false)
			t.ends = append(t.ends, nil)
			t.children[at][c] = uint32(len(t.accepts) - 1)
		}
		at = t.children[at][c]
	}
	t.accepts[at] = true
	t.ends[at] = append(t.ends[at], number)
}

// link turns the trie into an automaton without failure steps: every missing child becomes the child of
// the longest proper suffix that has one.
func (t *trie) link() {
	fail := make([]uint32, len(t.accepts))
	queue := []uint32{}
	for c := range skipping {
		if s := t.children[0][c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		t.accepts[s] = t.accepts[s] || t.accepts[fail[s]]
		t.ends[s] = append(t.ends[s], t.ends[fail[s]]...)
		for c := range skipping {
			child := t.children[s][c]
			if child == 0 {
				t.children[s][c] = t.children[fail[s]][c]
				continue
			}
			fail[child] = t.children[fail[s]][c]
			queue = append(queue, child)
		}
	}
}
