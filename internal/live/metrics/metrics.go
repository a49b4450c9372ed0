// Package metrics serves what watching finds out to Prometheus.
//
// It takes sample.Views and returns a page in the Prometheus and OpenMetrics formats: base units, one series a card or process, series of
// vanished processes gone with them, failures of reading visible as such. The server is read-only, answers GET and HEAD on two
// paths, and bounds what a client may cost: header size, time, connections. It refuses requests under a foreign host name when it
// listens on loopback only.
package metrics

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll/plimsoll/internal/live/watch"
)

// Options of the collector.
type Options struct {
	Version string
	// HideCommands leaves command and user out of the labels.
	HideCommands bool
	// StaleAfter is the age at which the last reading no longer counts as the present.
	StaleAfter time.Duration
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Collector keeps the latest view and describes it at every scrape. It is safe for concurrent use.
type Collector struct {
	options Options
	mu      sync.RWMutex
	view    watch.View
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector gives a collector that has seen nothing yet.
func NewCollector(o Options) *Collector {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Collector{options: o}
}

// Show makes a view the latest.
func (c *Collector) Show(v watch.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view = v
}

// Describe announces the metrics.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range Table {
		out <- m.desc
	}
}

// Collect gives the latest view. A failed reading shows at once as plimsoll_up 0; the numbers before it stay until they are stale, so that a
// hiccup does not reset every alert, and then vanish: a card that cannot be read must not look idle.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.mu.RLock()
	v := c.view
	c.mu.RUnlock()
	fresh := v.Readings > 0 && c.options.Now().Sub(v.Time) <= c.options.StaleAfter
	send(out, buildInfo, 1, c.options.Version)
	send(out, up, truth(fresh && v.Error == ""))
	send(out, readings, float64(v.Readings))
	send(out, readErrors, float64(v.Failures))
	if v.Readings > 0 {
		send(out, lastReading, float64(v.Time.UnixMilli())/1000)
	}
	if !fresh {
		return
	}
	for _, card := range v.Cards {
		c.collectCard(out, v, card)
		for _, p := range card.Processes {
			c.collectProcess(out, card, p)
		}
	}
}

func (c *Collector) collectCard(out chan<- prometheus.Metric, v watch.View, card watch.CardView) {
	instance := ""
	if card.Instance >= 0 {
		instance = strconv.Itoa(card.Instance)
	}
	gpu := strconv.Itoa(card.Index)
	send(out, cardInfo, 1, card.ID, gpu, instance, card.Name, v.Driver)
	send(out, cardSize, float64(card.Total), card.ID, gpu)
	send(out, cardUsed, float64(card.Used), card.ID, gpu)
	send(out, cardFree, float64(card.Free), card.ID, gpu)
	send(out, cardReserved, float64(card.Reserved), card.ID, gpu)
	send(out, cardPeak, float64(card.Peak), card.ID, gpu)
	send(out, cardProcesses, float64(len(card.Processes)), card.ID, gpu)
	if card.Unattributed >= 0 {
		send(out, cardUnattributed, float64(card.Unattributed), card.ID, gpu)
	}
	if card.Utilization >= 0 {
		send(out, cardUtilization, float64(card.Utilization)/100, card.ID, gpu)
	}
	send(out, cardGrowth, card.Growth, card.ID, gpu)
	if card.Growth > 0 {
		send(out, cardExhaustion, card.TimeLeft.Seconds(), card.ID, gpu)
	}
	var orphaned float64
	for _, o := range card.Orphans {
		orphaned += float64(o.Bytes)
	}
	send(out, cardOrphaned, orphaned, card.ID, gpu)
}

func (c *Collector) collectProcess(out chan<- prometheus.Metric, card watch.CardView, p watch.ProcessView) {
	pid, rank := strconv.Itoa(p.PID), ""
	if p.Who.Rank >= 0 {
		rank = strconv.Itoa(p.Who.Rank)
	}
	who := p.Who
	if c.options.HideCommands {
		who.Command, who.User = "", ""
	}
	send(out, processInfo, 1, card.ID, pid, clean(who.Command), clean(who.User), who.Container, who.Pod, who.Job, rank, strconv.FormatBool(p.Training()))
	if p.Known {
		send(out, processUsed, float64(p.Bytes), card.ID, pid)
		send(out, processPeak, float64(p.Peak), card.ID, pid)
		send(out, processGrowth, p.Trend.Slope, card.ID, pid)
	}
	if p.Trend.Steady {
		send(out, processConfidence, p.Trend.Confidence, card.ID, pid)
	}
	if t := p.Torch; t != nil {
		send(out, torchAllocated, float64(t.Allocated), card.ID, pid)
		send(out, torchReserved, float64(t.Reserved), card.ID, pid)
		send(out, torchPeak, float64(t.PeakAllocated), card.ID, pid)
		send(out, torchStep, float64(t.Step), card.ID, pid)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
