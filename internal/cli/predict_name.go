package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/script/modelcode"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// name takes the model that is on the command line by itself: a name on the Hugging Face hub, a file or a folder; or a job that is piped in.
func (f *jobFlags) name(env Env, cmd *cobra.Command, args []string) (Env, error) {
	args = f.modelArgs(cmd, args)
	var flag string
	for _, other := range []string{"config", "graph", "job", "jobs"} {
		if cmd.Flags().Changed(other) {
			flag = other
		}
	}
	switch {
	case len(args) == 0 && flag != "":
		return env, nil
	case len(args) == 0:
		in := piped(env)
		if in == nil {
			return env, noModel(cmd)
		}
		env.Stdin, f.JobFile = in, "-"
		return env, nil
	case flag != "":
		return env, usageError("give either %s or --%s, not both", args[0], flag)
	case strings.HasSuffix(args[0], ".py") || args[0] == "python" || args[0] == "python3":
		return env, usageError("put -- before the command: plimsoll %s -- %s", cmd.Name(), asCommand(args))
	case len(args) > 1:
		return env, usageError("%q and %q: give one model (to predict a command, put -- before it)", args[0], args[1])
	}
	f.given = args[0]
	return env, f.locate(env, cmd, args[0])
}

// asCommand is the command line that a script alone stands for.
func asCommand(args []string) string {
	if strings.HasSuffix(args[0], ".py") {
		args = append([]string{"python"}, args...)
	}
	return strings.Join(args, " ")
}

// modelArgs are the arguments that may be a model: --model counts as one, and the word in "--checkpointing full" does not.
func (f *jobFlags) modelArgs(cmd *cobra.Command, args []string) []string {
	if f.named != "" {
		args = append([]string{f.named}, args...)
	}
	if flag := cmd.Flags().Lookup("checkpointing"); flag != nil && flag.Changed && flag.Value.Type() == "bool" {
		args = slices.DeleteFunc(slices.Clone(args), func(a string) bool {
			if a == string(setup.None) {
				f.Checkpointing = false
			}
			return a == string(setup.None) || a == string(setup.Full)
		})
	}
	return args
}

// noModel says how a model is named.
func noModel(cmd *cobra.Command) error {
	verb := cmd.Name()
	return usageError(`no model given. For example:
  plimsoll %[1]s Qwen/Qwen3-8B --batch 1 --seq 2048 --gpu 4090   a model on the Hugging Face hub
  plimsoll %[1]s config.json --batch 1 --seq 2048 --gpu 4090     its config.json, or the folder it is in
  plimsoll predict --gpu 4090 -- python train.py               your own script`, verb)
}

// locate finds the file of a model.
func (f *jobFlags) locate(env Env, cmd *cobra.Command, name string) error {
	switch ending := filepath.Ext(strings.TrimSuffix(name, ".gz")); {
	case ending == ".pt2":
		f.given = ""
		return cmd.Flags().Set("graph", name)
	case ending == ".jsonl" && cmd.Flags().Lookup("jobs") != nil:
		return cmd.Flags().Set("jobs", name)
	case ending == ".pickle" || ending == ".pkl":
		return usageError("%s is a memory snapshot: plimsoll explain %[1]s reads it", name)
	}
	found, err := f.find(env, name)
	if err != nil {
		return unreadable(err)
	}
	f.found, f.ConfigFile, f.own = found, found.Path, true
	if f.Model == "" {
		f.Model = strings.TrimSuffix(name, "/config.json")
	}
	return nil
}

// find locates a model, and fetches its configuration where it is not here and the user wants that.
func (f *jobFlags) find(env Env, name string) (modelcode.Found, error) {
	for fetched := map[string]bool{}; ; {
		found, err := modelcode.Locate(name, env.environ())
		var absent modelcode.NotCached
		if !f.Download || !errors.As(err, &absent) || fetched[absent.Name] {
			return found, err
		}
		fetched[absent.Name] = true // an adapter's base model comes after it
		reader := modelcode.Reader{Python: f.Python, Env: env.environ()}
		stop := progress(env, func() string { return "downloading the config.json of " + absent.Name })
		err = reader.Download(absent.Name)
		stop()
		if err != nil {
			return modelcode.Found{}, err
		}
	}
}

// asFound fills in what the name of a model says about the job beside its configuration: the adapter that is trained, the part of a pipeline.
func asFound(j *fileJob, found modelcode.Found) {
	j.Config = found.Config
	if found.Part != "" {
		j.Notes = append(j.Notes, fmt.Sprintf("the part of the pipeline that is trained is its %s (%[1]s/config.json); the others are named by their folders", found.Part))
	}
	a := found.Adapter
	if a == nil {
		return
	}
	if j.LoRARank == 0 {
		j.LoRARank, j.LoRADropout, j.DoRA = a.Rank, a.Dropout, a.DoRA
	}
	if len(j.LoRATargets) == 0 {
		j.LoRATargets = a.Targets
	}
	j.Notes = append(j.Notes, fmt.Sprintf("the adapter is trained as its adapter_config.json says: rank %d beside %s", j.LoRARank, a.Base))
	if len(a.Whole) > 0 {
		j.Notes = append(j.Notes, fmt.Sprintf("modules_to_save (%s) are not counted: they are trained whole, which adds a copy of each, its gradient and its optimizer state", strings.Join(a.Whole, ", ")))
	}
	if a.Uneven {
		j.Notes = append(j.Notes, fmt.Sprintf("rank_pattern is not read: every layer is given rank %d", j.LoRARank))
	}
}

// attention reads --attn and remembers a spelling that is counted as another kernel.
func (f *jobFlags) attention(word string) (setup.Attention, error) {
	a, err := setup.ParseAttention(word)
	if f.attnSaid = ""; err == nil && !strings.EqualFold(word, string(a)) {
		f.attnSaid = word
	}
	return a, err
}

// noteAttention says so in the answer.
func (f *jobFlags) noteAttention(j *fileJob) {
	if f.attnSaid != "" {
		j.Notes = append(j.Notes, fmt.Sprintf("%s is counted as %s, which saves the same tensors for backward", f.attnSaid, j.Attn))
	}
}
