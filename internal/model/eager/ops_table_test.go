package eager

import "github.com/plimsoll/plimsoll/internal/model/tensor"

// unaryReplay applies a function to the first input.
func unaryReplay(f func(x *Tensor) *Tensor) func(b *bench) func() *Tensor {
	return func(b *bench) func() *Tensor { return func() *Tensor { return f(b.x[0]) } }
}

func binaryReplay(f func(x, y *Tensor) *Tensor) func(b *bench) func() *Tensor {
	return func(b *bench) func() *Tensor { return func() *Tensor { return f(b.x[0], b.x[1]) } }
}

func convReplay(out int, bias bool, c Conv, kernel ...int) func(b *bench) func() *Tensor {
	return func(b *bench) func() *Tensor {
		first, second := out, b.x[0].Dim(1)/max(c.Groups, 1)
		if c.Transposed {
			first, second = b.x[0].Dim(1), out
		}
		w := b.param(append([]int{first, second}, kernel...)...)
		var bb *Tensor
		if bias {
			bb = b.param(out)
		}
		return func() *Tensor { return Convolution(b.x[0], w, bb, c) }
	}
}

func sdpaReplay(a Attention) func(b *bench) func() *Tensor {
	return func(b *bench) func() *Tensor {
		return func() *Tensor {
			k, v := b.x[0], b.x[0]
			if len(b.x) > 1 {
				k, v = b.x[1], b.x[2]
			}
			return ScaledDotProduct(b.x[0], k, v, a)
		}
	}
}

func window(k, s, p int) Window { return Window{Kernel: []int{k}, Stride: []int{s}, Padding: []int{p}} }

func strided(s, p int) Conv { return Conv{Window: window(0, s, p)} }

