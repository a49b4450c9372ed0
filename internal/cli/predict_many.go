package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
	"github.com/plimsoll/plimsoll/internal/spelling"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// predictMany predicts every line of a file, in parallel, and prints in the file's order, as results come.
func predictMany(env Env, cmd *cobra.Command, o predictOptions, m predict.Machine, files *modelFiles) error {
	for _, flag := range []string{"config", "graph", "job", "sweep"} {
		if cmd.Flags().Changed(flag) {
			return usageError("--jobs and --%s: the jobs of the file name their models themselves", flag)
		}
	}
	lines, stop, err := jobLines(env, o.Jobs)
	if err != nil {
		return err
	}
	defer stop()
	jobs := func(yield func(fileJob) bool) {
		for j := range lines {
			if j.broken == nil {
				j.broken = o.overlay(cmd, &j)
			}
			if !yield(j) {
				return
			}
		}
	}
	var count tally
	table := textout.NewPredictionTable(screen.New(env.Stdout, env.Style))
	out := json.NewEncoder(screen.JSON(env.Stdout))
	err = predictAll(env, jobs, m, files, func(r oneOfMany) error {
		count.add(&r)
		if o.JSON {
			return out.Encode(&r.Prediction)
		}
		return table.Add(r.Prediction)
	})
	if err == nil && !o.JSON {
		err = table.Close()
	}
	switch {
	case err != nil:
		return fmt.Errorf("write the predictions: %w", err)
	case count.all == 0:
		return unreadable(fmt.Errorf("%s has no jobs in it", o.Jobs))
	}
	return count.verdict(env)
}

// predictAll uses every processor and hands results out in the order of the jobs, as soon as there are any. It holds only a few jobs at a time.
func predictAll(env Env, jobs iter.Seq[fileJob], m predict.Machine, files *modelFiles, each func(oneOfMany) error) error {
	// Many predictions one after the other make much garbage and keep little: collecting it as seldom as one alone may would only take memory.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	workers := runtime.GOMAXPROCS(0)
	results := make(chan chan oneOfMany, 2*workers)
	stop := make(chan struct{})
	go func() {
		defer close(results)
		free := make(chan struct{}, workers)
		for j := range jobs {
			result := make(chan oneOfMany, 1)
			select {
			case <-stop:
				return
			case results <- result:
			}
			free <- struct{}{}
			go func() {
				result <- predictOne(j, m, files)
				<-free
			}()
		}
	}()
	var done atomic.Int64
	if !env.StdoutIsTerminal { // results on a terminal are progress enough
		defer progress(env, func() string { return fmt.Sprintf("%d jobs predicted", done.Load()) })()
	}
	var failed error
	for result := range results {
		r := <-result
		if failed != nil {
			continue // nobody reads on: only wait for what has begun
		}
		if failed = each(r); failed != nil {
			close(stop)
		}
		done.Add(1)
	}
	return failed
}

// oneOfMany is what became of one of many jobs.
type oneOfMany struct {
	report.Prediction
	python error // the reason of a failure that is this machine's, not the job's: there is no Python to read models with
}

// predictOne turns a failure into a result that says so: one bad job does not stop the others.
func predictOne(j fileJob, m predict.Machine, files *modelFiles) (r oneOfMany) {
	failed := func(err error) oneOfMany {
		return oneOfMany{Prediction: report.Prediction{Schema: report.PredictSchema, ID: j.ID, Title: j.Model, Error: err.Error(), Assumptions: []string{}}}
	}
	defer func() {
		if problem := recover(); problem != nil {
			r = failed(fmt.Errorf("this is a bug in plimsoll (run the job alone with --job to report it): %v", problem))
		}
	}()
	if j.broken != nil {
		return failed(j.broken)
	}
	src, err := files.source(&j)
	if u := (unread{}); errors.As(err, &u) {
		r = failed(fmt.Errorf("%s%w", j.where, u))
		r.python = u.python
		return r
	}
	if err != nil {
		return failed(fmt.Errorf("%s%w", j.where, err))
	}
	res, err := predict.Run(j.Job, src, m)
	if err != nil {
		return failed(fmt.Errorf("%s%w", j.where, cannotPredict(&j, err)))
	}
	return oneOfMany{Prediction: res.Report}
}

