// Command screenshots takes the pictures in docs/images from the recordings in testdata, so that they stay true.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/plimsoll/plimsoll/browsertests/chromium"
)

// shot is a picture: recordings or what else view is given, the view as its address says, and a screen.
type shot struct {
	name   string
	files  []string
	hash   string
	screen chromium.Screen
}

var (
	desk  = chromium.Screen{Width: 1280, Height: 900}
	night = chromium.Screen{Width: 1280, Height: 900, Dark: true}
	phone = chromium.Screen{Width: 390, Height: 844, Scale: 1.5, Touch: true}
)

const (
	job     = "answers/gpt2-job.json"
	plansOf = "plans of the job" // stands for a file made by plimsoll fit
)

var shots = []shot{
	{"view-oom", []string{"oom-batch"}, "", desk},
	{"view-leak", []string{"leak-loss-list"}, "by=line&tab=table", desk},
	{"view-leak-dark", []string{"leak-loss-list"}, "", night},
	{"view-dataset", []string{"dataset-on-gpu"}, "by=line&tab=table", desk},
	{"view-fragmentation", []string{"alloc-varlen-default-capped"}, "tab=map", chromium.Screen{Width: 1280, Height: 1180}},
	{"view-settings", []string{"alloc-varlen-default-capped"}, "tab=settings&conf=expandable_segments%3ATrue", chromium.Screen{Width: 1280, Height: 1180}},
	{"view-step", []string{"gpt2-accumulate"}, "from=14000&to=28000", desk},
	{"view-exception", []string{"exception-holds"}, "by=line", desk},
	{"view-compare", []string{"mlp-adam", "float64"}, "", chromium.Screen{Width: 1280, Height: 1180}},
	{"view-phone", []string{"leak-loss-list"}, "", phone},
	{"view-prediction", []string{"--job", job, "--gpu", "rtx-4090"}, "", chromium.Screen{Width: 1280, Height: 1180}},
	{"view-plans", []string{plansOf}, "", chromium.Screen{Width: 1280, Height: 1000}},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(only []string) error {
	work, err := os.MkdirTemp("", "plimsoll-screenshots")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binary, err := chromium.Build(work)
	if err != nil {
		return err
	}
	b, err := chromium.Start(filepath.Join(work, "profile"))
	if err != nil {
		return err
	}
	defer b.Close()
	plans := filepath.Join(work, "plans.json")
	if err := chromium.Answer(binary, plans, "fit", "--job", job, "--gpu", "rtx-4090", "--memory", "10GiB", "--json"); err != nil {
		return err
	}
	for _, s := range shots {
		if len(only) > 0 && only[0] != s.name {
			continue
		}
		if err := take(b, binary, plans, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func take(b *chromium.Browser, binary, plans string, s shot) error {
	var files []string
	for _, f := range s.files {
		recording := filepath.Join("..", "testdata", "snapshots", f+".pickle.gz")
		if _, err := os.Stat(recording); err == nil {
			f = recording
		}
		if f == plansOf {
			f = plans
		}
		files = append(files, f)
	}
	server, err := chromium.Serve(binary, files...)
	if err != nil {
		return err
	}
	defer server.Close()
	tab, err := b.Open(server.URL+"#"+s.hash, s.screen)
	if err != nil {
		return err
	}
	defer tab.Close()
	if err := tab.Ready(); err != nil {
		return err
	}
	time.Sleep(400 * time.Millisecond) // until the last frame is drawn
	png, err := chromedp.Run(tab.Ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	small, err := shrink(png)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("..", "docs", "images", s.name+".png"), small, 0o644)
}
