package cost

import "github.com/plimsoll/plimsoll/internal/model/eager"

// Weights of the host's work, in units of Rates.Host. Source: joint, on measured steps that wait for launches (vit-large in 16 bits up to batch 32,
// llama-1b at batch 1, resnet50 at 16 and 32). With 3 µs a unit an operator of the forward pass takes 18 µs.
const (
	operatorWeight   = 6.0   // an operator that Python calls
	viewWeight       = 5.0   // a view
	functionWeight   = 3.5   // a node of the backward graph
	gradWeight       = 10.0  // AccumulateGrad
	backwardWeight   = 3.5   // a kernel of the backward graph
	productExtra     = 3.0   // cuBLAS
	libraryExtra     = 16.0  // cuDNN: convolution and attention
	batchNormExtra   = 6.0   //
	checkpointWeight = 120.0 // a checkpointed call, in forward and again in backward
	keptWeight       = 3.0   // a tensor saved inside of one
)

// hostWeight is what an entry costs the host. What a checkpoint runs again is Python, as the forward pass is.
func hostWeight(w eager.Work) float64 {
	switch w.Kind {
	case eager.View:
		return viewWeight
	case eager.Function:
		return functionWeight
	case eager.Accumulated:
		return gradWeight
	case eager.Region:
		return checkpointWeight
	case eager.Kept:
		return keptWeight
	case eager.ToHost: // Python makes the buffer and copies
		return 2 * operatorWeight
	case eager.FromHost:
		return operatorWeight
	}
	weight := operatorWeight
	if w.Phase == eager.PhaseBackward {
		weight = backwardWeight * float64(w.Kernels)
		if w.Kind == eager.Convolved {
			weight = backwardWeight // one call, whatever the library launches
		}
	}
	switch w.Kind {
	case eager.Product:
		weight += productExtra
	case eager.Convolved, eager.Fused:
		weight += libraryExtra
	case eager.Normalised:
		weight += batchNormExtra
	}
	return weight
}
