package hostile

// Seed gives a fuzz target of choices something to begin with.
func Seed(f interface{ Add(args ...any) }, more ...any) {
	for seed := range 40 {
		choices := []byte{byte(seed), byte(3 * seed), byte(7 * seed), byte(seed * seed), 5, 9, byte(seed), 2, byte(11 * seed), byte(13 * seed), byte(17 * seed), byte(19 * seed)}
		f.Add(append([]any{choices}, more...)...)
	}
}
