package workspace

import (
	"os"
	"path/filepath"
	"testing"
)

func TestThePinnedPyTorchIsRead(t *testing.T) {
	for text, want := range map[string][2]int{
		"numpy==1.20\ntorch==1.8.1\n":            {1, 8},
		"dependencies:\n  - pytorch=1.9\n":       {1, 9},
		"    install_requires=['torch<1.11'],\n": {1, 10},
		"torch ~= 2.1":                           {2, 1},
		"torch>=1.8\n":                           {},
		"torchvision==0.9.1\n":                   {},
		"# torch==1.4\n":                         {},
		"torch<2.0\n":                            {},
		"pytorch-lightning==1.2\n":               {},
	} {
		major, minor, ok := pin([]byte(text))
		if ok != (want != [2]int{}) || [2]int{major, minor} != want {
			t.Errorf("%q: %d.%d, %v", text, major, minor, ok)
		}
	}
}

func TestAPageTellsThePyTorchOfAProject(t *testing.T) {
	for text, want := range map[string][2]int{
		"## Requirements\n- Python 3.7\n- PyTorch 1.8.0\n":     {1, 8},
		"* pytorch (tested on 1.7.1)\n":                        {1, 7},
		"**PyTorch** 1.4 and CUDA 10.1":                        {1, 4},
		"Tested with torch==1.6.0, and with pytorch 1.9":       {1, 9},
		"pip install torch==2.1.0 torchvision==0.16":           {2, 1},
		"the <a href=\"x\">paper</a>. Tested on PyTorch 1.10.": {1, 10},
		"at least PyTorch 1.8":                                 {},
		"- torch-0.3.1":                                        {0, 3},
		"* [PyTorch](http://pytorch.org/) (0.3.1)":             {0, 3},
		"- [**PyTorch**](https://pytorch.org) 1.2":             {1, 2},
		"PyTorch(1.4)":         {1, 4},
		"PyTorch=0.2":          {0, 2},
		"PyTorch >= 1.7":       {},
		"PyTorch 1.7+":         {},
		"PyTorch 1.8 or newer": {},
		"needs PyTorch":        {},
		"torchvision 0.9":      {},
		"PyTorch 1.8 was used\nAny pytorch version >= 1.8 runs": {1, 8},
	} {
		major, minor, ok := tellsOf([]byte(text))
		if ok != (want != [2]int{}) || [2]int{major, minor} != want {
			t.Errorf("%q: %d.%d, %v", text, major, minor, ok)
		}
	}
}

func TestAdviceThatThePinnedPyTorchDoesNotKnowIsNotGiven(t *testing.T) {
	for pins, want := range map[string]int{"torch==1.8.1\n": 0, "torch==2.4.0\n": 1, "": 1} {
		root := t.TempDir()
		file := filepath.Join(root, "src", "block.py")
		for path, text := range map[string]string{
			filepath.Join(root, "requirements.txt"): pins,
			file:                                    "import torch\nfrom torch.utils.checkpoint import checkpoint\ndef run(block, x):\n    return checkpoint(block, x)\n",
		} {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := New(Settings{}).File(file).Findings; len(got) != want {
			t.Errorf("with %q: %v", pins, got)
		}
	}
}

func TestTheOldestPyTorchOfAProjectIsRead(t *testing.T) {
	for text, want := range map[string][2]int{
		"torch>=1.7\n": {1, 7},
		"    install_requires=['torch>=1.6.0', 'x'],\n": {1, 6},
		"  - pytorch>=1.8\n":                            {1, 8},
		"torch==1.8.1\n":                                {},
		"torchvision>=0.9\n":                            {},
		"# torch>=1.4\n":                                {},
	} {
		if major, minor, ok := atLeast([]byte(text)); ok != (want != [2]int{}) || [2]int{major, minor} != want {
			t.Errorf("%q: %d.%d, %v", text, major, minor, ok)
		}
	}
	for text, want := range map[string][2]int{
		"PyTorch >= 1.7":              {1, 7},
		"PyTorch at least 1.7":        {1, 7},
		"at least PyTorch 1.8":        {1, 8},
		"PyTorch 1.7+":                {1, 7},
		"PyTorch 1.8 or newer":        {1, 8},
		"- PyTorch 1.8.0":             {},
		"needs PyTorch":               {},
		"pytorch version >= 1.6 runs": {1, 6},
		"PyTorch (version >= 0.2)":    {0, 2},
		"- PyTorch >= 1.4.0":          {1, 4},
		"[PyTorch](http://x.y/) >= 1": {},
		"[PyTorch](http://x.y/)>=1.0": {1, 0},
	} {
		if major, minor, ok := tellsOldest([]byte(text)); ok != (want != [2]int{}) || [2]int{major, minor} != want {
			t.Errorf("%q: %d.%d, %v", text, major, minor, ok)
		}
	}
}

// torch.amp.autocast is there since 1.10: a project that also runs on older releases does not get it without being asked.
func TestARepairThatAnOlderPyTorchDoesNotKnowIsUnsafe(t *testing.T) {
	for requirements, want := range map[string]bool{"torch>=1.7\n": false, "torch>=1.12\n": true, "": true} {
		root := t.TempDir()
		file := filepath.Join(root, "train.py")
		for path, text := range map[string]string{
			filepath.Join(root, "requirements.txt"): requirements,
			file:                                    "import torch\nwith torch.cuda.amp.autocast():\n    out = model(x)\n",
		} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := New(Settings{}).File(file).Findings
		if len(got) != 1 || got[0].Repair == nil || got[0].Repair.Safe != want {
			t.Errorf("with %q: %+v", requirements, got)
		}
	}
}
