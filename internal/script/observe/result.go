package observe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/plimsoll/plimsoll/internal/code/blame"
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/script/runner"
	"github.com/plimsoll/plimsoll/internal/script/verdict"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Schema names the form of Record.
const Schema = "plimsoll.run/1"

// Record is the run's outcome as JSON.
type Record struct {
	Schema    string   `json:"schema"`
	Command   []string `json:"command"`
	Code      int      `json:"code"`
	Signal    string   `json:"signal,omitempty"`
	Killed    bool     `json:"killed"`
	OutOfMem  bool     `json:"out_of_memory"` // GPU memory ended it, as far as was seen
	Verdict   string   `json:"verdict"`       // finished, out-of-memory, host-memory, killed or failed
	Processes int      `json:"processes"`     // that the probe was in
	Unseen    []Unseen `json:"not_observed,omitempty"`
	Peak      int64    `json:"peak_allocated"`
	Summary   []string `json:"summary"`
	KeptIn    string   `json:"report,omitempty"` // folder of the record, where memory ended the run
}

// Unseen is a process of the command that the driver saw on a card and the probe was not in.
type Unseen struct {
	PID     int    `json:"pid"`
	GPU     int    `json:"gpu"`
	Bytes   *int64 `json:"bytes"` // null: the driver does not say
	Command string `json:"command,omitempty"`
	Why     string `json:"why,omitempty"`
}

// Result is what there is to say about a run that is over.
type Result struct {
	verdict.Verdict
	Notes     []probenotes.Process
	Record    Record
	Snapshots []string // files that show why memory ran out
	Texts     []string // files with the errors' texts
	InSource  []lint.Finding
	KeptIn    string // folder of the record; empty: it is not kept
	Grown     string // recording of a run that grew without end and lived; empty: none
	Peak      string // recording near the peak of a run that lived, where its record is kept; empty: none
}

// Conclude collects what the processes noted, writes the outcome beside it and judges.
func (r *Run) Conclude(outcome runner.Outcome) Result {
	notes := r.Notes()
	printed, err := oomtext.Read(bytes.NewReader(r.printed))
	if err != nil {
		printed = oomtext.Log{}
	}
	res := Result{Notes: notes, Verdict: verdict.Of(verdict.Evidence{Program: r.Args[0], Notes: notes, Driver: r.driver, Printed: printed, Heard: r.heard,
		Ending: verdict.Ending{Code: cmp.Or(outcome.Code, r.failed), Killed: outcome.Killed(), KernelKills: outcome.KernelKills}})}
	if res.Kind == verdict.OutOfMemory || res.Printed {
		r.gather(&res)
	} else {
		res.Grown, res.Peak = r.alive("growth", notes), r.alive("peak", notes)
	}
	res.Record = r.record(outcome, res.Verdict, notes)
	res.Record.KeptIn = res.KeptIn
	if err := r.write(res.Record); err != nil {
		r.Say(err.Error())
	}
	return res
}

// gather collects what shows why memory ran out.
func (r *Run) gather(res *Result) {
	if res.Printed {
		res.Texts = r.keepPrinted()
	}
	for _, p := range res.Dead {
		res.Snapshots = append(res.Snapshots, r.snapshotOf(p)...)
		res.Texts = append(res.Texts, r.textOf(p)...)
	}
	if len(res.Snapshots)+len(res.Texts) > 0 {
		r.keep, res.KeptIn = true, r.report
	}
	res.InSource = blame.OnStack(stackOf(res.Dead), readScript)
}

// alive finds a recording that the probe made while this run lived: the largest of several ranks.
func (r *Run) alive(when string, notes []probenotes.Process) string {
	best, size := "", int64(-1)
	for _, p := range notes {
		path := filepath.Join(r.report, fmt.Sprintf("rank%d-%d.%s.pickle", p.Rank, p.PID, when))
		if info, err := os.Stat(path); err == nil && info.Size() > size {
			best, size = path, info.Size()
		}
	}
	return best
}

// keepPrinted writes the end of what the command printed beside the notes.
func (r *Run) keepPrinted() []string {
	path := filepath.Join(r.report, "stderr.txt")
	if r.report == "" {
		return nil
	}
	if err := os.WriteFile(path, r.printed, 0o644); err != nil {
		return nil
	}
	return []string{path}
}

func (r *Run) record(outcome runner.Outcome, v verdict.Verdict, notes []probenotes.Process) Record {
	rec := Record{Schema: Schema, Command: r.Args, Code: outcome.Code, Killed: outcome.Killed() && outcome.Code != 0,
		OutOfMem: v.Kind == verdict.OutOfMemory, Verdict: string(v.Kind), Processes: len(notes), Summary: probenotes.Healthy(notes)}
	if len(rec.Summary) == 0 {
		rec.Summary = v.Lines
	}
	for _, h := range v.Unobserved {
		u := Unseen{PID: h.PID, GPU: h.Card, Command: h.Command, Why: string(h.Why)}
		if h.Known {
			held := int64(h.Bytes)
			u.Bytes = &held
		}
		rec.Unseen = append(rec.Unseen, u)
	}
	if outcome.Signal != 0 {
		rec.Signal = outcome.Signal.String()
	}
	for _, p := range notes {
		rec.Peak = max(rec.Peak, int64(p.Peak.Allocated))
	}
	return rec
}

func (r *Run) write(rec Record) error {
	if r.report == "" {
		return nil
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("describe the run: %w", err)
	}
	path := filepath.Join(r.report, "run.json")
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, errors.Unwrap(err))
	}
	return nil
}

func (r *Run) snapshotOf(p probenotes.Process) []string {
	if p.Snapshot == "" || filepath.Base(p.Snapshot) != p.Snapshot {
		return nil
	}
	path := filepath.Join(r.report, p.Snapshot)
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	return []string{path}
}

func (r *Run) textOf(p probenotes.Process) []string {
	if p.Error == nil {
		return nil
	}
	path := filepath.Join(r.report, fmt.Sprintf("rank%d-%d.txt", p.Rank, p.PID))
	if err := os.WriteFile(path, []byte(p.Error.Traceback), 0o644); err != nil {
		return nil
	}
	return []string{path}
}

// stackOf is where the script was when memory ran out; ranks run the same script, so the first that knows speaks for all.
func stackOf(dead []probenotes.Process) []lint.Frame {
	var stack []lint.Frame
	for _, p := range dead {
		if n := len(p.OOMs); n > 0 {
			for _, f := range p.OOMs[n-1].Stack {
				stack = append(stack, lint.Frame{File: f.File, Line: f.Line})
			}
			break
		}
	}
	return stack
}

const maxScriptSize = 4 * units.MiB // a script's file; larger ones are data

func readScript(path string) ([]byte, bool) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, int64(maxScriptSize)))
	return src, err == nil && len(src) < int(maxScriptSize)
}
