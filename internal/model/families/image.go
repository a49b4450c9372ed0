package families

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// What image classifiers share: pixels in, one label a picture, cross entropy on the logits.

// imageClassifier is a ForImageClassification.
type imageClassifier struct {
	root     *eager.Module
	spec     Spec
	channels int
	labels   int
	// logits runs inside the call of the whole model: what forward has names for is given to that call.
	logits func(c *eager.Call, pixels *eager.Tensor) *eager.Tensor
}

// newImageClassifier refuses other tasks than classification.
func newImageClassifier(p *eager.Process, c *hfconfig.Config, s Spec) (*imageClassifier, error) {
	if s.Task != "image-cls" {
		return nil, wrongTask(c, s, "image-cls")
	}
	if s.Image < 1 {
		return nil, fmt.Errorf("task image-cls needs the size of the images: set --image (\"image\" in a job file), their width in pixels, for example --image 224")
	}
	m := &imageClassifier{root: eager.NewModel(p, s.DType), spec: s, channels: c.Int("num_channels"), labels: c.Labels()}
	return m, nil
}

func (m *imageClassifier) Root() *eager.Module { return m.root }

// Batch allocates the pixels in the type of the parameters, and the labels.
func (m *imageClassifier) Batch() []*eager.Tensor {
	p, s := m.root.Process(), m.spec
	pixels := p.Input("pixel_values", s.DType, s.Batch, m.channels, s.Image, s.Image)
	if m.labels == 1 {
		return []*eager.Tensor{pixels, p.Input("labels", tensor.Float32, s.Batch)}
	}
	return []*eager.Tensor{pixels, p.Input("labels", tensor.Int64, s.Batch)}
}

// Forward is ForImageClassification.forward; the output object keeps the logits.
func (m *imageClassifier) Forward(batch []*eager.Tensor) (*eager.Tensor, []*eager.Tensor) {
	pixels, labels := batch[0], batch[1]
	c := m.root.Enter(pixels, labels)
	logits := c.Let(m.logits(c, pixels))
	loss := c.Let(classifierLoss(logits, labels, m.labels))
	out := c.ReturnAll(loss, logits)
	return out[0], out[1:]
}

// patches is the convolution that cuts an image into tokens: projection(pixels).flatten(2).transpose(1, 2).
type patches struct {
	*eager.Module
	projection *eager.ConvModule
	count      int // of an image as large as the configuration says
}

func newPatches(m *eager.Module, c *hfconfig.Config) *patches {
	size, side := c.Int("patch_size"), c.Int("image_size")/c.Int("patch_size")
	args := eager.Conv{Window: eager.Window{Stride: []int{size, size}}}
	child := m.Child("patch_embeddings")
	conv := child.Conv("projection", c.Int("num_channels"), c.Int("hidden_size"), true, args, size, size)
	return &patches{child, conv, side * side}
}

func (e *patches) forward(pixels *eager.Tensor) *eager.Tensor {
	c := e.Enter(pixels)
	return c.Return(e.projection.Forward(pixels).Flatten(2, -1).Transpose(1, 2))
}

// fixedSize refuses images of another size than the position embeddings are made for.
func fixedSize(c *hfconfig.Config, s Spec) error {
	if s.Image != c.Int("image_size") {
		return fmt.Errorf("model_type %q takes images of %d pixels (image_size), not of %d", c.Type, c.Int("image_size"), s.Image)
	}
	return nil
}

// dropPath is DropPath (stochastic depth): whole samples are dropped by a random factor for each, which is all it keeps. Without a
// probability it hands its argument on.
type dropPath struct {
	*eager.Module
	prob float64
}

func newDropPath(m *eager.Module, prob float64) *dropPath {
	return &dropPath{m.Child("drop_path"), prob}
}

func (d *dropPath) forward(x *eager.Tensor) *eager.Tensor {
	c := d.Enter(x)
	if d.prob == 0 {
		return c.Return(x)
	}
	sizes := make([]int, x.Rank())
	for i := range sizes {
		sizes[i] = 1
	}
	sizes[0] = x.Dim(0)
	random := c.Let(c.Process().Empty("aten::rand", x.DType, sizes...))
	c.Set(&random, random.AddScalar().Floor())
	return c.Return(x.DivScalar().Mul(random))
}

// interpolated is interpolate_pos_encoding: position embeddings for images of another size than they were made for, computed in a
// type of at least that width.
func interpolated(places, x, pixels *eager.Tensor, cut *patches, wide tensor.DType) *eager.Tensor {
	if x.Dim(1) == places.Dim(1) && pixels.Dim(2) == pixels.Dim(3) {
		return places
	}
	c := x.Process().Function(x, pixels)
	width, side, size := x.Dim(2), squareRoot(places.Dim(1)-1), cut.projection.Args.Stride[0]
	class := c.Let(places.Slice(1, 0, 1))
	rest := c.Let(places.Slice(1, 1, places.Dim(1)))
	c.Set(&rest, rest.Reshape(1, side, side, width))
	c.Set(&rest, rest.Permute(0, 3, 1, 2))
	dtype := rest.DType
	c.Set(&rest, rest.To(tensor.Promote(dtype, wide)).Upsample(pixels.Dim(2)/size, pixels.Dim(3)/size).To(dtype))
	c.Set(&rest, rest.Permute(0, 2, 3, 1).View(1, -1, width))
	return c.Return(eager.Cat(1, class, rest))
}

// squareRoot is the side of a square of n patches.
func squareRoot(n int) int {
	side := 0
	for (side+1)*(side+1) <= n {
		side++
	}
	return side
}

// tooShort is the error for a list that does not have an entry for every stage.
func tooShort(c *hfconfig.Config, name string, stages int) error {
	return fmt.Errorf("model_type %q: %s has %d entries for %d stages", c.Type, name, len(c.Ints(name)), stages)
}