// tally counts what became of many predictions.
type tally struct {
	all, tooLarge, failed int
	first                 []string // failures, the first of them
	unread                int      // failures because there is no Python to read the model with
	lastUnread            string   // the last of them
	python                error    // what is missing
}

const maxFailures = 20 // lines of failures that are told one by one; all of them stand among the results

func (c *tally) add(r *oneOfMany) {
	c.all++
	switch {
	case r.python != nil: // the same for every job: told once
		c.failed++
		c.unread, c.lastUnread, c.python = c.unread+1, screen.Clean(failure(&r.Prediction)), r.python
	case r.Error != "":
		if c.failed++; len(c.first) < maxFailures {
			c.first = append(c.first, screen.Clean(failure(&r.Prediction)))
		}
	case !r.Fits:
		c.tooLarge++
	}
}

// failure names the job that failed and why, once: the error of a line that is no job names the line itself.
func failure(r *report.Prediction) string {
	if strings.Contains(r.Error, r.ID+": ") {
		return r.Error
	}
	return r.ID + ": " + r.Error
}

// verdict is the exit code of several predictions: a job that cannot be predicted outweighs one that does not fit.
func (c *tally) verdict(env Env) error {
	for _, line := range c.first {
		fmt.Fprintf(env.Stderr, "plimsoll: %s\n", line)
	}
	if more := c.failed - c.unread - len(c.first); more > 0 {
		fmt.Fprintf(env.Stderr, "plimsoll: and %d more\n", more)
	}
	switch {
	case c.unread == 1:
		fmt.Fprintf(env.Stderr, "plimsoll: %s\n", c.lastUnread)
	case c.unread > 1:
		fmt.Fprintf(env.Stderr, "plimsoll: the models of %d jobs are not built in and cannot be read from their code: %v\n", c.unread, c.python)
	}
	if c.failed > 0 {
		return unreadable(fmt.Errorf("%d of %d jobs could not be predicted", c.failed, c.all))
	}
	if c.tooLarge > 0 {
		return findingExit()
	}
	return nil
}

// predictSweep predicts every combination of the values of --sweep.
func predictSweep(env Env, o predictOptions, j fileJob, m predict.Machine, files *modelFiles) error {
	axes, err := parseSweep(o.Sweep)
	if err != nil {
		return usageError("--sweep: %w", err)
	}
	jobs := []fileJob{j}
	for _, a := range axes {
		var more []fileJob
		for _, base := range jobs {
			for _, v := range a.values {
				next := base
				if err := setAxis(&next, a.name, v); err != nil {
					return usageError("--sweep: %w", err)
				}
				more = append(more, next)
			}
		}
		if jobs = more; len(jobs) > maxSweep {
			return usageError("--sweep asks for more than %d combinations", maxSweep)
		}
	}
	for i := range jobs {
		jobs[i].ID = sweepID(jobs[i], axes)
	}
	// The first combination shows mistakes in what all have in common as what they are.
	first := jobs[0]
	if _, err := files.source(&first); err != nil {
		return err
	}
	var count tally
	var results []report.Prediction
	out := json.NewEncoder(screen.JSON(env.Stdout))
	err = predictAll(env, slices.Values(jobs), m, files, func(r oneOfMany) error {
		count.add(&r)
		if o.JSON {
			return out.Encode(&r.Prediction)
		}
		results = append(results, r.Prediction)
		return nil
	})
	if !o.JSON {
		s := screen.New(env.Stdout, env.Style)
		textout.Sweep(s, results)
		err = s.Err()
	}
	if err != nil {
		return fmt.Errorf("write the predictions: %w", err)
	}
	return count.verdict(env)
}

