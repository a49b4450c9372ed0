package capture

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// kernelRow is a row of Liger's benchmarks: the peak of one kernel.
type kernelRow struct {
	Kernel   string          `json:"kernel"`
	Provider string          `json:"provider"`
	Mode     string          `json:"mode"`
	X        int             `json:"x"`
	Config   json.RawMessage `json:"config"`

	mib       float64
	gpu, date string
	version   string // of Liger
}

// kernelRun is one run of a benchmark's script: rows of one day and card.
type kernelRun struct{ script, gpu, date string }

// kernelScripts are the benchmarks of kernels whose scripts are named otherwise.
var kernelScripts = map[string]string{
	"fused_linear_cpo_loss": "cpo_loss", "fused_linear_simpo_loss": "simpo_loss", "fused_linear_orpo_loss": "orpo_loss",
	"fused_linear_grpo_loss_sequence": "grpo_loss", "fused_linear_grpo_loss_token": "grpo_loss", "tiled_geglu": "tiled_mlp", "tiled_swiglu": "tiled_mlp",
}

var kernelCards = map[string]string{
	"NVIDIA A100-SXM4-80GB": "a100-80g", "NVIDIA H100 80GB HBM3": "h100-80g", "NVIDIA H100 PCIe": "h100-pcie", "NVIDIA B200": "b200",
	"NVIDIA GeForce RTX 3090": "rtx-3090", "NVIDIA GeForce RTX 4090": "rtx-4090",
}

// kernelResult is what came of one row. A file of them, one a line, lets the rows be followed in several runs.
type kernelResult struct {
	Script, GPU, Date, Kernel, Provider, Mode string
	X                                         int
	Published, Predicted                      float64 // MiB
	Failed                                    string
}

