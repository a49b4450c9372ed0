package families

import "github.com/plimsoll/plimsoll/internal/model/eager"

// kvCache is a DynamicCache, or an EncoderDecoderCache: keys and values of every attention, as names of the call that has the cache. What the model returns
// refers to it (use_cache), so that they live until the next forward. Checkpointing switches it off.
type kvCache struct {
	call    *eager.Call
	on      bool
	entries []*eager.Tensor
}

// update is DynamicLayer.update: torch.cat of nothing and the new states, which is a copy, and takes their names.
// https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/cache_utils.py
func (k *kvCache) update(c *eager.Call, key, value **eager.Tensor) {
	if k == nil || !k.on {
		return
	}
	f := (*key).Process().Function(*key, *value)
	keys := k.call.Let(eager.Cat(-2, *key))
	values := k.call.Let(eager.Cat(-2, *value))
	k.entries = append(k.entries, keys, values)
	f.ReturnAll(keys, values)
	c.Set(key, keys)
	c.Set(value, values)
}

// begin empties the cache for a forward.
func (k *kvCache) begin(c *eager.Call) {
	if k != nil {
		k.call, k.entries = c, nil
	}
}

// held are the keys and values that the output refers to.
func (k *kvCache) held() []*eager.Tensor {
	if k == nil {
		return nil
	}
	return k.entries
}
