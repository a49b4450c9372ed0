package predict

import (
	"fmt"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/traced"
	"github.com/plimsoll/plimsoll/internal/units"
)

// traceOf is a trace of so many steps with one tensor, as large as its peak.
func traceOf(t *testing.T, size units.Bytes, steps int, ended, works string) *traced.Trace {
	t.Helper()
	head := fmt.Sprintf(`{"schema":"plimsoll.trace/1","ended":%q,"steps":%d,"moments":[{"step":1,"phase":"forward"},{"step":1,"phase":"backward"}],"owners":[{"category":"activations"}],"works":[%s]}`, ended, steps, works)
	return readTrace(t, []byte(head), [][4]int64{{2, 0, 0, 0}, {0, 0, int64(size), 0}, {2, 1, 0, 0}, {1, 0, 0, 0}}) // a phase, a tensor, a phase, its end
}

// Which of the two ways to look at a script answers: the captured step, computed operator by operator, or the run as it was followed.
func TestTheFollowedRunAnswersWhereItKnowsBetter(t *testing.T) {
	t.Parallel()
	const captured = 1000 * units.MiB
	conv := `{"op":"convolution","dtype":"float32","x":[64,64,56,56],"w":[64,64,3,3],"y":[64,64,56,56],"stride":[1,1],"padding":[1,1],"dilation":[1,1],"groups":1}`
	for name, c := range map[string]struct {
		followed     units.Bytes
		steps        int
		ended, works string
		ranged       bool
		want         units.Bytes
	}{
		"steps that settled":                           {followed: 990 * units.MiB, steps: 5, ended: traced.AtEnd, want: 990 * units.MiB},
		"steps that repeat":                            {followed: 990 * units.MiB, steps: 5, ended: traced.Repeats, want: 990 * units.MiB},
		"settled, but much less, and a convolution":    {followed: 950 * units.MiB, steps: 5, ended: traced.AtEnd, works: conv, want: captured},
		"a time limit, and about as much":              {followed: 990 * units.MiB, steps: 2, ended: traced.AtLimit, want: captured},
		"a time limit, and much less after two steps":  {followed: 900 * units.MiB, steps: 2, ended: traced.AtLimit, want: 900 * units.MiB},
		"much less, but one step was seen":             {followed: 900 * units.MiB, steps: 1, ended: traced.AtLimit, want: captured},
		"much less, but copies of a convolution":       {followed: 950 * units.MiB, steps: 2, ended: traced.AtLimit, works: conv, want: captured},
		"much less, but the captured step is a range":  {followed: 900 * units.MiB, steps: 2, ended: traced.AtLimit, ranged: true, want: captured},
		"much more, though only one step was followed": {followed: 1100 * units.MiB, steps: 1, ended: traced.AtLimit, want: 1100 * units.MiB},
	} {
		step := &Result{Report: report.Prediction{Peak: report.PredictedPeak{Allocated: captured, Reserved: captured}, Safe: captured, Verdict: report.Fits, Phases: map[string]units.Bytes{}, ByCategory: map[string]units.Bytes{}}}
		if c.ranged {
			step.Report.Range = &report.Range{Low: captured / 2, High: captured}
		}
		res, err := WithPhases(step, 1, traceOf(t, c.followed, c.steps, c.ended, c.works), h200(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Report.Peak.Allocated; got != c.want {
			t.Errorf("%s: the answer is %v, want %v", name, got, c.want)
		}
		if res.Report.Safe < max(captured, c.followed) {
			t.Errorf("%s: the bound %v is below one of the two", name, res.Report.Safe)
		}
	}
}

// Both ways of looking at a script count the trials of cudnn.benchmark; the answer says one of the two figures.
func TestTheTrialsAreSaidOnce(t *testing.T) {
	t.Parallel()
	const works = `{"op":"convolution","benchmark":true,"dtype":"float32","x":[64,64,56,56],"w":[64,64,3,3],"y":[64,64,56,56],"stride":[1,1],"padding":[1,1],"dilation":[1,1],"groups":1}`
	captured := &report.Trials{First: 2000 * units.MiB, Needed: 1000 * units.MiB}
	step := &Result{Report: report.Prediction{Trials: captured, Assumptions: []string{"the job is guessed", trials(captured)}, Phases: map[string]units.Bytes{}, ByCategory: map[string]units.Bytes{}}}
	res, err := WithPhases(step, 1, traceOf(t, 990*units.MiB, 5, traced.AtEnd, works), h200(t))
	if err != nil {
		t.Fatal(err)
	}
	r := res.Report
	if !slices.Contains(r.Assumptions, "the job is guessed") || !slices.Contains(r.Assumptions, trials(r.Trials)) || slices.Contains(r.Assumptions, trials(captured)) {
		t.Errorf("the answer says %q", r.Assumptions)
	}
}

// A run that was followed for one step: the next ones run beside the optimizer's state, which is counted once, whether the second step was seen or not.
func TestLaterStepsRunBesideTheStateOnce(t *testing.T) {
	t.Parallel()
	const weights, activations, state, more = 100 * units.MiB, 1000 * units.MiB, 200 * units.MiB, 50 * units.MiB
	const head = `{"schema":"plimsoll.trace/1","ended":"time","steps":1,"moments":[{"step":1,"phase":"forward"},{"step":1,"phase":"optimizer"},{"step":2,"phase":"forward"}],
		"owners":[{"category":"parameters"},{"category":"activations"},{"category":"optimizer"}]}`
	first := [][4]int64{{0, 0, int64(weights), 0}, {2, 0, 0, 0}, {0, 1, int64(activations), 1}, {1, 1, 0, 0}, {2, 1, 0, 0}, {0, 2, int64(state), 2}, {2, 2, 0, 0}}
	for name, c := range map[string]struct {
		second [][4]int64
		want   units.Bytes
	}{
		"the second step was not seen":     {nil, weights + state + activations},
		"a part of it was seen":            {[][4]int64{{0, 3, int64(activations / 2), 1}}, weights + state + activations},
		"its peak was seen":                {[][4]int64{{0, 3, int64(activations), 1}}, weights + state + activations},
		"it was seen, and goes higher yet": {[][4]int64{{0, 3, int64(activations + more), 1}}, weights + state + activations + more},
	} {
		res, err := Followed(readTrace(t, []byte(head), append(slices.Clone(first), c.second...)), "train.py", h200(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Report.Peak.Allocated; got != c.want {
			t.Errorf("%s: the peak is %v, want %v", name, got, c.want)
		}
		if res.Report.Safe < c.want {
			t.Errorf("%s: the bound %v is below the peak %v", name, res.Report.Safe, c.want)
		}
	}
}
