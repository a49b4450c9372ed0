// Package amdgpu reads AMD cards and who holds their memory from the files of the amdgpu driver.
//
// It takes the root of a file system with /sys and returns snapshots in the form of the NVIDIA driver's, so that everything after them is the same code.
// No library and no ROCm is needed. What a file does not say is marked unknown; a number that is none, or larger than any card, is not believed.
package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/live/nvml"
	"github.com/plimsoll/plimsoll/internal/units"
)

// ErrNoCard: the amdgpu driver drives no card here.
var ErrNoCard = errors.New("no AMD GPU with the amdgpu driver")

// Where the driver's files are. What they hold: docs.kernel.org/gpu/amdgpu/driver-misc.html (mem_info_vram_*, product_name, unique_id),
// docs.kernel.org/gpu/amdgpu/thermal.html (gpu_busy_percent, hwmon). Processes: vram_GPUID below kfd/proc/PID is what kfd_procfs_show prints
// (https://github.com/torvalds/linux/blob/v6.12/drivers/gpu/drm/amd/amdkfd/kfd_process.c#L321), a node's gpu_id and drm_render_minor are told by kfd_topology.c.
const (
	drmFolder = "sys/class/drm"
	kfdFolder = "sys/class/kfd/kfd"
	vendorAMD = "0x1002"
)

// Driver reads the files below a root.
type Driver struct{ root fs.FS }

// Open finds out whether there is a card to read.
func Open(root fs.FS) (*Driver, error) {
	d := &Driver{root}
	if len(d.cards()) == 0 {
		return nil, ErrNoCard
	}
	return d, nil
}

// Snapshot reads every card and its processes.
func (d *Driver) Snapshot(context.Context) (nvml.Snapshot, error) {
	cards := d.cards()
	if len(cards) == 0 {
		return nvml.Snapshot{}, ErrNoCard
	}
	snap := nvml.Snapshot{Origin: "amdgpu", Driver: d.text("sys/module/amdgpu/version")}
	held := d.processes()
	for index, card := range cards {
		device := path.Join(drmFolder, card, "device")
		total, known := d.bytes(path.Join(device, "mem_info_vram_total"))
		used, told := d.bytes(path.Join(device, "mem_info_vram_used"))
		if !known || !told || used > total {
			snap.Problems = append(snap.Problems, fmt.Sprintf("%s: the driver does not say how much memory it has and uses", card))
			continue
		}
		minor := d.renderMinor(device)
		snap.Devices = append(snap.Devices, nvml.Device{
			UUID: d.identity(card, device), Index: index, Instance: -1, Name: d.name(device), Total: total, Used: used, Free: total - used,
			Utilization: d.percent(path.Join(device, "gpu_busy_percent")), Temperature: d.temperature(device), Processes: held[minor],
		})
	}
	if len(snap.Devices) == 0 {
		return nvml.Snapshot{}, fmt.Errorf("%w that can be read: %s", ErrNoCard, strings.Join(snap.Problems, "; "))
	}
	return snap, nil
}

// cards are the names card0, card1 … of AMD's cards, in the order of their numbers.
func (d *Driver) cards() []string {
	var found []string
	entries, _ := fs.ReadDir(d.root, drmFolder)
	for _, e := range entries {
		number, isCard := strings.CutPrefix(e.Name(), "card")
		if _, err := strconv.Atoi(number); !isCard || err != nil { // card0-DP-1 is a connector
			continue
		}
		device := path.Join(drmFolder, e.Name(), "device")
		if d.text(path.Join(device, "vendor")) == vendorAMD && d.text(path.Join(device, "mem_info_vram_total")) != "" {
			found = append(found, e.Name())
		}
	}
	slices.SortFunc(found, func(a, b string) int { return len(a) - len(b) })
	return found
}

// renderMinor is the number of a card's render node, which ties it to a node of KFD; -1 where it has none.
func (d *Driver) renderMinor(device string) int {
	entries, _ := fs.ReadDir(d.root, path.Join(device, "drm"))
	for _, e := range entries {
		if number, ok := strings.CutPrefix(e.Name(), "renderD"); ok {
			if n, err := strconv.Atoi(number); err == nil {
				return n
			}
		}
	}
	return -1
}

// identity is the card's own serial number where it has one, else where it sits.
func (d *Driver) identity(card, device string) string {
	if id := d.text(path.Join(device, "unique_id")); id != "" {
		return "AMD-" + id
	}
	for line := range strings.SplitSeq(d.text(path.Join(device, "uevent")), "\n") {
		if slot, ok := strings.CutPrefix(line, "PCI_SLOT_NAME="); ok {
			return "AMD-" + slot
		}
	}
	return "AMD-" + card
}

func (d *Driver) name(device string) string {
	if name := d.text(path.Join(device, "product_name")); name != "" {
		return name
	}
	return "AMD GPU " + strings.TrimPrefix(d.text(path.Join(device, "device")), "0x")
}

// percent is -1 where the driver does not say.
func (d *Driver) percent(name string) int {
	if n, err := strconv.Atoi(d.text(name)); err == nil && n >= 0 && n <= 100 {
		return n
	}
	return -1
}

// temperature is the first sensor's, in degrees; the file has thousandths.
func (d *Driver) temperature(device string) int {
	sensors, _ := fs.Glob(d.root, path.Join(device, "hwmon", "hwmon*", "temp1_input"))
	for _, sensor := range sensors {
		if n, err := strconv.Atoi(d.text(sensor)); err == nil && n > 0 && n < 200_000 {
			return n / 1000
		}
	}
	return -1
}

// processes lists who holds memory, by the render node of the card.
func (d *Driver) processes() map[int][]nvml.Process {
	minors := d.nodes()
	held := map[int][]nvml.Process{}
	entries, _ := fs.ReadDir(d.root, path.Join(kfdFolder, "proc"))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		for gpu, minor := range minors {
			used, known := d.bytes(path.Join(kfdFolder, "proc", e.Name(), "vram_"+gpu))
			if known && used > 0 {
				held[minor] = append(held[minor], nvml.Process{PID: pid, Used: used, Known: true})
			}
		}
	}
	for _, list := range held {
		slices.SortFunc(list, func(a, b nvml.Process) int { return a.PID - b.PID })
	}
	return held
}

// nodes maps the id that KFD gives a card to its render node.
func (d *Driver) nodes() map[string]int {
	minors := map[string]int{}
	entries, _ := fs.ReadDir(d.root, path.Join(kfdFolder, "topology", "nodes"))
	for _, e := range entries {
		node := path.Join(kfdFolder, "topology", "nodes", e.Name())
		id := d.text(path.Join(node, "gpu_id"))
		if _, err := strconv.Atoi(id); err != nil || id == "0" { // a processor
			continue
		}
		for line := range strings.SplitSeq(d.text(path.Join(node, "properties")), "\n") {
			if value, ok := strings.CutPrefix(line, "drm_render_minor "); ok {
				if n, err := strconv.Atoi(value); err == nil {
					minors[id] = n
				}
			}
		}
	}
	return minors
}

func (d *Driver) bytes(name string) (units.Bytes, bool) {
	n, err := strconv.ParseInt(d.text(name), 10, 64)
	return units.Bytes(n), err == nil && n >= 0 && units.Bytes(n) <= 64*units.TiB
}

// text is what a file says, without the end of its line; empty where it cannot be read.
func (d *Driver) text(name string) string {
	f, err := d.root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
