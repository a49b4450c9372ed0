//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import (
	"fmt"
	"strings"

	"github.com/ebitengine/purego"
)

// result is an NVML return code.
type result int32

// Return codes that mean something to us; nvml.h, enum nvmlReturn_enum.
const (
	success          result = 0
	insufficientSize result = 7
	driverNotLoaded  result = 9
	functionNotFound result = 13
	gpuIsLost        result = 15
	versionMismatch  result = 18
)

// handle is an opaque device of the library.
type handle uintptr

// memoryV1 and memoryV2 are nvmlMemory_t and nvmlMemory_v2_t of nvml.h. The second says apart what the driver keeps for itself.
type memoryV1 struct{ total, free, used uint64 }

type memoryV2 struct {
	version                     uint32
	_                           uint32
	total, reserved, free, used uint64
}

// versioned is how NVML marks a structure: its size with the version in the top byte (NVML_STRUCT_VERSION).
func versioned(size uintptr, version uint32) uint32 { return uint32(size) | version<<24 }

// processInfo is nvmlProcessInfo_t since version 2.
type processInfo struct {
	pid  uint32
	_    uint32
	used uint64
	_    uint32 // GPU instance
	_    uint32 // compute instance
}

type utilization struct{ gpu, _ uint32 }

// symbols are the functions we call. A nil one is missing in this driver.
type symbols struct {
	init, shutdown                           func() result
	errorString                              func(result) string
	driverVersion                            func(*byte, uint32) result
	cudaVersion                              func(*int32) result
	deviceCount                              func(*uint32) result
	deviceByIndex                            func(uint32, *handle) result
	name, uuid                               func(handle, *byte, uint32) result
	memory                                   func(handle, *memoryV1) result
	memory2                                  func(handle, *memoryV2) result
	rates                                    func(handle, *utilization) result
	temperature                              func(handle, int32, *uint32) result
	compute, graphics                        func(handle, *uint32, *processInfo) result
	migMode, eccMode                         func(handle, *uint32, *uint32) result
	maxMigDevices, gpuInstance               func(handle, *uint32) result
	migDevice                                func(handle, uint32, *handle) result
	persistence, computeMode, retiredPending func(handle, *uint32) result
	capability                               func(handle, *int32, *int32) result
	eccErrors                                func(handle, int32, int32, *uint64) result
	remappedRows                             func(handle, *uint32, *uint32, *uint32, *uint32) result
}

// bind finds the functions in an open library. Newer names come first.
func bind(library uintptr) *symbols {
	s := &symbols{}
	for _, f := range []struct {
		target any
		names  []string
	}{
		{&s.init, []string{"nvmlInit_v2", "nvmlInit"}},
		{&s.shutdown, []string{"nvmlShutdown"}},
		{&s.errorString, []string{"nvmlErrorString"}},
		{&s.driverVersion, []string{"nvmlSystemGetDriverVersion"}},
		{&s.cudaVersion, []string{"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"}},
		{&s.deviceCount, []string{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}},
		{&s.deviceByIndex, []string{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}},
		{&s.name, []string{"nvmlDeviceGetName"}},
		{&s.uuid, []string{"nvmlDeviceGetUUID"}},
		{&s.memory, []string{"nvmlDeviceGetMemoryInfo"}},
		{&s.memory2, []string{"nvmlDeviceGetMemoryInfo_v2"}},
		{&s.rates, []string{"nvmlDeviceGetUtilizationRates"}},
		{&s.temperature, []string{"nvmlDeviceGetTemperature"}},
		// The first version of these two fills smaller structures and is not used.
		{&s.compute, []string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}},
		{&s.graphics, []string{"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"}},
		{&s.migMode, []string{"nvmlDeviceGetMigMode"}},
		{&s.eccMode, []string{"nvmlDeviceGetEccMode"}},
		{&s.maxMigDevices, []string{"nvmlDeviceGetMaxMigDeviceCount"}},
		{&s.gpuInstance, []string{"nvmlDeviceGetGpuInstanceId"}},
		{&s.migDevice, []string{"nvmlDeviceGetMigDeviceHandleByIndex"}},
		{&s.persistence, []string{"nvmlDeviceGetPersistenceMode"}},
		{&s.computeMode, []string{"nvmlDeviceGetComputeMode"}},
		{&s.retiredPending, []string{"nvmlDeviceGetRetiredPagesPendingStatus"}},
		{&s.capability, []string{"nvmlDeviceGetCudaComputeCapability"}},
		{&s.eccErrors, []string{"nvmlDeviceGetTotalEccErrors"}},
		{&s.remappedRows, []string{"nvmlDeviceGetRemappedRows"}},
	} {
		for _, name := range f.names {
			if address, err := purego.Dlsym(library, name); err == nil && address != 0 {
				purego.RegisterFunc(f.target, address)
				break
			}
		}
	}
	return s
}

// err turns a return code into an error that says what was asked.
func (s *symbols) err(what string, code result) error {
	switch code {
	case success:
		return nil
	case driverNotLoaded:
		return ErrNoDriver
	case versionMismatch:
		return ErrMismatch
	case gpuIsLost:
		return ErrLost
	}
	text := fmt.Sprintf("code %d", code)
	if s.errorString != nil {
		text = s.errorString(code)
	}
	return fmt.Errorf("ask the driver for %s: %s", what, text)
}

// text calls a function that fills a buffer with a C string.
func text(fill func(*byte, uint32) result) (string, result) {
	var buffer [128]byte
	code := fill(&buffer[0], uint32(len(buffer)))
	return cString(buffer[:]), code
}

func cString(b []byte) string {
	end := strings.IndexByte(string(b), 0)
	if end < 0 {
		end = len(b)
	}
	return string(b[:end])
}
