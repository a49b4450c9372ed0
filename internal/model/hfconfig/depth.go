package hfconfig

import (
	"maps"
	"slices"
)

// Depth is the number of layers of a model whose layers are all alike, 0 for others.
func (c *Config) Depth() int {
	if !c.Family.Uniform || !c.Has("num_hidden_layers") {
		return 0
	}
	if kinds := c.layerTypes(); len(kinds) > 0 && slices.ContainsFunc(kinds, func(k string) bool { return k != kinds[0] }) {
		return 0
	}
	return c.Int("num_hidden_layers")
}

// Repeats is the number of layers of a model whose layers are all alike, or of several kinds in turn; 0 for others.
func (c *Config) Repeats() int {
	if !c.Family.Uniform || !c.Has("num_hidden_layers") || c.Period() > longestTurn {
		return 0
	}
	return c.Int("num_hidden_layers")
}

// longestTurn is the longest turn of kinds that is told apart from no turn at all: Gemma 3 has six.
const longestTurn = 8

// Period is after how many layers the kinds of a model's layers recur, 1 where all are of one kind.
func (c *Config) Period() int {
	kinds := c.layerTypes()
	for period := 1; period < len(kinds); period++ {
		if slices.Equal(kinds[period:], kinds[:len(kinds)-period]) {
			return period
		}
	}
	return max(1, len(kinds))
}

// WithDepth is the same model with another number of layers, all like its first, or of several kinds in turn as its own.
func (c *Config) WithDepth(layers int) *Config {
	part := *c
	part.values = maps.Clone(c.values)
	part.values[c.own("num_hidden_layers")] = layers
	if kinds := c.layerTypes(); len(kinds) > 0 {
		turn := c.Period()
		if c.Repeats() == 0 {
			turn = 1
		}
		part.values["layer_types"] = slices.Repeat(kinds[:turn], layers)[:layers]
	}
	return &part
}

// Positions is how many tokens a model has positions for, 0 where its configuration names no limit.
func (c *Config) Positions() int {
	if learned := c.LearnedPositions(); learned > 0 { // some have rows for padding beside them
		return learned
	}
	for _, name := range []string{"max_position_embeddings", "n_positions"} {
		if c.Has(name) && c.Int(name) > 0 {
			return c.Int(name)
		}
	}
	return 0
}
