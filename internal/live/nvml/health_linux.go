//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import "fmt"

// Arguments of nvmlDeviceGetTotalEccErrors; nvml.h, nvmlMemoryErrorType_t and nvmlEccCounterType_t.
const (
	uncorrectedErrors = 1
	sinceDriverLoad   = 0
)

// Health asks every physical card for its condition.
func (d *Driver) Health() ([]Health, error) {
	var all []Health
	err := d.eachCard(func(index int, h handle, err error) {
		if err == nil {
			all = append(all, d.health(index, h))
		}
	})
	return all, err
}

func (d *Driver) health(index int, h handle) Health {
	out := Health{Index: index}
	out.UUID, out.Name = d.identity(h)
	var dev Device
	if d.readMemory(h, &dev) == success {
		out.Total = dev.Total
	}
	var major, minor int32
	if d.s.capability != nil && d.s.capability(h, &major, &minor) == success {
		out.Capability = fmt.Sprintf("%d.%d", major, minor)
	}
	out.Persistence = flag(d.s.persistence, h)
	out.RetiredPending = flag(d.s.retiredPending, h)
	out.ECC, _ = pair(d.s.eccMode, h)
	out.MIG, out.MIGPending = d.mig(h)
	var errors uint64
	if d.s.eccErrors != nil && d.s.eccErrors(h, uncorrectedErrors, sinceDriverLoad, &errors) == success {
		out.Uncorrected = &errors
	}
	var corrected, uncorrected, pending, failure uint32
	if d.s.remappedRows != nil && d.s.remappedRows(h, &corrected, &uncorrected, &pending, &failure) == success {
		waiting, failed := pending != 0, failure != 0
		out.RemapPending, out.RemapFailure = &waiting, &failed
	}
	var mode uint32
	if d.s.computeMode != nil && d.s.computeMode(h, &mode) == success {
		out.ComputeMode = computeModes[mode]
	}
	return out
}

// computeModes are nvmlComputeMode_t.
var computeModes = map[uint32]string{0: "default", 1: "exclusive", 2: "prohibited", 3: "exclusive"}

// flag asks for something that is on or off.
func flag(ask func(handle, *uint32) result, h handle) *bool {
	var v uint32
	if ask == nil || ask(h, &v) != success {
		return nil
	}
	on := v != 0
	return &on
}
