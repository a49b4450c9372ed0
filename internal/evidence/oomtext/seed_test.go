package oomtext

import "flag"

// The properties are drawn from one seed, so that a change is judged by the same messages as the one before it; -rapid.seed draws others, and make endure does.
func init() {
	if err := flag.Set("rapid.seed", "20261116"); err != nil {
		panic(err)
	}
}
