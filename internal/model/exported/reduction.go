package exported

import "strings"

// Reductions of a loss.
const (
	Mean = "mean"
	Sum  = "sum"
)

// Reduction tells how the program's loss, its first output or the named one, comes from its elements: Mean, Sum, or "" where the graph does
// not say, as for a sum of several losses.
func (g *Graph) Reduction(output string) string {
	value := -1
	for i, o := range g.Outputs {
		if i == 0 && output == "" || o.Name == output && output != "" {
			value = o.Value
		}
	}
	makers := map[int]*Node{}
	for i := range g.Nodes {
		for _, v := range g.Nodes[i].Outputs {
			makers[v] = &g.Nodes[i]
		}
	}
	for value >= 0 {
		n := makers[value]
		if n == nil {
			return ""
		}
		name := strings.SplitN(strings.TrimPrefix(n.Target, "aten."), ".", 2)[0]
		switch {
		case name == "mean":
			return Mean
		case name == "sum":
			return Sum
		case strings.Contains(name, "loss"), name == "binary_cross_entropy", name == "binary_cross_entropy_with_logits", name == "kl_div":
			return n.reduction()
		case name == "to", name == "_to_copy", name == "clone", name == "view", name == "squeeze", name == "reshape", name == "alias", name == "contiguous":
			value = n.Tensor("self")
		default:
			return ""
		}
	}
	return ""
}

// reduction reads the argument of a loss (torch/nn/_reduction.py: 0 none, 1 mean, 2 sum; the schemas' default is mean).
func (n *Node) reduction() string {
	switch n.Float("reduction", 1) {
	case 1:
		return Mean
	case 2:
		return Sum
	}
	return ""
}
