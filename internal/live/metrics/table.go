package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// Metric is a row of the table of metrics: the only place where their names are written.
type Metric struct {
	Name   string
	Help   string
	Labels []string
	Kind   prometheus.ValueType
	desc   *prometheus.Desc
}

func gauge(name, help string, labels ...string) *Metric {
	return metric(name, help, prometheus.GaugeValue, labels)
}

func counter(name, help string, labels ...string) *Metric {
	return metric(name, help, prometheus.CounterValue, labels)
}

func metric(name, help string, kind prometheus.ValueType, labels []string) *Metric {
	return &Metric{name, help, labels, kind, prometheus.NewDesc(name, help, labels, nil)}
}

// The metrics. A card is labelled by its UUID and by the number nvidia-smi gives it; a MIG instance has its own UUID, and the
// card it is cut from has no series, so that sums count no byte twice.
var (
	buildInfo   = gauge("plimsoll_build_info", "Always 1; the version is a label.", "version")
	up          = gauge("plimsoll_up", "1 when the last reading of the GPUs succeeded and is fresh; stale numbers are not given.")
	readings    = counter("plimsoll_readings_total", "Readings of the GPUs that succeeded.")
	readErrors  = counter("plimsoll_read_errors_total", "Readings of the GPUs that failed.")
	lastReading = gauge("plimsoll_last_reading_timestamp_seconds", "When the GPUs were last read, in seconds since 1970.")

	cardInfo         = gauge("plimsoll_gpu_info", "Always 1; what the card is. gpu_instance is set for a MIG instance.", "uuid", "gpu", "gpu_instance", "name", "driver_version")
	cardSize         = gauge("plimsoll_gpu_memory_size_bytes", "Memory of the card; the sum of used, free and reserved.", "uuid", "gpu")
	cardUsed         = gauge("plimsoll_gpu_memory_used_bytes", "Memory in use on the card.", "uuid", "gpu")
	cardFree         = gauge("plimsoll_gpu_memory_free_bytes", "Memory a process could still get.", "uuid", "gpu")
	cardReserved     = gauge("plimsoll_gpu_memory_reserved_bytes", "Memory the driver keeps for itself.", "uuid", "gpu")
	cardPeak         = gauge("plimsoll_gpu_memory_peak_bytes", "Highest memory in use since watching began.", "uuid", "gpu")
	cardUnattributed = gauge("plimsoll_gpu_memory_unattributed_bytes", "Memory in use that is listed for no process; absent when a process hides its amount.", "uuid", "gpu")
	cardOrphaned     = gauge("plimsoll_gpu_memory_orphaned_bytes", "Memory that outlived the process it belonged to.", "uuid", "gpu")
	cardProcesses    = gauge("plimsoll_gpu_processes", "Processes on the card.", "uuid", "gpu")
	cardUtilization  = gauge("plimsoll_gpu_utilization_ratio", "Share of time in which a kernel ran; absent where the driver does not say.", "uuid", "gpu")
	cardGrowth       = gauge("plimsoll_gpu_memory_growth_bytes_per_second", "Steady growth on the card; 0 when nothing grows.", "uuid", "gpu")
	cardExhaustion   = gauge("plimsoll_gpu_memory_exhaustion_seconds", "Time until the card is full at its steady growth; absent when nothing grows.", "uuid", "gpu")

	processInfo = gauge("plimsoll_process_info", "Always 1; whose a process is. training is true for ranks of torchrun and for processes started under plimsoll run.",
		"uuid", "pid", "command", "user", "container", "pod", "slurm_job", "rank", "training")
	processUsed       = gauge("plimsoll_process_memory_used_bytes", "Memory a process holds on a card; absent where the driver does not say.", "uuid", "pid")
	processPeak       = gauge("plimsoll_process_memory_peak_bytes", "Highest memory of the process on the card since watching began.", "uuid", "pid")
	processGrowth     = gauge("plimsoll_process_memory_growth_bytes_per_second", "Growth of the process that it has not given back; 0 when it is not steady.", "uuid", "pid")
	processConfidence = gauge("plimsoll_process_memory_growth_confidence_ratio", "How sure the growth is, 0 to 1; absent when there is none.", "uuid", "pid")

	torchAllocated = gauge("plimsoll_process_torch_allocated_bytes", "Memory of live tensors, told by a process started under plimsoll run.", "uuid", "pid")
	torchReserved  = gauge("plimsoll_process_torch_reserved_bytes", "Memory PyTorch holds from CUDA, in use or cached.", "uuid", "pid")
	torchPeak      = gauge("plimsoll_process_torch_peak_allocated_bytes", "Highest memory of live tensors so far.", "uuid", "pid")
	torchStep      = gauge("plimsoll_process_training_step", "Training step the process is at.", "uuid", "pid")
)

// Table lists every metric in the order of the documentation.
var Table = []*Metric{
	buildInfo, up, readings, readErrors, lastReading,
	cardInfo, cardSize, cardUsed, cardFree, cardReserved, cardPeak, cardUnattributed, cardOrphaned, cardProcesses, cardUtilization, cardGrowth, cardExhaustion,
	processInfo, processUsed, processPeak, processGrowth, processConfidence, torchAllocated, torchReserved, torchPeak, torchStep,
}

func send(out chan<- prometheus.Metric, m *Metric, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(m.desc, m.Kind, value, labels...)
}

// clean makes text from a process fit for a label: valid UTF-8 without control characters.
func clean(text string) string { return screen.Clean(strings.ToValidUTF8(text, "�")) }
