package hfconfig

import (
	"encoding/json"
	"fmt"

	"github.com/plimsoll/plimsoll/internal/document"
)

// Quantization is what a configuration says about weights that were saved in fewer bits.
type Quantization struct {
	Method string // quant_method; empty: they were not
	Bits   int    // of a weight; 0: not said
}

// QuantizationOf reads the quantization_config of any configuration.
func QuantizationOf(data []byte) Quantization {
	var raw struct {
		Config json.RawMessage `json:"quantization_config"`
	}
	if document.Config.Check(len(data)) != nil || document.Decode(StandardJSON(data), &raw) != nil {
		return Quantization{}
	}
	var q struct {
		Method string          `json:"quant_method"`
		Bits   json.RawMessage `json:"bits"`
		Four   bool            `json:"load_in_4bit"`
		Eight  bool            `json:"load_in_8bit"`
	}
	if len(raw.Config) == 0 || string(raw.Config) == "null" || json.Unmarshal(raw.Config, &q) != nil {
		return Quantization{}
	}
	out := Quantization{Method: clip(q.Method)}
	if bits, err := kindInt.decode(q.Bits); err == nil {
		out.Bits, _ = bits.(int)
	}
	switch {
	case q.Four:
		out.Bits = 4
	case q.Eight:
		out.Bits = 8
	}
	if out.Method == "" {
		out.Method = "a method it does not name"
		if q.Four || q.Eight { // files of the first releases
			out.Method = bitsandbytes
		}
	}
	return out
}

const (
	bitsandbytes = "bitsandbytes"
	mxfp4        = "mxfp4"
)

// Base is in how many bits the frozen base of adapters is held where nobody says it: 4 or 8 with bitsandbytes; 0: as any other model's.
func (q Quantization) Base() int {
	if q.Method == bitsandbytes && (q.Bits == 4 || q.Bits == 8) {
		return q.Bits
	}
	return 0
}

// Dequantized tells a form of weights that training takes in bf16 (https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/utils/quantization_config.py, Mxfp4Config.dequantize).
func (q Quantization) Dequantized() bool { return q.Method == mxfp4 }

// Note says how the weights are counted in a job of this precision that does not quantize them itself.
func (q Quantization) Note(precision string) string {
	switch {
	case q.Method == "":
		return ""
	case q.Dequantized():
		return fmt.Sprintf("the weights are saved in mxfp4, which is not trained: all are counted in %s, as Mxfp4Config(dequantize=True) loads them", precision)
	case q.Base() > 0:
		return fmt.Sprintf("the weights are saved in %d bits (bitsandbytes), which are not trained themselves: all are counted in %s, as if dequantized; --lora-rank 16 trains adapters on the %[1]d-bit base", q.Bits, precision)
	}
	return fmt.Sprintf("the weights are saved quantized (%s), which is not modelled: all are counted in %s, as if dequantized; --lora-rank with --base-bits 4 trains adapters on a 4-bit base", q.Method, precision)
}
