package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/plimsoll/plimsoll/internal/answer/plan"
	"github.com/plimsoll/plimsoll/internal/answer/planfile"
	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/script/modelcode"
	"github.com/plimsoll/plimsoll/internal/script/observe"
	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/script/verify"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
)

// verifiedForm is the form that --verify runs where none was named.
func (o *fitOptions) verifiedForm() string {
	switch {
	case !o.Verify || o.Write != "":
		return o.Write
	case o.GPUs > 1:
		return "fsdp2"
	}
	return verify.Forms[0]
}

// verify runs a plan as it is written on this machine's card, and prints what was predicted beside what was measured.
func (o *fitOptions) verify(env Env, r plan.Request, fit *report.Fit) error {
	p, err := o.chosen(fit)
	if err != nil {
		return err
	}
	c := verify.Case{
		Form: o.Write, Config: o.config, Class: planfile.ModelClass(r.Job.Task), Seq: r.Job.Seq, MicroBatch: p.MicroBatch, Accumulate: p.Accumulate, GPUs: p.GPUs, Attn: p.Attn,
		Room: predict.Room(r.Machine),
	}
	if err := c.Check(p.Setup); err != nil {
		return usageError("%w", err)
	}
	text, err := planfile.Write(o.Write, p, o.handed(r))
	if err != nil {
		return usageError("%w", err)
	}
	m, err := o.measure(env, c, text)
	if err != nil {
		return err
	}
	fit.Verified = verified(o, r, p, m)
	if err := o.printVerified(env, fit); err != nil {
		return err
	}
	if !fit.Verified.Holds {
		return findingExit()
	}
	return nil
}

// measure runs the case under observation, as plimsoll run does.
func (o *fitOptions) measure(env Env, c verify.Case, text string) (verify.Measured, error) {
	python, err := (&modelcode.Reader{Python: o.Python, Env: env.environ()}).Interpreter()
	if err != nil {
		return verify.Measured{}, fmt.Errorf("--verify: %w", err)
	}
	folder, err := os.MkdirTemp("", "plimsoll-verify")
	if err != nil {
		return verify.Measured{}, fmt.Errorf("make a folder for the plan: %w", err)
	}
	defer os.RemoveAll(folder)
	args, err := c.Prepare(folder, text)
	if err != nil {
		return verify.Measured{}, err
	}
	var printed bytes.Buffer
	say := func(line string) { fmt.Fprintf(env.Stderr, "plimsoll: %s\n", line) }
	run, err := observe.Open(observe.Request{
		Args: append([]string{python}, args...), Env: env.environ(), Stdin: bytes.NewReader(nil), Stdout: &printed, Stderr: env.Stderr,
		Record: probe.Light, Say: say, Helper: env.Helper,
	})
	if err != nil {
		say(fmt.Sprintf("%v; the plan runs unobserved.", err))
	}
	defer run.Close()
	stop := progress(env, func() string { return "running the plan" })
	defer stop()
	if _, err := run.Attempt(nil, nil); err != nil {
		return verify.Measured{}, fmt.Errorf("--verify: %w", err)
	}
	m, err := verify.Read(printed.String())
	if err != nil {
		return m, fmt.Errorf("--verify: %w", err)
	}
	return m, nil
}

// verified compares a run with its plan.
func verified(o *fitOptions, r plan.Request, p report.Plan, m verify.Measured) *report.Verified {
	v := &report.Verified{
		Plan: o.Plan, Form: o.Write, Card: m.Card, Torch: m.Torch, Allocated: m.Allocated, Reserved: m.Reserved, StepMS: m.StepMS, Failed: m.Failed, Notes: []string{},
		Holds: m.Failed == "" && m.Reserved <= p.Safe,
	}
	v.Notes = append(v.Notes, fmt.Sprintf("PyTorch was limited to %s, what the %s leaves it", predict.Room(r.Machine).Short(), predict.CardName(r.Machine)))
	if p.GPUs > 1 {
		v.Notes = append(v.Notes, fmt.Sprintf("one rank of %d ran, with collectives that do nothing: its time has no communication in it", p.GPUs))
	}
	return v
}

func (o *fitOptions) printVerified(env Env, fit *report.Fit) error {
	if o.JSON {
		if err := json.NewEncoder(screen.JSON(env.Stdout)).Encode(fit); err != nil {
			return fmt.Errorf("write the plans: %w", err)
		}
		return nil
	}
	s := screen.New(env.Stdout, env.Style)
	textout.Verified(s, fit.Plans[fit.Verified.Plan-1], fit.Verified)
	if err := s.Err(); err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	return nil
}
