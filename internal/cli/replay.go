package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/replay"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// replayOptions are the flags of plimsoll replay.
type replayOptions struct {
	confs    []string
	capacity string // what PyTorch may hold; empty: the recorded run's limit
	limit    string // the cap the recorded run was under, where known
	torch    string
	device   int // -1: the first with a history
	json     bool
}

func newReplayCommand(env Env) *cobra.Command {
	var o replayOptions
	c := &cobra.Command{
		Use:   "replay [flags] SNAPSHOT",
		Short: "replay a recorded run under other allocator settings",
		Long: `Replays the history in a PyTorch memory snapshot through a model of PyTorch's
caching allocator: first under its own settings, comparing every address, then
under others. For each setting it shows the peak of reserved memory, the smallest
capacity at which every request succeeds, and which settings run out of memory.

Record a history with torch.cuda.memory._record_memory_history() and write it
with torch.cuda.memory._dump_snapshot("oom.pickle").

Exit code 3: no setting serves every request within the capacity.`,
		Example: `  plimsoll replay oom.pickle
  plimsoll replay oom.pickle --capacity 24GiB
  plimsoll replay oom.pickle --conf default --conf expandable_segments:True
  plimsoll replay oom.pickle.gz --torch 2.9 --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				env.Stdin, args = pipedArg(env)
			}
			if len(args) != 1 {
				return usageError("replay takes one snapshot: plimsoll replay oom.pickle")
			}
			return runReplay(env, o, args[0])
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.confs, "conf", nil, "settings to try, as in PYTORCH_CUDA_ALLOC_CONF, or default (repeatable; default: all that make sense, and the recorded ones)")
	f.StringVar(&o.capacity, "capacity", "", "memory PyTorch may use, for example 24GiB (default: the limit of the recorded run, where it is known)")
	f.StringVar(&o.limit, "recorded-limit", "", "the limit the recorded run had set with set_per_process_memory_fraction (default: detected)")
	f.StringVar(&o.torch, "torch", "", "PyTorch version, for example 2.9 (default: detected)")
	f.IntVar(&o.device, "device", -1, "device to replay (default: the first with a history)")
	f.BoolVar(&o.json, "json", false, "print JSON (schema "+report.ReplaySchema+")")
	return c
}

func runReplay(env Env, o replayOptions, path string) error {
	known, q, err := o.parse()
	if err != nil {
		return err
	}
	r, err := readRecording(env, path, o.device)
	if err != nil {
		return err
	}
	stop := progress(env, func() string { return fmt.Sprintf("replaying %s events", units.Count(r.Trace.Len())) })
	defer stop()
	c, err := openReplay(r, known)
	if err != nil {
		return unreadable(fmt.Errorf("%s: %w", path, err))
	}
	if q.Settings, err = o.settings(q, c); err != nil {
		return err
	}
	answer := c.Answer(q)
	answer.Input = path
	stop()
	if known.Torch.Said() {
		answer.TorchIs = "flag"
	}
	if err := o.print(env, &answer); err != nil {
		return err
	}
	if answer.Capacity > 0 && len(answer.Settings) > 0 && answer.Settings[0].OOM != nil {
		return findingExit()
	}
	return nil
}

// parse reads the flags that do not depend on the recording.
func (o replayOptions) parse() (known replay.Options, q replay.Question, err error) {
	if o.torch != "" {
		if known.Torch, err = torch.ParseVersion(o.torch); err != nil {
			return known, q, usageError("--torch: %w", err)
		}
		q.Torch = known.Torch
	}
	if o.capacity != "" {
		if q.Capacity, err = units.ParseMemory(o.capacity); err != nil {
			return known, q, usageError("--capacity: %w", err)
		}
	}
	if o.limit != "" {
		if known.Cap, err = units.ParseMemory(o.limit); err != nil {
			return known, q, usageError("--recorded-limit: %w", err)
		}
	}
	return known, q, nil
}

// settings reads --conf, or lists what is worth trying.
func (o replayOptions) settings(q replay.Question, c *replay.Case) ([]replay.Setting, error) {
	if len(o.confs) == 0 {
		return c.Sensible(q.Torch, q.Capacity > 0 || c.Limit.Known()), nil
	}
	version := q.Torch
	if !version.Said() {
		version = c.Torch
	}
	var out []replay.Setting
	for _, text := range o.confs {
		s, err := replay.ParseSetting(text, version)
		if err != nil {
			return nil, usageError("--conf: %w", err)
		}
		if s.Conf.Async {
			return nil, usageError("--conf %q: the cudaMallocAsync backend is the driver's own allocator and is not modelled", text)
		}
		out = append(out, s)
	}
	return out, nil
}

// openReplay proves the recording. A version that was given is where settings are tried; where the recording itself was
// made by another one, that one proves it.
func openReplay(r *recording.Recording, known replay.Options) (*replay.Case, error) {
	c, err := replay.Open(r, known)
	if err != nil || !known.Torch.Said() || c.Fidelity.Exact() {
		return c, err
	}
	other, err := replay.Open(r, replay.Options{Cap: known.Cap})
	if err != nil || !other.Fidelity.Exact() {
		return c, nil
	}
	other.Warnings = append(other.Warnings, fmt.Sprintf("the recording follows the rules of PyTorch %s, not %s: the settings are replayed under %s", other.Torch, known.Torch, known.Torch))
	return other, nil
}

// readRecording reads a snapshot and picks a device.
func readRecording(env Env, path string, device int) (*recording.Recording, error) {
	evidence, err := readEvidence(env, []string{path})
	if err != nil {
		return nil, err
	}
	if len(evidence) != 1 || evidence[0].Snapshot == nil {
		return nil, unreadable(fmt.Errorf("%s: replay needs one snapshot with a history (torch.cuda.memory._record_memory_history() at the start of the script records it)", path))
	}
	s := evidence[0].Snapshot
	if with := withHistory(s); device < 0 && len(with) > 0 {
		device = with[0]
		if failed := slices.IndexFunc(with, func(d int) bool { return slices.Contains(s.Traces[d].Action, snapshot.ActionOOM) }); failed >= 0 {
			device = with[failed]
		}
		if len(with) > 1 {
			others := slices.DeleteFunc(slices.Clone(with), func(d int) bool { return d == device })
			fmt.Fprintf(env.Stderr, "plimsoll: replaying device %d; devices %v have a history too (--device)\n", device, others)
		}
	}
	return recording.New(s, max(device, 0)), nil
}

// withHistory lists the devices that have one.
func withHistory(s *snapshot.Snapshot) []int {
	var devices []int
	for d := range s.Traces {
		if s.Traces[d].Len() > 0 {
			devices = append(devices, d)
		}
	}
	return devices
}

func (o replayOptions) print(env Env, r *report.Replay) error {
	if o.json {
		return printJSON(env.Stdout, r)
	}
	s := screen.New(env.Stdout, env.Style)
	textout.Replay(s, r)
	return s.Err()
}
