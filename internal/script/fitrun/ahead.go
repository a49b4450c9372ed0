package fitrun

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
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

// foresee captures the command's first training step on the CPU and asks how to run it on this machine's card. Where that cannot be told, one line says
// why and the answer is nil: the run itself will tell. An error means that someone asked for the end meanwhile.
func (f *fitting) foresee() (*forecast.Question, error) {
	if f.options.Cards == nil {
		return nil, nil
	}
	cards, alike := visibleCards(f.options.Cards(), f.Env)
	if len(cards) == 0 {
		return nil, nil // no GPU here: nothing to run out of
	}
	q, err := f.ask(cards, alike)
	var interrupted capture.Interrupted
	switch {
	case errors.As(err, &interrupted):
		return nil, Interrupted{interrupted.Outcome.Asked}
	case err != nil:
		f.say("no prediction: %s. Starting the run without one.", inOneLine(err))
		return nil, nil
	}
	return q, nil
}

// inOneLine is an error as part of a sentence: why a capture failed without saying that it did, and no more than a line.
func inOneLine(err error) string {
	text := err.Error()
	if failed := (capture.Failed{}); errors.As(err, &failed) {
		text = failed.Reason()
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(text); len(runes) > 240 {
		return string(runes[:240]) + "…"
	}
	return strings.TrimSuffix(text, ".")
}

// ask captures the command and puts the question.
func (f *fitting) ask(cards []watch.Card, alike bool) (*forecast.Question, error) {
	dir, err := f.Folder("capture")
	if err != nil {
		return nil, err
	}
	card := takenCard(cards, alike, 1)
	known := catalogued(card)
	stop := make(chan struct{})
	late := time.AfterFunc(captureLimit, func() { close(stop) })
	defer late.Stop()
	quiet := f.options.Progress("looking ahead: capturing the first training step on the CPU")
	defer quiet()
	file, err := capture.Run(capture.Request{Args: f.Args, Env: f.Env, Dir: dir, Stop: stop,
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
	return f.question(file, place, takenCard(cards, alike, place.LocalWorld))
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
func (f *fitting) question(file string, place capture.Place, card watch.Card) (*forecast.Question, error) {
	switch {
	case !place.GPU:
		return nil, errors.New("it puts no model on the GPU")
	case place.World > place.LocalWorld:
		return nil, errors.New("it runs on several machines")
	case place.World > 1 && !place.Parallel:
		return nil, fmt.Errorf("%d processes train together without DistributedDataParallel", place.World)
	}
	j, g, err := load(file)
	if err != nil {
		return nil, err
	}
	m := catalogued(card)
	if v, err := torch.ParseVersion(g.TorchVersion); err == nil {
		m.Torch = v
	}
	for _, name := range []string{"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"} {
		if conf, err := alloc.ParseConf(f.Variable(name), m.Torch); err == nil && f.Variable(name) != "" {
			m.Conf = conf
		}
	}
	q := &forecast.Question{Job: j, Source: predict.Source{Graph: g}, Machine: m, Ranks: place.World, Uncut: !place.Loader}
	if c := place.CapFraction; c != nil && *c > 0 && *c < 1 {
		q.Cap = units.Bytes(*c * float64(card.Total-card.Reserved))
	}
	return q, nil
}

// startWith chooses the plan to begin with and says so.
func (f *fitting) startWith(q *forecast.Question, limits attempt.Limits) attempt.Plan {
	quiet := f.options.Progress("looking ahead: predicting what would fit")
	a, err := forecast.Choose(*q, limits)
	quiet()
	switch {
	case err != nil:
		f.say("no prediction: %s. Starting the run without one.", inOneLine(err))
		return attempt.Plan{Split: 1}
	case !a.Changed && a.Fits:
		f.say("predicted peak %s of %s GiB free: it fits as it is.", a.Before.GiBString(1), a.Room.GiBString(1))
	case a.Fits:
		f.say("predicted peak %s of %s GiB free; starting with %s: %s GiB.", a.Before.GiBString(1), a.Room.GiBString(1), a.Plan.Changes(q.Job.Batch), a.After.GiBString(1))
	case a.Estimated:
		f.say("predicted peak %s of %s GiB free; starting with %s: at least %s GiB.",
			a.Before.GiBString(1), a.Room.GiBString(1), a.Plan.Changes(q.Job.Batch), a.After.GiBString(1))
	default:
		f.say("predicted peak %s of %s GiB free, and nothing that may change makes it fit; starting with %s: %s GiB.",
			a.Before.GiBString(1), a.Room.GiBString(1), a.Plan.Changes(q.Job.Batch), a.After.GiBString(1))
	}
	if line := ownOptions(f.Args, sourceOf(f.Args), a.Own); line != "" && q.Uncut {
		f.say("the script's own options would fit: %s: %s GiB.", line, a.Own.Bytes.GiBString(1))
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
