package mcpserver

// The answers of the tools: the fields of a verb's JSON that an agent acts on, under the same names, and lists cut to what is worth reading. What the types
// here do not name is left out when the JSON is read.

// Lengths of lists.
const (
	maxFindings = 6
	maxRemedies = 5
	maxLines    = 8
	maxPlans    = 5
	maxLint     = 50
)

// cut shortens a list and tells how much was left out.
func cut[T any](list *[]T, most int) (left int) {
	left = max(0, len(*list)-most)
	*list = (*list)[:len(*list)-left]
	return left
}

type place struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function,omitempty"`
}

type remedy struct {
	Action    string `json:"action"`
	Saves     int64  `json:"saves" jsonschema:"bytes; 0 where it is not a matter of bytes"`
	CheckedBy string `json:"checked_by" jsonschema:"replay, prediction, arithmetic, or rule for general advice"`
	Enough    string `json:"enough,omitempty" jsonschema:"whether it makes the run fit: yes, no, or with another"`
	Numerics  bool   `json:"changes_numerics,omitempty"`
	Command   string `json:"command,omitempty"`
}

type holder struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Count int    `json:"count"`
}

type finding struct {
	ID         string   `json:"id"`
	Severity   string   `json:"severity" jsonschema:"error, warning or note"`
	Confidence float64  `json:"confidence"`
	Title      string   `json:"title"`
	Evidence   []string `json:"evidence,omitempty"`
	Refuted    string   `json:"refuted_by,omitempty" jsonschema:"what would show this finding to be wrong"`
	Where      []place  `json:"where,omitempty"`
	Bytes      int64    `json:"bytes,omitempty"`
	Holders    []holder `json:"holders,omitempty"`
	Remedies   []remedy `json:"remedies,omitempty"`
}

func shortenFindings(list *[]finding) (left int) {
	left = cut(list, maxFindings)
	for i := range *list {
		f := &(*list)[i]
		cut(&f.Evidence, maxLines)
		cut(&f.Where, maxLines)
		cut(&f.Holders, maxLines)
		cut(&f.Remedies, maxRemedies)
	}
	return left
}

type amount struct {
	Bytes int64  `json:"bytes"`
	Count int    `json:"count"`
	What  string `json:"category"`
	Where *place `json:"where,omitempty"`
}

type explainOut struct {
	Schema   string          `json:"schema"`
	Findings []finding       `json:"findings" jsonschema:"causes, the most important first"`
	Devices  []explainDevice `json:"devices,omitempty"`
	Message  *struct {
		Requested int64 `json:"requested,omitempty"`
		Capacity  int64 `json:"capacity,omitempty"`
		Free      int64 `json:"free,omitempty"`
		Allocated int64 `json:"allocated,omitempty"`
	} `json:"message,omitempty" jsonschema:"the numbers of the error text"`
	Left int `json:"left_out,omitempty" jsonschema:"findings that are not listed"`
}

type explainDevice struct {
	Input  string `json:"input,omitempty"`
	Device int    `json:"device"`
	Peak   struct {
		Allocated int64 `json:"allocated"`
		Reserved  int64 `json:"reserved"`
	} `json:"peak"`
	AtPeak struct {
		ByCategory map[string]int64 `json:"by_category"`
		Top        []amount         `json:"top,omitempty"`
	} `json:"at_peak"`
	OOM []struct {
		Requested int64  `json:"requested"`
		Free      int64  `json:"device_free"`
		Capacity  int64  `json:"capacity"`
		Phase     string `json:"phase"`
	} `json:"oom,omitempty"`
}

func (o *explainOut) shorten() {
	o.Left = shortenFindings(&o.Findings)
	cut(&o.Devices, maxLines)
	for i := range o.Devices {
		cut(&o.Devices[i].AtPeak.Top, maxLines)
		cut(&o.Devices[i].OOM, maxLines)
	}
}