// replays are the measured operators.
var replays = map[string]func(b *bench) func() *Tensor{
	"relu": unaryReplay((*Tensor).ReLU), "gelu": unaryReplay((*Tensor).GELU), "gelu_tanh": unaryReplay((*Tensor).GELU),
	"silu": unaryReplay((*Tensor).SiLU), "sigmoid": unaryReplay((*Tensor).Sigmoid), "tanh": unaryReplay((*Tensor).Tanh),
	"exp": unaryReplay((*Tensor).Exp), "hardswish": unaryReplay((*Tensor).Hardswish), "hardsigmoid": unaryReplay((*Tensor).Hardsigmoid),
	"leaky_relu": unaryReplay((*Tensor).LeakyReLU), "elu": unaryReplay((*Tensor).ELU), "mish": unaryReplay((*Tensor).Mish),
	"softplus": unaryReplay((*Tensor).Softplus), "relu6": unaryReplay((*Tensor).Hardtanh),
	"softmax":     unaryReplay(func(x *Tensor) *Tensor { return x.Softmax(-1) }),
	"softmax_f32": unaryReplay(func(x *Tensor) *Tensor { return x.SoftmaxTo(-1, tensor.Float32).To(x.DType) }),
	"log_softmax": unaryReplay(func(x *Tensor) *Tensor { return x.LogSoftmax(-1) }),
	"dropout":     unaryReplay(func(x *Tensor) *Tensor { return x.Dropout(0.1) }),
	"pow2":        unaryReplay((*Tensor).Pow),
	"rsqrt":       unaryReplay(func(x *Tensor) *Tensor { return x.Abs().Rsqrt() }),
	"mean":        unaryReplay(func(x *Tensor) *Tensor { return x.Mean(true, -1) }),
	"sum":         unaryReplay(func(x *Tensor) *Tensor { return x.Sum(false, -1) }),
	"scale":       unaryReplay((*Tensor).MulScalar), "add_scalar": unaryReplay((*Tensor).AddScalar), "div_scalar": unaryReplay((*Tensor).DivScalar),
	"neg": unaryReplay((*Tensor).Neg), "clone": unaryReplay((*Tensor).Clone), "cumsum": unaryReplay(func(x *Tensor) *Tensor { return x.Cumsum(-1) }),
	"to_f32":        unaryReplay(func(x *Tensor) *Tensor { return x.To(tensor.Float32) }),
	"to_bf16":       unaryReplay(func(x *Tensor) *Tensor { return x.To(tensor.BFloat16) }),
	"contiguous_t":  unaryReplay(func(x *Tensor) *Tensor { return x.Transpose(1, 2).Contiguous() }),
	"view":          unaryReplay(func(x *Tensor) *Tensor { return x.View(-1, x.Dim(-1)) }),
	"layer_norm_nw": unaryReplay(func(x *Tensor) *Tensor { return LayerNorm(x, nil, nil, x.Dim(-1)) }),
	"chunk_mul":     unaryReplay(func(x *Tensor) *Tensor { p := x.Chunk(2, -1); return p[0].Mul(p[1]) }),
	"silu_mul":      unaryReplay(func(x *Tensor) *Tensor { p := x.Chunk(2, -1); return p[0].SiLU().Mul(p[1]) }),
	"pad":           unaryReplay(func(x *Tensor) *Tensor { return x.Pad(0, 8) }),
	"repeat":        unaryReplay(func(x *Tensor) *Tensor { return x.Repeat(1, 1, 2) }),
	"slice_mul":     unaryReplay(func(x *Tensor) *Tensor { return x.Slice(-1, 0, 512).MulScalar() }),
	"stack":         unaryReplay(func(x *Tensor) *Tensor { return Stack(0, x, x) }),
	"glu":           unaryReplay(func(x *Tensor) *Tensor { return x.GLU(-1) }),
	"roll":          unaryReplay((*Tensor).Roll),
	"rms_py": unaryReplay(func(x *Tensor) *Tensor {
		c := x.p.Function(x)
		h := c.Let(x.Float())
		variance := c.Let(h.Pow().Mean(true, -1))
		return c.Return(h.Mul(variance.AddScalar().Rsqrt()).To(x.DType))
	}),
	"masked_fill": func(b *bench) func() *Tensor {
		mask := b.constant(tensor.Bool, b.x[0].Sizes...)
		return func() *Tensor { return b.x[0].MaskedFill(mask) }
	},
	"add": binaryReplay((*Tensor).Add), "mul": binaryReplay((*Tensor).Mul), "sub": binaryReplay((*Tensor).Sub), "div": binaryReplay((*Tensor).Div),
	"cat":          binaryReplay(func(x, y *Tensor) *Tensor { return Cat(-1, x, y) }),
	"maximum":      binaryReplay((*Tensor).Maximum),
	"where":        binaryReplay(func(x, y *Tensor) *Tensor { return Where(x.Compare("aten::gt", nil), x, y) }),
	"mse":          binaryReplay(MSELoss),
	"matmul_3d_2d": binaryReplay(Matmul), "bmm": binaryReplay(Bmm),
	"matmul_4d": binaryReplay(func(x, y *Tensor) *Tensor { return Matmul(x, y.Transpose(2, 3)) }),
	"linear": func(b *bench) func() *Tensor {
		w, bias := b.param(4096, 1024), b.param(4096)
		return func() *Tensor { return Linear(b.x[0], w, bias) }
	},
	"linear_2d": func(b *bench) func() *Tensor {
		w, bias := b.param(4096, 1024), b.param(4096)
		return func() *Tensor { return Linear(b.x[0], w, bias) }
	},
	"linear_nobias": func(b *bench) func() *Tensor {
		w := b.param(4096, 1024)
		return func() *Tensor { return Linear(b.x[0], w, nil) }
	},
	"layer_norm": func(b *bench) func() *Tensor {
		w, bias := b.param(1024), b.param(1024)
		return func() *Tensor { return LayerNorm(b.x[0], w, bias, 1024) }
	},
	"rms_norm": func(b *bench) func() *Tensor {
		w := b.param(1024)
		return func() *Tensor { return RMSNorm(b.x[0], w, 1024) }
	},
	"group_norm": func(b *bench) func() *Tensor {
		w, bias := b.param(256), b.param(256)
		return func() *Tensor { return GroupNorm(b.x[0], w, bias, 32) }
	},
	"conv3x3": convReplay(128, true, strided(1, 1), 3, 3), "conv3x3_nobias": convReplay(128, false, strided(1, 1), 3, 3),
	"conv1x1": convReplay(64, false, strided(1, 0), 1, 1), "conv7x7s2_rgb": convReplay(64, false, strided(2, 3), 7, 7),
	"conv3x3_rgb": convReplay(64, true, strided(1, 1), 3, 3), "conv3x3s2": convReplay(256, false, strided(2, 1), 3, 3),
	"dwconv3x3":    convReplay(192, false, Conv{Window: window(0, 1, 1), Groups: 192}, 3, 3),
	"dwconv5x5":    convReplay(192, false, Conv{Window: window(0, 1, 2), Groups: 192}, 5, 5),
	"dwconv7x7":    convReplay(192, true, Conv{Window: window(0, 1, 3), Groups: 192}, 7, 7),
	"grouped3x3":   convReplay(256, false, Conv{Window: window(0, 1, 1), Groups: 32}, 3, 3),
	"patch16":      convReplay(768, true, strided(16, 0), 16, 16),
	"dilated3x3":   convReplay(512, false, Conv{Window: Window{Stride: []int{1}, Padding: []int{2}, Dilation: []int{2}}}, 3, 3),
	"deconv2x2":    convReplay(128, true, Conv{Window: window(0, 2, 0), Transposed: true}, 2, 2),
	"conv1d":       convReplay(768, true, strided(1, 1), 3),
	"conv3d":       convReplay(64, false, strided(1, 1), 3, 3, 3),
	"batch_norm2d": batchNormReplay(false), "batch_norm3d": batchNormReplay(false), "relu_inplace_after_bn": batchNormReplay(true),
	"conv_bn_relu": func(b *bench) func() *Tensor {
		w := b.param(128, 128, 3, 3)
		gamma, beta, mean, variance := b.param(128), b.param(128), b.constant(tensor.Float32, 128), b.constant(tensor.Float32, 128)
		return func() *Tensor {
			y := BatchNorm(Convolution(b.x[0], w, nil, strided(1, 1)), gamma, beta, mean, variance)
			return y.ReLUInPlace()
		}
	},
	"max_pool2":         unaryReplay(func(x *Tensor) *Tensor { return x.MaxPool(window(2, 2, 0)) }),
	"max_pool3s2p1":     unaryReplay(func(x *Tensor) *Tensor { return x.MaxPool(window(3, 2, 1)) }),
	"avg_pool2":         unaryReplay(func(x *Tensor) *Tensor { return x.AvgPool(window(2, 2, 0)) }),
	"adaptive_avg1":     unaryReplay(func(x *Tensor) *Tensor { return x.AdaptiveAvgPool(1, 1) }),
	"adaptive_avg7":     unaryReplay(func(x *Tensor) *Tensor { return x.AdaptiveAvgPool(7, 7) }),
	"upsample_bilinear": unaryReplay(func(x *Tensor) *Tensor { return x.Upsample(2*x.Dim(2), 2*x.Dim(3)) }),
	"pixel_shuffle":     unaryReplay(func(x *Tensor) *Tensor { return x.PixelShuffle(2) }),
	"sdpa_default":      sdpaReplay(Attention{Causal: true}), "sdpa_default_noncausal": sdpaReplay(Attention{}),
	"sdpa_default_gqa": sdpaReplay(Attention{Causal: true, GQA: true}), "sdpa_default_d128": sdpaReplay(Attention{Causal: true}),
	"sdpa_default_d256": sdpaReplay(Attention{Causal: true}), "sdpa_default_s197": sdpaReplay(Attention{}),
	"sdpa_default_dropout": sdpaReplay(Attention{Causal: true, Dropout: 0.1}),
	"sdpa_default_boolmask": func(b *bench) func() *Tensor {
		mask := b.constant(tensor.Bool, 4, 1, 1024, 1024)
		return func() *Tensor { return ScaledDotProduct(b.x[0], b.x[1], b.x[2], Attention{Mask: mask}) }
	},
	"sdpa_math": func(b *bench) func() *Tensor {
		return func() *Tensor { return mathAttention(b.x[0], b.x[1], b.x[2], Attention{Causal: true}) }
	},
	"sdpa_flash": backendReplay(flashBackend), "sdpa_eff": backendReplay(efficientBackend), "sdpa_cudnn": backendReplay(cudnnBackend),
	"cross_entropy": func(b *bench) func() *Tensor {
		target := b.constant(tensor.Int64, 2048)
		return func() *Tensor { return CrossEntropy(b.x[0], target) }
	},
	"cross_entropy_float": func(b *bench) func() *Tensor {
		target := b.constant(tensor.Int64, 2048)
		return func() *Tensor { return CrossEntropy(b.x[0].Float(), target) }
	},
	"embedding": func(b *bench) func() *Tensor {
		w := b.param(50257, 1024)
		return func() *Tensor { return Embedding(b.x[0], w) }
	},
	"lm_head_loss": func(b *bench) func() *Tensor {
		w, target := b.param(50257, 1024), b.constant(tensor.Int64, 2048)
		return func() *Tensor {
			return CrossEntropy(Linear(b.x[0], w, nil).View(-1, 50257).Float(), target)
		}
	},
	"rope_hf": func(b *bench) func() *Tensor {
		cos, sin := b.constant(b.d, 1, 1, 1024, 64), b.constant(b.d, 1, 1, 1024, 64)
		return func() *Tensor {
			x := b.x[0]
			return x.Mul(cos).Add(Cat(-1, x.Slice(-1, 32, 64).Neg(), x.Slice(-1, 0, 32)).Mul(sin))
		}
	},
	"eager_attention_hf": func(b *bench) func() *Tensor {
		return func() *Tensor {
			c := b.p.Function()
			w := c.Let(Matmul(b.x[0], b.x[1].Transpose(2, 3)).MulScalar())
			c.Set(&w, w.SoftmaxTo(-1, tensor.Float32).To(b.x[0].DType))
			return c.Return(Matmul(w, b.x[2]))
		}
	},
	"index_gather": func(b *bench) func() *Tensor {
		index := b.constant(tensor.Int64, 8000)
		return func() *Tensor { return b.x[0].Index(0, index) }
	},
}

func backendReplay(kind backend) func(b *bench) func() *Tensor {
	return func(b *bench) func() *Tensor {
		return func() *Tensor { return b.p.fusedAttention(kind, b.x[0], b.x[1], b.x[2], Attention{Causal: true}) }
	}
}

func batchNormReplay(relu bool) func(b *bench) func() *Tensor {
	return func(b *bench) func() *Tensor {
		n := b.x[0].Dim(1)
		w, bias, mean, variance := b.param(n), b.param(n), b.constant(tensor.Float32, n), b.constant(tensor.Float32, n)
		return func() *Tensor {
			y := BatchNorm(b.x[0], w, bias, mean, variance)
			if relu {
				return y.ReLUInPlace()
			}
			return y
		}
	}
}
