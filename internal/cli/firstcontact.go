package cli

import (
	"os"
	"path/filepath"
	"strings"
)

// firstContact is what plimsoll alone prints: what to type in the situations people are in when they first need it.
const firstContact = `Plimsoll finds out why PyTorch ran out of GPU memory, and
how to make a job fit.

It failed with "CUDA out of memory":
  python train.py 2>&1 | plimsoll explain
Watch a run, and explain it if it fails:
  plimsoll run -- python train.py
Will my script fit on another card?
  plimsoll predict --gpu 4090 -- python train.py
Which settings make a model fit?
  plimsoll fit Qwen/Qwen3-8B --gpu 4090

All commands: plimsoll --help
`

// meantByFile is the command for a file that was given without one.
func meantByFile(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return ""
	}
	base := strings.TrimSuffix(filepath.Base(name), ".gz")
	switch ending := filepath.Ext(base); {
	case ending == ".py":
		return "plimsoll run -- python " + name
	case ending == ".ipynb":
		return "plimsoll lint " + name
	case base == "config.json", ending == ".pt2":
		return "plimsoll predict " + name
	case info.IsDir():
		return ""
	}
	return "plimsoll explain " + name
}
