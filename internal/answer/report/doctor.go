package report

import "github.com/plimsoll/plimsoll/internal/units"

// Doctor is the answer of plimsoll doctor.
type Doctor struct {
	Schema   string    `json:"schema"`
	Machine  Machine   `json:"machine"`
	Findings []Finding `json:"findings"`
	Fine     []string  `json:"fine"`    // questions that found nothing wrong
	Unknown  []string  `json:"unknown"` // questions that could not be answered here
}

// DoctorSchema names the form of Doctor.
const DoctorSchema = "plimsoll.doctor/1"

// Machine is what is known of the machine; empty fields are unknown.
type Machine struct {
	OS            string        `json:"os"`
	Kernel        string        `json:"kernel"`
	WSL           bool          `json:"wsl"`
	Container     bool          `json:"container"`
	Driver        string        `json:"driver"`
	DriverCUDA    string        `json:"driver_cuda"`
	Toolkit       string        `json:"toolkit"`
	Python        string        `json:"python"`
	Torch         string        `json:"torch"`
	TorchCUDA     string        `json:"torch_cuda"`
	HostTotal     units.Bytes   `json:"host_total"`
	HostAvailable units.Bytes   `json:"host_available"`
	Shm           units.Bytes   `json:"shm"`
	Cards         []MachineCard `json:"cards"`
}

// MachineCard is a physical card.
type MachineCard struct {
	Index      int         `json:"index"`
	Name       string      `json:"name"`
	Total      units.Bytes `json:"total"`
	Capability string      `json:"capability"`
}
