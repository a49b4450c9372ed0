package flow

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// MovesToGPU recognises .cuda(), .to(device) and device=… with anything that is not the CPU or a dtype.
func (m *Module) MovesToGPU(c *pysource.Call) bool {
	a, ok := c.Func.(*pysource.Attribute)
	if !ok {
		return false
	}
	if a.Attr == "cuda" {
		return true
	}
	device := deviceArgument(c)
	if device != nil && strings.HasPrefix(m.Dotted(c.Func), "torch.") {
		return GPUDevice(device)
	}
	if a.Attr != "to" {
		return false
	}
	if device == nil && len(c.Args) > 0 {
		device = c.Args[0].Value
	}
	return device != nil && GPUDevice(device)
}

func deviceArgument(c *pysource.Call) pysource.Expr {
	for _, a := range c.Args {
		if a.Name == "device" {
			return a.Value
		}
	}
	return nil
}

// GPUDevice tells whether an expression names a device that is, or may be, a GPU.
func GPUDevice(x pysource.Expr) bool {
	switch x := x.(type) {
	case *pysource.String:
		return strings.HasPrefix(x.Value, "cuda")
	case *pysource.Call:
		return len(x.Args) > 0 && GPUDevice(x.Args[0].Value)
	}
	last := strings.ToLower(Last(Key(x)))
	return last == "device" || strings.HasSuffix(last, "_device") || last == "gpu"
}

// followsParameter tells whether a call goes to the device that something given to the function is on: x.device.
func followsParameter(fn *Function, c *pysource.Call) bool {
	device := deviceArgument(c)
	if device == nil && len(c.Args) > 0 {
		device = c.Args[0].Value
	}
	a, ok := device.(*pysource.Attribute)
	if !ok || a.Attr != "device" {
		return false
	}
	owner, ok := a.X.(*pysource.Name)
	return ok && owner.ID != "self" && slices.ContainsFunc(fn.Node.Params, func(p pysource.Param) bool { return p.Name == owner.ID })
}
