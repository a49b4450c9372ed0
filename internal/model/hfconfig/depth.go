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

// WithDepth is the same model with another number of layers, all like its first.
func (c *Config) WithDepth(layers int) *Config {
	part := *c
	part.values = maps.Clone(c.values)
	part.values[c.own("num_hidden_layers")] = layers
	if kinds := c.layerTypes(); len(kinds) > 0 {
		part.values["layer_types"] = slices.Repeat(kinds[:1], layers)
	}
	return &part
}