const maxSweep = 4096

type axis struct {
	name   string
	values []string
}

var sweepNames = []string{"batch", "seq", "target-seq", "image", "accumulate", "precision", "optimizer", "checkpointing", "attn"}

// parseSweep reads "batch=1..64,seq=512,1024": a part without "=" is another value of the name before it.
func parseSweep(text string) ([]axis, error) {
	var axes []axis
	for part := range strings.SplitSeq(text, ",") {
		name, value, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			if len(axes) == 0 {
				return nil, fmt.Errorf("%q has no name; write for example batch=1..64,seq=512,1024", part)
			}
			name, value = axes[len(axes)-1].name, name
		} else {
			axes = append(axes, axis{name: name})
		}
		values, err := sweepValues(value)
		if err != nil {
			return nil, err
		}
		last := &axes[len(axes)-1]
		last.values = append(last.values, values...)
		if len(last.values) > maxSweep {
			return nil, fmt.Errorf("%s has more than %d values", name, maxSweep)
		}
	}
	return axes, nil
}

// sweepValues is one value, or a..b: doubled from a until b, which ends the list.
func sweepValues(text string) ([]string, error) {
	from, to, ranged := strings.Cut(text, "..")
	if !ranged {
		if text == "" {
			return nil, fmt.Errorf("a value is missing")
		}
		return []string{text}, nil
	}
	a, errA := strconv.Atoi(from)
	b, errB := strconv.Atoi(to)
	if errA != nil || errB != nil || a < 1 || b < a {
		return nil, fmt.Errorf("%q is not a range like 1..64", text)
	}
	var values []string
	for n := a; n < b && n > 0; n *= 2 {
		values = append(values, strconv.Itoa(n))
	}
	return append(values, strconv.Itoa(b)), nil
}

func setAxis(j *fileJob, name, value string) error {
	number := map[string]*int{"batch": &j.Batch, "seq": &j.Seq, "target-seq": &j.TargetSeq, "image": &j.Image, "accumulate": &j.Accumulate}[name]
	if number != nil {
		n, err := strconv.Atoi(value)
		if err != nil || n <= 0 {
			return fmt.Errorf("%s=%s is not a size", name, value)
		}
		*number = n
		return nil
	}
	switch name {
	case "precision":
		p, err := torch.ParsePrecision(value)
		if err != nil {
			return err
		}
		j.SetPrecision(p)
	case "optimizer":
		j.Optimizer = torch.Optimizer(value)
	case "attn":
		j.Attn = setup.Attention(value)
	case "checkpointing":
		j.Checkpointing = value == "full" || value == "true"
		if !j.Checkpointing && value != "none" && value != "false" {
			return fmt.Errorf("checkpointing=%s is neither none nor full", value)
		}
	default:
		return fmt.Errorf("%q cannot be swept%s", name, spelling.Hint(name, sweepNames))
	}
	return nil
}

// sweepID names a combination by its values.
func sweepID(j fileJob, axes []axis) string {
	var parts []string
	for _, a := range axes {
		switch a.name {
		case "batch":
			parts = append(parts, fmt.Sprintf("batch %d", j.Batch))
		case "seq":
			parts = append(parts, fmt.Sprintf("seq %d", j.Seq))
		case "target-seq":
			parts = append(parts, fmt.Sprintf("target %d", j.TargetSeq))
		case "image":
			parts = append(parts, fmt.Sprintf("image %d", j.Image))
		case "accumulate":
			parts = append(parts, fmt.Sprintf("accumulate %d", j.Accumulate))
		case "precision":
			parts = append(parts, string(j.Precision()))
		case "optimizer":
			parts = append(parts, string(j.Optimizer))
		case "attn":
			parts = append(parts, string(j.Attn))
		case "checkpointing":
			parts = append(parts, map[bool]string{true: "checkpointed", false: "plain"}[j.Checkpointing])
		}
	}
	return strings.Join(parts, " · ")
}
