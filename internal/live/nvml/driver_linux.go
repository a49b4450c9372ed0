//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/plimsoll/plimsoll/internal/units"
)

// libraries are the names under which the driver's library is looked for; the last is where WSL keeps it.
var libraries = []string{"libnvidia-ml.so.1", "libnvidia-ml.so", "/usr/lib/wsl/lib/libnvidia-ml.so.1"}

// Driver is the opened library. It must not be used after a fork, nor from two goroutines at once.
type Driver struct {
	library uintptr
	s       *symbols
}

// Open loads and initialises the driver's library, found by the given names or by the usual ones.
func Open(names ...string) (*Driver, error) {
	if len(names) == 0 {
		names = libraries
	}
	for _, name := range names {
		library, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			continue
		}
		d := &Driver{library, bind(library)}
		if err := d.initialise(); err != nil {
			_ = purego.Dlclose(library)
			return nil, err
		}
		return d, nil
	}
	return nil, ErrNoLibrary
}

func (d *Driver) initialise() error {
	if d.s.init == nil || d.s.deviceCount == nil || d.s.deviceByIndex == nil {
		return fmt.Errorf("the NVIDIA library found has no nvmlInit or cannot list devices: %w", ErrNoLibrary)
	}
	return d.s.err("a connection", d.s.init())
}

// Close ends the connection to the driver.
func (d *Driver) Close() error {
	if d.s.shutdown != nil {
		d.s.shutdown()
	}
	return purego.Dlclose(d.library)
}

// Snapshot asks every card once. A card that does not answer is a problem in the snapshot, not an error.
func (d *Driver) Snapshot() (Snapshot, error) {
	snap := Snapshot{Origin: "nvml", CUDA: d.cuda()}
	if d.s.driverVersion != nil {
		snap.Driver, _ = text(d.s.driverVersion)
	}
	err := d.eachCard(func(index int, h handle, err error) {
		if err != nil {
			snap.Problems = append(snap.Problems, fmt.Sprintf("GPU %d: %v", index, err))
			return
		}
		devices, problems := d.devices(index, h)
		snap.Devices = append(snap.Devices, devices...)
		snap.Problems = append(snap.Problems, problems...)
	})
	return snap, err
}

func (d *Driver) eachCard(visit func(index int, h handle, err error)) error {
	var count uint32
	if err := d.s.err("the number of cards", d.s.deviceCount(&count)); err != nil {
		return err
	}
	for i := range min(count, maxCards) {
		var h handle
		err := d.s.err("a handle", d.s.deviceByIndex(i, &h))
		visit(int(i), h, err)
	}
	return nil
}

// Bounds on what a driver may claim.
const (
	maxCards     = 1024
	maxInstances = 64
	maxProcesses = 1 << 14
)

// cuda is the newest CUDA version the driver runs: 13000 is 13.0.
func (d *Driver) cuda() string {
	var v int32
	if d.s.cudaVersion == nil || d.s.cudaVersion(&v) != success || v <= 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10)
}

// devices gives a whole card, or its instances where MIG has cut it up: the parent's numbers would count every byte twice,
// and its processes may not be asked for.
func (d *Driver) devices(index int, h handle) ([]Device, []string) {
	if current, _ := d.mig(h); current == nil || !*current {
		dev, problems := d.device(index, -1, h)
		return []Device{dev}, problems
	}
	var devices []Device
	var problems []string
	var most uint32
	if d.s.maxMigDevices == nil || d.s.maxMigDevices(h, &most) != success || d.s.migDevice == nil {
		return nil, []string{fmt.Sprintf("GPU %d is in MIG mode and this driver does not list its instances", index)}
	}
	for i := range min(most, maxInstances) {
		var instance handle
		if d.s.migDevice(h, i, &instance) != success {
			continue // an empty slot
		}
		var id uint32
		if d.s.gpuInstance == nil || d.s.gpuInstance(instance, &id) != success {
			id = i
		}
		dev, more := d.device(index, int(id), instance)
		devices, problems = append(devices, dev), append(problems, more...)
	}
	if len(devices) == 0 {
		problems = append(problems, fmt.Sprintf("GPU %d is in MIG mode but has no instance; create one with nvidia-smi mig -cgi", index))
	}
	return devices, problems
}

func (d *Driver) device(index, instance int, h handle) (Device, []string) {
	dev := Device{Index: index, Instance: instance, Utilization: -1, Temperature: -1}
	var problems []string
	complain := func(what string, code result) {
		if err := d.s.err(what, code); err != nil {
			problems = append(problems, fmt.Sprintf("GPU %d: %v", index, err))
		}
	}
	dev.UUID, dev.Name = d.identity(h)
	if dev.UUID == "" {
		dev.UUID = fmt.Sprintf("index-%d-%d", index, instance)
	}
	complain("its memory", d.readMemory(h, &dev))
	var rates utilization
	if instance < 0 && d.s.rates != nil && d.s.rates(h, &rates) == success { // not supported on instances
		dev.Utilization = int(rates.gpu)
	}
	var degrees uint32
	if d.s.temperature != nil && d.s.temperature(h, 0, &degrees) == success {
		dev.Temperature = int(degrees)
	}
	compute, code := list(d.s.compute, h)
	complain("its processes", code)
	graphics, _ := list(d.s.graphics, h)
	dev.Processes = merge(compute, graphics)
	return dev, problems
}

func (d *Driver) identity(h handle) (uuid, name string) {
	if d.s.uuid != nil {
		uuid, _ = text(func(b *byte, n uint32) result { return d.s.uuid(h, b, n) })
	}
	if d.s.name != nil {
		name, _ = text(func(b *byte, n uint32) result { return d.s.name(h, b, n) })
	}
	return uuid, name
}

func (d *Driver) readMemory(h handle, dev *Device) result {
	if d.s.memory2 != nil {
		m := memoryV2{version: versioned(unsafe.Sizeof(memoryV2{}), 2)}
		if d.s.memory2(h, &m) == success {
			dev.Total, dev.Used, dev.Free, dev.Reserved = units.Bytes(m.total), units.Bytes(m.used), units.Bytes(m.free), units.Bytes(m.reserved)
			return success
		}
	}
	if d.s.memory == nil {
		return functionNotFound
	}
	var m memoryV1
	code := d.s.memory(h, &m)
	dev.Total, dev.Used, dev.Free = units.Bytes(m.total), units.Bytes(m.used), units.Bytes(m.free)
	return code
}

// list asks for the processes of a device, with more room as long as the driver says there is too little.
func list(ask func(handle, *uint32, *processInfo) result, h handle) ([]Process, result) {
	if ask == nil {
		return nil, functionNotFound
	}
	for room := uint32(64); room <= maxProcesses; room *= 4 {
		infos := make([]processInfo, room)
		count := room
		code := ask(h, &count, &infos[0])
		if code == insufficientSize {
			continue
		}
		if code != success {
			return nil, code
		}
		var out []Process
		for _, info := range infos[:min(count, room)] {
			used, known := amount(info.used)
			out = append(out, Process{int(info.pid), used, known})
		}
		return out, success
	}
	return nil, insufficientSize
}

func (d *Driver) mig(h handle) (current, pending *bool) {
	return pair(d.s.migMode, h)
}

// pair asks for a mode and the mode after the next reset.
func pair(ask func(handle, *uint32, *uint32) result, h handle) (current, pending *bool) {
	var a, b uint32
	if ask == nil || ask(h, &a, &b) != success {
		return nil, nil
	}
	on, later := a != 0, b != 0
	return &on, &later
}
