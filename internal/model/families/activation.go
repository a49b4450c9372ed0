package families

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/model/eager"
)

// activations is ACT2FN (transformers 5.17, activations.py).
var activations = map[string]func(*eager.Tensor) *eager.Tensor{
	"gelu":              (*eager.Tensor).GELU,
	"gelu_10":           clippedGELU,
	"gelu_accurate":     newGELU,
	"gelu_fast":         fastGELU,
	"gelu_new":          newGELU,
	"gelu_python":       pythonGELU,
	"gelu_python_tanh":  newGELU,
	"gelu_pytorch_tanh": (*eager.Tensor).GELU,
	"hardswish":         (*eager.Tensor).Hardswish,
	"leaky_relu":        (*eager.Tensor).LeakyReLU,
	"linear":            func(x *eager.Tensor) *eager.Tensor { return x },
	"mish":              (*eager.Tensor).Mish,
	"quick_gelu":        quickGELU,
	"relu":              (*eager.Tensor).ReLU,
	"relu2":             squaredReLU,
	"relu6":             (*eager.Tensor).Hardtanh,
	"sigmoid":           (*eager.Tensor).Sigmoid,
	"silu":              (*eager.Tensor).SiLU,
	"swish":             (*eager.Tensor).SiLU,
	"tanh":              (*eager.Tensor).Tanh,
}

// activation is ACT2FN[name]: modules without parameters, so each call holds its argument.
func activation(m *eager.Module, name string) (func(*eager.Tensor) *eager.Tensor, error) {
	fn, ok := activations[name]
	if !ok {
		return nil, fmt.Errorf("activation %q is not supported", name)
	}
	child := m.Child("act_fn")
	return func(x *eager.Tensor) *eager.Tensor {
		c := child.Enter(x)
		return c.Return(fn(x))
	}, nil
}

// newGELU is NewGELUActivation: 0.5 * x * (1 + tanh(√(2/π) * (x + 0.044715 * x³))), eight operators.
func newGELU(x *eager.Tensor) *eager.Tensor {
	c := x.Process().Function(x)
	half := c.Let(x.MulScalar())
	inner := x.Add(x.Pow().MulScalar()).MulScalar()
	return c.Return(half.Mul(inner.Tanh().AddScalar()))
}

// fastGELU is FastGELUActivation: 0.5 * x * (1 + tanh(x * 0.7978845608 * (1 + 0.044715 * x * x))).
func fastGELU(x *eager.Tensor) *eager.Tensor {
	c := x.Process().Function(x)
	half := c.Let(x.MulScalar())
	scaled := x.MulScalar()
	inner := scaled.Mul(x.MulScalar().Mul(x).AddScalar())
	return c.Return(half.Mul(inner.Tanh().AddScalar()))
}

// pythonGELU is GELUActivation(use_gelu_python=True): x * 0.5 * (1 + erf(x / √2)).
func pythonGELU(x *eager.Tensor) *eager.Tensor {
	c := x.Process().Function(x)
	half := c.Let(x.MulScalar())
	return c.Return(half.Mul(x.DivScalar().Erf().AddScalar()))
}

// clippedGELU is ClippedGELUActivation: clip(gelu(x), -10, 10).
func clippedGELU(x *eager.Tensor) *eager.Tensor { return x.GELU().Clamp() }

// quickGELU is QuickGELUActivation: x * sigmoid(1.702 * x).
func quickGELU(x *eager.Tensor) *eager.Tensor {
	c := x.Process().Function(x)
	return c.Return(x.Mul(x.MulScalar().Sigmoid()))
}

// squaredReLU is ReLUSquaredActivation: relu(x)².
func squaredReLU(x *eager.Tensor) *eager.Tensor {
	c := x.Process().Function(x)
	applied := c.Let(x.ReLU())
	return c.Return(applied.Pow())
}
