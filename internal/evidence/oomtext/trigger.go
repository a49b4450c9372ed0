package oomtext

import "sync"

// automaton finds the triggers of all templates in one pass (Aho and Corasick, 1975). It sees letters and
// digits only, in lower case; everything else leaves its state as it is, so neither a line break nor a
// quote mark nor a hyphen inside a trigger hides it.
type automaton struct {
	class  [256]uint8
	next   []uint32 // next[state+class]; a state is the index of its row, those that accept come last
	accept uint32   // the first state that accepts
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
	for _, w := range words {
		trie.add(w)
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

// trie is the automaton while it is built; state 0 is the root.
type trie struct {
	children [][classes]uint32
	accepts  []bool
}

func newTrie() *trie {
	return &trie{children: make([][classes]uint32, 1), accepts: make([]bool, 1)}
}

func (t *trie) add(word string) {
	at := uint32(0)
	for i := range len(word) {
		c := classOf(word[i])
		if c == skipping {
			continue
		}
		if t.children[at][c] == 0 {
			t.children = append(t.children, [classes]uint32{})
			t.accepts = append(t.accepts, false)
			t.children[at][c] = uint32(len(t.accepts) - 1)
		}
		at = t.children[at][c]
	}
	t.accepts[at] = true
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
