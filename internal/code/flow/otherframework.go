package flow

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// torchFamily begins the names of packages that are PyTorch, or compute with it.
var torchFamily = []string{"torch", "pytorch", "lightning", "accelerate", "transformers", "diffusers", "fastai", "timm", "monai", "dgl", "mmcv", "mmengine", "peft", "deepspeed", "apex", "fairseq", "allennlp", "ignite"}

// feeds are the parts of PyTorch that other frameworks take their data from.
var feeds = []string{"torch.utils.data", "torchvision.datasets", "torchvision.transforms", "torchvision"}

func beginsWith(origin, pkg string) bool { return origin == pkg || strings.HasPrefix(origin, pkg+".") }

func ofTorch(origin string) bool {
	for _, pkg := range torchFamily {
		if strings.HasPrefix(origin, pkg) {
			return true
		}
	}
	return false
}

// feedsOnly tells whether an import brings data alone.
func feedsOnly(origin string) bool {
	for _, pkg := range feeds {
		if pkg == origin || pkg != "torchvision" && beginsWith(origin, pkg) {
			return true
		}
	}
	return false
}

// LoaderAlone tells whether a file imports PyTorch's data loading, and nothing that computes with PyTorch.
func (m *Module) LoaderAlone() bool {
	loads := false
	for local, origin := range m.Imports {
		switch {
		case feedsOnly(origin):
			loads = true
		case local == "torch" || ofTorch(origin):
			return false
		}
	}
	return loads && !m.namesTorch()
}

// OtherFramework tells whether a file computes with a framework that has PyTorch's names but is not PyTorch: `import mytorch.nn as nn`, and no torch
// besides its data loading.
func (m *Module) OtherFramework() bool {
	other := false
	for local, origin := range m.Imports {
		switch {
		case feedsOnly(origin):
		case local == "torch" || ofTorch(origin):
			return false
		case anyOf(local, "nn", "optim") && Last(origin) == local && m.notTorch(origin):
			other = true
		case m.otherModule(origin):
			other = true
		}
	}
	for _, c := range m.Classes {
		for _, b := range c.Bases {
			other = other || strings.HasSuffix(b, ".nn.Module") && !ofTorch(b) && m.notTorch(strings.TrimSuffix(b, ".Module"))
		}
	}
	return other && !m.namesTorch()
}

// namesTorch tells whether a file uses the name torch: a star import may have brought it.
func (m *Module) namesTorch() bool {
	found := false
	pysource.WalkBody(m.File.Body, func(n pysource.Node) bool {
		name, ok := n.(*pysource.Name)
		found = found || ok && name.ID == "torch"
		return !found
	})
	return found
}

// notTorch tells whether something like torch.nn is another's: a package that is not there, or a module of the project with a Module class of its own. A
// module of the project may also hand on PyTorch's: from common import nn.
func (m *Module) notTorch(origin string) bool {
	parent := strings.TrimSuffix(origin, "."+Last(origin))
	if parent == origin || strings.HasPrefix(origin, ".") && m.lookup(origin) == nil {
		return false // import nn: a file of anybody's
	}
	if e := m.lookup(origin); e != nil {
		own := e.Classes["Module"]
		return own != nil && !own.Module
	}
	return m.lookup(parent) == nil
}

// otherModule tells whether an import is a class of the project whose base is a module of another framework.
func (m *Module) otherModule(origin string) bool {
	c := m.remoteClass(origin)
	if c == nil {
		return false
	}
	for _, b := range c.Foreign {
		if strings.HasSuffix(b, ".nn.Module") && !ofTorch(b) && !strings.HasPrefix(b, ".") {
			return true
		}
	}
	return false
}
