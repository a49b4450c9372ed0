package hfconfig

import (
	"fmt"
	"maps"
	"strings"
)

// Divide gives the configuration of one rank's part: 1/tensor of the heads and of the MLP, 1/stages of the layers. Embeddings and the head
// stay whole.
func (c *Config) Divide(tensor, stages int) (*Config, error) {
	if tensor < 1 || stages < 1 {
		return nil, fmt.Errorf("tensor parallel %d, %d stages: both must be at least 1", tensor, stages)
	}
	if !c.Family.Split {
		return nil, fmt.Errorf("tensor and pipeline parallelism of %s is not modelled (it is for %s)", c.Type, strings.Join(splittable(), ", "))
	}
	heads, kv, width, layers := c.Int("num_attention_heads"), c.Int("num_key_value_heads"), c.Int("intermediate_size"), c.Int("num_hidden_layers")
	switch {
	case heads%tensor != 0 || kv%tensor != 0:
		return nil, fmt.Errorf("tensor parallel %d does not divide %d heads and %d key-value heads", tensor, heads, kv)
	case width%tensor != 0:
		return nil, fmt.Errorf("tensor parallel %d does not divide the MLP's width of %d", tensor, width)
	case stages > layers:
		return nil, fmt.Errorf("%d stages for %d layers", stages, layers)
	}
	part := *c
	part.values = maps.Clone(c.values)
	part.values["num_attention_heads"] = heads / tensor
	part.values["num_key_value_heads"] = kv / tensor
	part.values["intermediate_size"] = width / tensor
	part.values["num_hidden_layers"] = (layers + stages - 1) / stages
	if types := c.layerTypes(); types != nil {
		part.values["layer_types"] = types[:part.values["num_hidden_layers"].(int)]
	}
	return &part, nil
}

func (c *Config) layerTypes() []string {
	if !c.Has("layer_types") {
		return nil
	}
	return c.Strings("layer_types")
}

// splittable lists the model types that can be divided.
func splittable() []string {
	var out []string
	for _, name := range Supported() {
		if table()[name].Split {
			out = append(out, name)
		}
	}
	return out
}
