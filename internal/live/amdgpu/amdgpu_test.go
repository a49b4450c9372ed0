package amdgpu

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/plimsoll/plimsoll/internal/live/nvml"
	"github.com/plimsoll/plimsoll/internal/units"
)

// twoCards is /sys of a machine with a processor, two MI300X and a display controller of another maker, after the kernel's documentation.
func twoCards() fstest.MapFS {
	files := map[string]string{
		"sys/module/amdgpu/version":                           "6.10.5\n",
		"sys/class/drm/card0/device/vendor":                   "0x1a03\n",
		"sys/class/drm/card1-DP-1/status":                     "disconnected\n",
		"sys/class/kfd/kfd/topology/nodes/0/gpu_id":           "0\n",
		"sys/class/kfd/kfd/proc/4711/vram_100":                "51539607552\n",
		"sys/class/kfd/kfd/proc/4711/vram_200":                "0\n",
		"sys/class/kfd/kfd/proc/4712/vram_200":                "1073741824\n",
		"sys/class/kfd/kfd/proc/4712/pasid":                   "32770\n",
		"sys/class/drm/card1/device/unique_id":                "b0e2f3a4\n",
		"sys/class/drm/card1/device/product_name":             "AMD Instinct MI300X\n",
		"sys/class/drm/card1/device/gpu_busy_percent":         "97\n",
		"sys/class/drm/card2/device/device":                   "0x74a1\n",
		"sys/class/drm/card2/device/uevent":                   "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:26:00.0\n",
		"sys/class/drm/card2/device/gpu_busy_percent":         "busy\n",
		"sys/class/drm/card1/device/hwmon/hwmon3/temp1_input": "61000\n",
	}
	for card, facts := range map[string][3]string{"card1": {"100", "128", "60129542144"}, "card2": {"200", "129", "1200000000"}} {
		device, node := "sys/class/drm/"+card+"/device/", "sys/class/kfd/kfd/topology/nodes/"+card[4:]+"/"
		files[device+"vendor"], files[device+"mem_info_vram_total"], files[device+"mem_info_vram_used"] = "0x1002\n", "206141652992\n", facts[2]+"\n"
		files[device+"drm/renderD"+facts[1]+"/dev"] = "226:" + facts[1]
		files[node+"gpu_id"], files[node+"properties"] = facts[0]+"\n", "cpu_cores_count 0\nsimd_count 1216\ndrm_render_minor "+facts[1]+"\n"
	}
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestCardsAndProcessesAreReadFromSysfs(t *testing.T) {
	t.Parallel()
	d, err := Open(twoCards())
	if err != nil {
		t.Fatal(err)
	}
	snap, err := d.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	const total = units.Bytes(206141652992)
	want := nvml.Snapshot{Origin: "amdgpu", Driver: "6.10.5", Devices: []nvml.Device{
		{UUID: "AMD-b0e2f3a4", Index: 0, Instance: -1, Name: "AMD Instinct MI300X", Total: total, Used: 60129542144, Free: total - 60129542144, Utilization: 97, Temperature: 61,
			Processes: []nvml.Process{{PID: 4711, Used: 48 * units.GiB, Known: true}}},
		{UUID: "AMD-0000:26:00.0", Index: 1, Instance: -1, Name: "AMD GPU 74a1", Total: total, Used: 1200000000, Free: total - 1200000000, Utilization: -1, Temperature: -1,
			Processes: []nvml.Process{{PID: 4712, Used: units.GiB, Known: true}}},
	}}
	if !reflect.DeepEqual(snap, want) {
		t.Errorf("read\n%+v\nwant\n%+v", snap, want)
	}
}

func TestNumbersThatCannotBeAreNotBelieved(t *testing.T) {
	t.Parallel()
	for _, used := range []string{"-1", "many", "9999999999999999999", "300000000000"} {
		root := twoCards()
		root["sys/class/drm/card2/device/mem_info_vram_used"] = &fstest.MapFile{Data: []byte(used)}
		snap, err := (&Driver{root}).Snapshot(context.Background())
		if err != nil || len(snap.Devices) != 1 || len(snap.Problems) != 1 {
			t.Errorf("used %s: %d devices, problems %v, %v", used, len(snap.Devices), snap.Problems, err)
		}
	}
	if _, err := Open(fstest.MapFS{}); !errors.Is(err, ErrNoCard) {
		t.Errorf("a machine without cards: %v", err)
	}
}