// TestKernelsAgreeWithPublishedRows follows Liger's benchmarks as they were on the day of each published row (scripts/kernels.sh) and compares peaks. KERNEL names one benchmark; what
// KERNEL_RESULTS has already is not followed again.
func TestKernelsAgreeWithPublishedRows(t *testing.T) {
	file, liger, python := os.Getenv("PLIMSOLL_KERNELS"), os.Getenv("PLIMSOLL_LIGER"), os.Getenv("PLIMSOLL_PYTHON")
	if file == "" || liger == "" || python == "" {
		t.Skip("PLIMSOLL_KERNELS, PLIMSOLL_LIGER and PLIMSOLL_PYTHON name rows, a clone of Liger and a Python (make kernels)")
	}
	results := cmp.Or(os.Getenv("KERNEL_RESULTS"), filepath.Join(t.TempDir(), "results.jsonl"))
	runs, known := readKernels(t, file), map[kernelRun]bool{}
	for _, r := range readResults(t, results) {
		known[kernelRun{r.Script, r.GPU, r.Date}] = true
	}
	for _, run := range slices.SortedFunc(maps.Keys(runs), func(a, b kernelRun) int {
		return cmp.Compare(a.script+a.date+a.gpu, b.script+b.date+b.gpu)
	}) {
		if only := os.Getenv("KERNEL"); known[run] || only != "" && run.script != only {
			continue
		}
		peaks, failed := followKernels(t, python, liger, run, runs[run])
		f, err := os.OpenFile(results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range runs[run] {
			got, ok := peaks[i]
			told := kernelResult{run.script, run.gpu, run.date, r.Kernel, r.Provider, r.Mode, r.X, r.mib, float64(got) / float64(units.MiB), ""}
			if !ok {
				told.Failed = cmp.Or(failed[strconv.Itoa(i)], "not reached")
			}
			if err := json.NewEncoder(f).Encode(told); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tellKernels(t, readResults(t, results))
}

func readResults(t *testing.T, file string) (out []kernelResult) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return nil // the first run
	}
	for line := range bytes.Lines(text) {
		var r kernelResult
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// tellKernels prints the table of docs/measurements/kernels.md, and what was not followed.
func tellKernels(t *testing.T, results []kernelResult) {
	t.Helper()
	all, left := map[string][]float64{}, map[string]int{}
	count, near := 0, 0
	for _, r := range results {
		name := fmt.Sprintf("%s | %s | %s", r.Kernel, r.Provider, r.Mode)
		if r.Failed != "" {
			left[name+" | "+r.Failed]++
			continue
		}
		e := 100 * (r.Predicted/r.Published - 1)
		all[name] = append(all[name], e)
		if count++; math.Abs(e) <= 1 {
			near++
		}
		if os.Getenv("KERNEL") == r.Script {
			t.Logf("%s %d: %.3f MiB, published %.3f", name, r.X, r.Predicted, r.Published)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		slices.SortFunc(e, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
		t.Logf("| %s | %d | %.2f | %+.2f |", name, len(e), math.Abs(e[len(e)/2]), e[len(e)-1])
	}
	t.Logf("%d rows are followed, %d of them within 1 %%", count, near)
	for _, why := range slices.Sorted(maps.Keys(left)) {
		t.Logf("not followed: %d | %s", left[why], why)
	}
}

func readKernels(t *testing.T, file string) map[kernelRun][]kernelRow {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, name := range lines[0] {
		at[name] = i
	}
	out := map[kernelRun][]kernelRow{}
	for _, line := range lines[1:] {
		r := kernelRow{Kernel: line[at["kernel"]], Provider: line[at["provider"]], Mode: line[at["mode"]], Config: json.RawMessage(cmp.Or(line[at["config"]], "{}")), gpu: line[at["gpu"]], date: line[at["date"]], version: line[at["liger_version"]]}
		r.X, _ = strconv.Atoi(line[at["x"]])
		r.mib, _ = strconv.ParseFloat(line[at["MB"]], 64)
		run := kernelRun{cmp.Or(kernelScripts[r.Kernel], r.Kernel), r.gpu, r.date}
		out[run] = append(out[run], r)
	}
	return out
}

// followKernels follows one run and returns the peaks of its rows, in the last of three calls, and why others have none.
func followKernels(t *testing.T, python, liger string, run kernelRun, rows []kernelRow) (map[int]units.Bytes, map[string]string) {
	t.Helper()
	failed := map[string]string{}
	card, err := gpu.Find(kernelCards[run.gpu])
	if err != nil {
		t.Fatalf("%s: %v", run.gpu, err)
	}
	checkout := checkoutOf(t, liger, "benchmark/scripts/benchmark_"+run.script+".py", rows[0])
	dir := t.TempDir()
	file := filepath.Join(dir, "rows.json")
	text, err := json.Marshal(rows)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../../scripts/kernels/rows.py")
	if err != nil {
		t.Fatal(err)
	}
	env := os.Environ()
	if folder := os.Getenv("PLIMSOLL_TRANSFORMERS"); folder != "" { // Liger imports the models of the transformers of its day
		for _, since := range []struct{ before, version string }{{"2025-03", "4.46.3"}, {"2025-12", "4.53.3"}} {
			if run.date < since.before {
				env = append(env, "PYTHONPATH="+filepath.Join(folder, since.version))
				break
			}
		}
	}
	var out bytes.Buffer
	trace, err := Trace(Request{Args: []string{python, script, checkout, filepath.Join(checkout, "benchmark", "scripts", "benchmark_"+run.script+".py"), file, strconv.Itoa(card.SMs)},
		Env: env, Dir: dir, Stdout: &out, Stderr: &out}, 3*time.Minute)
	if told, readErr := os.ReadFile(file + ".failed"); readErr == nil {
		_ = json.Unmarshal(told, &failed)
	}
	if err != nil {
		t.Logf("%s: %v\n%.2000s", run.script, err, out.String())
		return nil, failed
	}
	if trace.Why != "" {
		t.Logf("%s: ended %q: %s", run.script, trace.Ended, trace.Why)
	}
	if !trace.Held() {
		return nil, failed
	}
	res, err := predict.Followed(trace, run.script, predict.Machine{Card: card})
	if err != nil {
		t.Logf("%s: %v", run.script, err)
		return nil, failed
	}
	return kernelPeaks(t, res.Tape, len(rows)), failed
}

// kernelPeaks cuts a tape where rows.py says that a row begins, and gives the peak of the last stretch of each.
func kernelPeaks(t *testing.T, tp *tape.Tape, rows int) map[int]units.Bytes {
	t.Helper()
	const first, last, step = 700_003, 900_003, 8
	row, mark, peaks := -1, int64(-1), map[int]units.Bytes{}
	_, err := alloc.Run(tp, alloc.Policy{}, func(i int, a *alloc.Allocator) {
		e := &tp.Events[i]
		switch n := int(e.Size) - first; {
		case e.Kind == tape.Alloc && n >= 0 && n < step*rows && n%step == 0:
			row, mark = n/step, int64(e.ID)
			peaks[row] = 0
			return
		case e.Kind == tape.Alloc && e.Size == last:
			row = -1
		case e.Kind == tape.Free && int64(e.ID) == mark:
			mark = -1
		}
		if row >= 0 && mark < 0 {
			peaks[row] = max(peaks[row], a.Stats().Allocated)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return peaks
}

// checkoutOf is the repository at the release that a row names, where that was out on the day of the row and has the benchmark; else at the commit that added the rows of the kernel and day, or,
// where rows were rewritten since, the benchmark.
func checkoutOf(t *testing.T, liger, path string, row kernelRow) string {
	t.Helper()
	git := func(args ...string) []string {
		out, err := exec.Command("git", append([]string{"-C", liger}, args...)...).Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.Fields(string(out))
	}
	commits := git("tag", "-l", "v"+row.version)
	if len(commits) == 0 || len(git("ls-tree", commits[0], path)) == 0 || git("log", "-1", "--format=%as", commits[0])[0] > row.date {
		commits = git("log", "--reverse", "--format=%H", "--pickaxe-regex", "-S^"+row.Kernel+",.*"+row.date, "--", "benchmark/data/all_benchmark_data.csv")
	}
	if len(commits) == 0 || len(git("ls-tree", commits[0], path)) == 0 {
		commits = git("log", "--reverse", "--diff-filter=A", "--format=%H", "--", path)
	}
	if len(commits) == 0 {
		t.Fatalf("%s: Liger never had it", path)
	}
	dir := t.TempDir()
	archive := exec.Command("sh", "-c", `git -C "$1" archive "$2" src benchmark/scripts | tar x -C "$3"`, "sh", liger, commits[0], dir)
	if out, err := archive.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}
