package fitrun

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/script/attempt"
	"github.com/plimsoll/plimsoll/internal/script/observe"
	"github.com/plimsoll/plimsoll/internal/script/probe"
)

// script stands for a training script under the probe: it reads its plan and writes the notes the probe would have written.
func script(body string) []string {
	return []string{"sh", "-c", `
notes() { echo '{"schema":"plimsoll.notes/1","run":"'"$PLIMSOLL_RUN"'","pid":'$$',"rank":0,"step":3,"loaders":[{"batch":16,"sampler":"RandomSampler"}],'"$1"'}' > "$PLIMSOLL_REPORT/rank0-$$.json"; }
dies() { notes '"fit":{},"error":{"type":"OutOfMemoryError","message":"CUDA out of memory.","out_of_memory":true,"traceback":""}'; exit 1; }
` + body}
}

// fits runs a command to fit and gives what was said meanwhile.
func fits(t *testing.T, o Options, args []string) (Result, []string, []probenotes.Process) {
	t.Helper()
	var said []string
	r, err := observe.Open(observe.Request{Args: args, Env: os.Environ(), Stdout: io.Discard, Stderr: io.Discard, Record: probe.Auto,
		Say: func(line string) { said = append(said, line) }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o.Split = max(o.Split, 1)
	res, err := Run(r, o)
	if err != nil {
		t.Fatal(err)
	}
	return res, said, r.Notes()
}

func TestACommandIsStartedAgainWithSmallerPartsUntilItFits(t *testing.T) {
	t.Parallel()
	res, said, _ := fits(t, Options{}, script(`
case "$PLIMSOLL_FIT" in *'"split":4'*) notes '"fit":{"split":4,"batch":16,"applied":["4 micro-batches per batch"]}';; *) dies;; esac`))
	if res.Outcome.Code != 0 || res.Plan.Split != 4 {
		t.Errorf("%+v", res)
	}
	if len(said) != 2 || !strings.Contains(said[0], "Starting again: micro-batch 8 × 2") || !strings.Contains(said[1], "Starting again: micro-batch 4 × 4") {
		t.Errorf("said %q", said)
	}
}

func TestWhatAScriptRefusesIsTakenOutOfThePlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		part string
		plan Options
		want attempt.Plan
		said string
	}{
		{"split", Options{Split: 4, Checkpoint: true}, attempt.Plan{Split: 1, Checkpoint: true}, "micro-batches left alone: because (train.py:3)."},
		{"checkpoint", Options{Split: 4, Checkpoint: true}, attempt.Plan{Split: 4}, "checkpointing left alone: because (train.py:3)."},
	} {
		res, said, _ := fits(t, c.plan, script(`
case "$PLIMSOLL_FIT" in *'"split":4'*checkpoint*) notes '"fit":{"refused":"because","part":"`+c.part+`","where":"/x/train.py:3"}'; exit 86;; esac`))
		if res.Plan != c.want || res.Outcome.Code != 0 || len(said) != 1 || said[0] != c.said {
			t.Errorf("%s: %+v, said %q", c.part, res, said)
		}
	}
}

func TestACommandThatFailsForAnotherReasonIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	res, said, _ := fits(t, Options{}, script("notes '\"error\":{\"type\":\"ValueError\"}'; exit 3"))
	if res.Outcome.Code != 3 || len(said) != 0 {
		t.Errorf("%+v, said %q", res, said)
	}
}

func TestAPlanThatDoesNotReachTheScriptIsNotTriedFurther(t *testing.T) {
	t.Parallel()
	res, said, _ := fits(t, Options{}, script(`notes '"error":{"type":"OutOfMemoryError","out_of_memory":true}'; exit 1`))
	if res.Outcome.Code != 1 || len(said) != 1 || !strings.Contains(said[0], "starting again would not help") {
		t.Errorf("%+v, said %q", res, said)
	}
}

func TestNothingIsTriedForEver(t *testing.T) {
	t.Parallel()
	res, said, _ := fits(t, Options{}, script("dies"))
	if res.Outcome.Code != 1 || said[len(said)-1] != "nothing is left to change that would make it fit." {
		t.Errorf("%+v, said %q", res, said)
	}
}

func TestWhatOnlySomeRanksHaveSeenIsNotClaimed(t *testing.T) {
	t.Parallel()
	acted := []probenotes.Process{{Fit: &probenotes.Fit{Applied: []string{"a", "b"}}}, {Fit: &probenotes.Fit{Applied: []string{"b"}}}}
	if got := onAll(acted); len(got) != 1 || got[0] != "b" {
		t.Errorf("claimed %v", got)
	}
}
