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

// Repeats is the number of layers of a model whose layers are all alike, or of two kinds in turn, whose memory may be the same; 0 for others.
func (c *Config) Repeats() int {
	kinds := c.layerTypes()
	for i := range kinds {
		if kinds[i] != kinds[i%2] {
			return 0
		}
	}
	if !c.Family.Uniform || !c.Has("num_hidden_layers") {
		return 0
	}
	return c.Int("num_hidden_layers")
}

// WithDepth is the same model with another number of layers, all like its first, or of two kinds in turn as its own.
func (c *Config) WithDepth(layers int) *Config {
	part := *c
	part.values = maps.Clone(c.values)
	part.values[c.own("num_hidden_layers")] = layers
	if kinds := c.layerTypes(); len(kinds) > 0 {
		turn := min(2, len(kinds))
		if c.Repeats() == 0 {
			turn = 1
		}
		part.values["layer_types"] = slices.Repeat(kinds[:turn], layers)[:layers]
	}
	return &part
}
