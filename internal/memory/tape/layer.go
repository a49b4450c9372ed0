package tape

import (
	"strconv"
	"strings"
)

// Layer finds the repeated layer a module belongs to: of model.layers.3.mlp the third of model.layers, and mlp within it. The first number of a path
// counts; a path without one belongs to no layer.
func Layer(module string) (list, within string, layer int, found bool) {
	for rest, at := module, 0; ; {
		part, after, more := strings.Cut(rest, ".")
		if part != "" && part[0] >= '0' && part[0] <= '9' { // most are no numbers, and an error costs more than a look
			if n, err := strconv.Atoi(part); err == nil {
				return strings.TrimSuffix(module[:at], "."), after, n, true
			}
		}
		if !more {
			return "", "", 0, false
		}
		at += len(part) + 1
		rest = after
	}
}