type replayOut struct {
	Schema   string `json:"schema"`
	Torch    string `json:"torch"`
	Fidelity struct {
		Exact bool `json:"exact" jsonschema:"the model reproduces every address of the recording"`
	} `json:"fidelity"`
	Capacity int64 `json:"capacity"`
	Settings []struct {
		Conf     string `json:"conf"`
		Recorded bool   `json:"recorded" jsonschema:"these are the settings of the run"`
		OOM      *struct {
			Requested int64 `json:"requested"`
		} `json:"oom" jsonschema:"null: every request is served within the capacity"`
		Smallest    int64  `json:"smallest_capacity" jsonschema:"bytes with which every request is served"`
		Environment string `json:"environment,omitempty"`
	} `json:"settings" jsonschema:"the best first"`
}

func (o *replayOut) shorten() { cut(&o.Settings, maxLines) }

type predictOut struct {
	Schema string `json:"schema"`
	Title  string `json:"title,omitempty"`
	Card   string `json:"card,omitempty"`
	Fits   bool   `json:"fits"`
	Params int64  `json:"params"`
	Peak   struct {
		Allocated int64 `json:"allocated"`
		Reserved  int64 `json:"reserved"`
		Device    int64 `json:"device" jsonschema:"as nvidia-smi shows it"`
	} `json:"peak"`
	Safe       int64            `json:"safe" jsonschema:"reserved bytes that are not expected to be exceeded"`
	Capacity   int64            `json:"capacity"`
	Verdict    string           `json:"verdict,omitempty" jsonschema:"fits, tight, does-not-fit or unknown"`
	Phase      string           `json:"phase" jsonschema:"phase of the peak"`
	ByCategory map[string]int64 `json:"by_category"`
	Range      *struct {
		Low  int64  `json:"low"`
		High int64  `json:"high"`
		Why  string `json:"why,omitempty"`
	} `json:"range,omitempty"`
	Largest *struct {
		Batch int `json:"batch,omitempty"`
		Tight int `json:"tight_batch,omitempty"`
		Seq   int `json:"seq,omitempty"`
	} `json:"largest,omitempty" jsonschema:"the largest batch and the longest sequence that fit; tight_batch: the largest that runs after cache releases"`
	Assumptions []string `json:"assumptions,omitempty"`
}

func (o *predictOut) shorten() { cut(&o.Assumptions, maxLines) }

type planOut struct {
	MicroBatch    int    `json:"micro_batch"`
	Accumulate    int    `json:"accumulate"`
	Precision     string `json:"precision"`
	Checkpointing string `json:"checkpointing"`
	Optimizer     string `json:"optimizer"`
	Sharding      string `json:"sharding,omitempty"`
	Offload       string `json:"offload,omitempty"`
	Peak          struct {
		Reserved int64 `json:"reserved"`
		Device   int64 `json:"device"`
	} `json:"peak"`
	StepMS   float64  `json:"step_ms" jsonschema:"estimated time of one optimizer step"`
	Fits     bool     `json:"fits"`
	Numerics bool     `json:"changes_numerics"`
	Why      string   `json:"why"`
	Changes  []string `json:"changes,omitempty"`
}

type fitOut struct {
	Schema   string    `json:"schema"`
	Title    string    `json:"title,omitempty"`
	Card     string    `json:"card,omitempty"`
	Capacity int64     `json:"capacity"`
	Batch    int       `json:"effective_batch"`
	Plans    []planOut `json:"plans" jsonschema:"the recommended first"`
	Left     int       `json:"left_out,omitempty"`
}

func (o *fitOut) shorten() { o.Left = cut(&o.Plans, maxPlans) }

type lintOut struct {
	Schema   string `json:"schema"`
	Findings []struct {
		Rule     string `json:"rule"`
		Severity string `json:"severity"`
		File     string `json:"file"`
		Line     int    `json:"line"`
		Message  string `json:"message"`
		Fix      string `json:"fix,omitempty"`
	} `json:"findings"`
	Left int `json:"left_out,omitempty"`
}

func (o *lintOut) shorten() { o.Left = cut(&o.Findings, maxLint) }

type doctorOut struct {
	Schema  string `json:"schema"`
	Machine struct {
		OS        string `json:"os"`
		Driver    string `json:"driver,omitempty"`
		Torch     string `json:"torch,omitempty"`
		Container bool   `json:"container"`
	} `json:"machine"`
	Findings []finding `json:"findings"`
	Fine     []string  `json:"fine,omitempty"`
	Unknown  []string  `json:"unknown,omitempty"`
}

func (o *doctorOut) shorten() { shortenFindings(&o.Findings) }
