// Package page is the page that plimsoll view shows, and everything it shows.
//
// It takes recordings with their indexes and a report and returns the answers to the page's questions as values for JSON, the page itself with its embedded
// script and style, and the same page as one file that needs nothing else. Names in recordings are data: they reach the page only as
// JSON, and the page's script only as text. It refuses a question it does not know with an error.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html"
	"io"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/viewdata"
	"github.com/plimsoll/plimsoll/internal/units"
)

// The bundle is made of the files in src by scripts/web.sh; a test in tools holds it fresh.
var (
	//go:embed assets/app.js
	script string
	//go:embed assets/app.css
	style string
)

// Script and Style are the bundle.
func Script() string { return script }

// Style is the style sheet of the bundle.
func Style() string { return style }

// Kind says what a page is about; the page's script draws each kind in its own way.
type Kind string

// Kinds of pages.
const (
	Recorded  Kind = "recorded"  // recordings, or only the text of an error
	Compared  Kind = "compared"  // two recordings
	Predicted Kind = "predicted" // what a job will need
	Planned   Kind = "planned"   // ways to run a job
)

// Summary is the answer at the top of the page, and what else is known without asking about an instant.
type Summary struct {
	Kind     Kind   `json:"kind"`
	Headline string `json:"headline"`
	About    int    `json:"about"` // the recording that the headline speaks of
	// Report is that of recordings; pages of other kinds have one of those below instead.
	Report     *report.Explain    `json:"report,omitempty"`
	Diff       *report.Diff       `json:"diff,omitempty"`
	Prediction *report.Prediction `json:"prediction,omitempty"`
	Fit        *report.Fit        `json:"fit,omitempty"`
}

// Recording is one device of one input.
type Recording struct {
	Input string
	Index *viewdata.Index
}

// WhatIf is what the allocator model says of a recording.
type WhatIf struct {
	Replay *report.Replay `json:"replay,omitempty"`
	Refuse string         `json:"refuse,omitempty"` // why there is none
	Event  []int          `json:"event"`            // events that bound the stretches of Curves
	Time   []int64        `json:"time_us"`
	Curves []HeldCurve    `json:"curves"`
}

// HeldCurve is what a setting holds from CUDA in each stretch; -1 after it ran out of memory.
type HeldCurve struct {
	Conf string        `json:"conf"`
	Held []units.Bytes `json:"held"`
}

// WriteServed writes the page for a server that answers questions.
func WriteServed(w io.Writer) error {
	_, err := io.WriteString(w, head("Plimsoll")+
		`<link rel="stylesheet" href="app.css"></head><body><script src="app.js"></script></body></html>`+"\n")
	return err
}

// head opens a page. The icon is a Plimsoll line: a circle and the water.
func head(title string) string {
	return `<!doctype html><html lang="en"><head><meta charset="utf-8">` +
		`<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">` +
		`<meta name="referrer" content="no-referrer"><title>` + html.EscapeString(title) + `</title>` +
		`<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='%230072B2' stroke-width='2.4'%3E%3Ccircle cx='12' cy='12' r='7'/%3E%3Cpath d='M1 12h22'/%3E%3C/svg%3E">`
}

// ServedPolicy is the content-security policy of the served page: its own script, style and answers, nothing else.
const ServedPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// filePolicy is that of the page in one file: the script and the style in it, by their hashes.
func filePolicy() string {
	return "default-src 'none'; script-src '" + hash(script) + "'; style-src '" + hash(style) + "'; img-src data:; base-uri 'none'; form-action 'none'"
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// title names the inputs, or the job.
func title(s Summary) string {
	switch {
	case s.Prediction != nil:
		return s.Prediction.Title + " — Plimsoll"
	case s.Fit != nil:
		return s.Fit.Title + " — Plimsoll"
	}
	names := []string{}
	for i, in := range s.Report.Inputs {
		if i == 3 {
			names = append(names, "…")
			break
		}
		names = append(names, in.Name[strings.LastIndexAny(in.Name, `/\`)+1:])
	}
	return strings.Join(names, ", ") + " — Plimsoll"
}
