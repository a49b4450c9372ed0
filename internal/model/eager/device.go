package eager

import (
	"github.com/plimsoll/plimsoll/internal/model/cudnn"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Device is what of a card and its libraries shows in the bytes a training step asks for. Every number is
// a property of the card or a version, so that other cards are other values, not other code.
type Device struct {
	SMs             int          // streaming multiprocessors; reductions spread over them
	ThreadsPerSM    int          // resident threads of one multiprocessor
	Major, Minor    int          // compute capability
	BlasWorkspace   units.Bytes  // cuBLAS workspace of one thread and stream (CublasHandlePool.cpp, getChosenWorkspaceSize)
	BlasLtWorkspace units.Bytes  // cuBLASLt workspace of one thread and stream (_parseChosenWorkspaceSize)
	Workspaces      *cudnn.Table // what convolutions take; nil: the table that is built in for the compute capability, if there is one
	CuDNNFirst      bool         // attention prefers cuDNN (sdp_utils.cpp: cuDNN newer than 9.15 on SM 9.0, 10.0, 10.3)
}

// H200 is the card of the measurements: PyTorch 2.11.0+cu130 with cuDNN 9.19.
func H200() Device {
	return Device{
		SMs: 132, ThreadsPerSM: 2048, Major: 9, Minor: 0,
		BlasWorkspace: 32 * units.MiB, BlasLtWorkspace: units.MiB, CuDNNFirst: true,
	}
}

// workspaces is the table of the card's convolutions; nil where nothing was measured.
func (d Device) workspaces() *cudnn.Table {
	if d.Workspaces != nil {
		return d.Workspaces
	}
	return cudnn.For(d.Major, d.Minor)
}
