package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/live/machine"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/script/attempt"
	"github.com/plimsoll/plimsoll/internal/script/capture"
	"github.com/plimsoll/plimsoll/internal/script/forecast"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// captureLimit is how long a script may take to its first training step; one that takes longer is not started twice for a prediction.
const captureLimit = 3 * time.Minute

// cardsHere reads the GPUs of this machine once; none where none can be read.
func cardsHere(getenv func(string) string) []watch.Card {
	m, err := machine.Open(getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return nil
	}
	defer m.Close()
	r, err := m.Read(context.Background(), time.Now())
	if err != nil {
		return nil
	}
	return r.Cards
}

// foresee captures the command's first training step on the CPU and asks how to run it on this machine's card. Where that cannot be told, one line says
// why and the answer is nil: the run itself will tell. An error means that someone asked for the end meanwhile.
func (r *observedRun) foresee(args []string) (*forecast.Question, error) {
	if r.env.Cards == nil {
		return nil, nil
	}
	cards, alike := visibleCards(r.env.Cards(), r.env.Environ())
	if len(cards) == 0 {
		return nil, nil // no GPU here: nothing to run out of
	}
	q, err := r.ask(args, cards, alike)
	var interrupted capture.Interrupted
	switch {
	case errors.As(err, &interrupted):
		return nil, coded{128 + int(interrupted.Outcome.Asked), nil}
	case err != nil:
		r.say("no prediction: %s. The run itself will tell.", oneLine(err))
		return nil, nil
	}
	return q, nil
}

func oneLine(err error) string {
	text := strings.TrimPrefix(err.Error(), "the training step was not captured")
	text = strings.TrimSpace(strings.TrimPrefix(strings.SplitN(text, "\n", 2)[0], ":"))
	if runes := []rune(text); len(runes) > 240 {
		return string(runes[:240]) + "…"
	}
	return strings.TrimSuffix(text, ".")
}

// ask captures the command and puts the question.
func (r *observedRun) ask(args []string, cards []watch.Card, alike bool) (*forecast.Question, error) {
	dir := filepath.Join(r.folder, "capture")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for the capture: %w", err)
	}
	card := takenCard(cards, alike, 1)
	known := catalogued(card)
	stop := make(chan struct{})
	late := time.AfterFunc(captureLimit, func() { close(stop) })
	defer late.Stop()
	quiet := progress(r.env, func() string { return "looking ahead: capturing the first training step on the CPU" })
	defer quiet()
	file, err := capture.Run(capture.Request{Args: args, Env: r.env.Environ(), Dir: dir, Stop: stop,
		Card: &capture.Card{Memory: card.Total - card.Reserved, Capability: [2]int{known.Card.Major, known.Card.Minor}}})
	if err != nil {
		select {
		case <-stop:
			return nil, fmt.Errorf("its first training step was not reached within %s", captureLimit)
		default:
			return nil, err
		}
	}
	place, err := capture.ReadPlace(dir)
	if err != nil {
		return nil, err
	}
	return r.question(file, place, takenCard(cards, alike, place.LocalWorld))
}

// catalogued is the card as predictions know it; of one that is not in the catalogue, the workspaces are those of the measured card and the context is
// the largest measured.
func catalogued(card watch.Card) predict.Machine {
	m := predict.Machine{Capacity: card.Free}
	var err error
	if m.Card, err = gpu.Find(card.Name); err != nil {
		m.Card, _ = gpu.Find("h200")
		m.Card.Context, m.Assumed = 0, true
	}
	return m
}

// question reads the captured job and what limits it.
func (r *observedRun) question(file string, place capture.Place, card watch.Card) (*forecast.Question, error) {
	switch {
	case !place.GPU:
		return nil, errors.New("it puts no model on the GPU")
	case place.World > place.LocalWorld:
		return nil, errors.New("it runs on several machines")
	case place.World > 1 && !place.Parallel:
		return nil, fmt.Errorf("%d processes train together without DistributedDataParallel", place.World)
	}
	j, err := readJobFile(r.env, file)
	if err != nil {
		return nil, err
	}
	src, err := newModelFiles().source(&j)
	if err != nil {
		return nil, err
	}
	m := catalogued(card)
	if v, err := torch.ParseVersion(src.Graph.TorchVersion); err == nil {
		m.Torch = v
	}
	for _, name := range []string{"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"} {
		if conf, err := alloc.ParseConf(r.variable(name), m.Torch); err == nil && r.variable(name) != "" {
			m.Conf = conf
		}
	}
	q := &forecast.Question{Job: j.Job, Source: src, Machine: m, Ranks: place.World, Uncut: !place.Loader}
	if f := place.CapFraction; f != nil && *f > 0 && *f < 1 {
		q.Cap = units.Bytes(*f * float64(card.Total-card.Reserved))
	}
	return q, nil
}

func (r *observedRun) variable(name string) string {
	value := ""
	for _, entry := range r.env.Environ() {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// startWith chooses the plan to begin with and says so.
func (r *observedRun) startWith(q *forecast.Question, limits attempt.Limits) attempt.Plan {
	quiet := progress(r.env, func() string { return "looking ahead: predicting what would fit" })
	a, err := forecast.Choose(*q, limits)
	quiet()
	switch {
	case err != nil:
		r.say("no prediction: %s. The run itself will tell.", oneLine(err))
		return attempt.Plan{Split: 1}
	case !a.Changed && a.Fits:
		r.say("predicted peak %s of %s GiB free: it fits as it is.", a.Before.GiBString(1), a.Room.GiBString(1))
	case a.Fits:
		r.say("predicted peak %s of %s GiB free; starting with %s: %s GiB.", a.Before.GiBString(1), a.Room.GiBString(1), a.Plan.Changes(q.Job.Batch), a.After.GiBString(1))
	default:
		r.say("predicted peak %s of %s GiB free, and nothing that may change makes it fit; starting with %s: %s GiB.",
			a.Before.GiBString(1), a.Room.GiBString(1), a.Plan.Changes(q.Job.Batch), a.After.GiBString(1))
	}
	return a.Plan
}

// takenCard is the card that decides: of those that the ranks take, from the first on, the fullest; of all of them where their order is not known.
func takenCard(visible []watch.Card, alike bool, ranks int) watch.Card {
	if alike {
		visible = visible[:max(1, min(ranks, len(visible)))]
	}
	return slices.MinFunc(visible, func(a, b watch.Card) int { return cmp.Compare(a.Free, b.Free) })
}

// visibleCards are the cards that CUDA_VISIBLE_DEVICES leaves, by number or by the start of a UUID; what follows an unknown one is not seen (CUDA C
// Programming Guide, environment variables). Whether they are alike decides whether their numbers are the driver's: CUDA puts the fastest first.
func visibleCards(cards []watch.Card, environ []string) (visible []watch.Card, alike bool) {
	list, set := "", false
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, "CUDA_VISIBLE_DEVICES="); ok {
			list, set = v, true
		}
	}
	alike = !slices.ContainsFunc(cards, func(c watch.Card) bool { return c.Name != cards[0].Name })
	if !set {
		return cards, alike
	}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		at, err := strconv.Atoi(name)
		switch {
		case err != nil:
			at = slices.IndexFunc(cards, func(c watch.Card) bool { return name != "" && strings.HasPrefix(c.ID, name) })
		case !alike && at >= 0 && at < len(cards):
			return cards, false
		}
		if at < 0 || at >= len(cards) {
			break
		}
		visible = append(visible, cards[at])
	}
	return visible, true
}
