package lintout

import (
	"io"
	"net/url"
	"path/filepath"
	"unicode/utf8"

	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// The part of SARIF 2.1.0 that code scanning reads.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool       sarifTool     `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID               string      `json:"id"`
	Name             string      `json:"name"`
	ShortDescription sarifText   `json:"shortDescription"`
	Help             sarifText   `json:"help"`
	Configuration    sarifConfig `json:"defaultConfiguration"`
}

type sarifConfig struct {
	Level lint.Severity `json:"level"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     lint.Severity   `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
	EndLine     int `json:"endLine,omitempty"`
	EndColumn   int `json:"endColumn,omitempty"`
}

// SARIF writes the findings as a SARIF 2.1.0 log.
func SARIF(w io.Writer, s Summary, version string) error {
	driver := sarifDriver{Name: "plimsoll", Version: version, Rules: []sarifRule{}}
	index := map[string]int{}
	add := func(id, name, summary, help string, level lint.Severity) {
		index[id] = len(driver.Rules)
		driver.Rules = append(driver.Rules, sarifRule{id, name, sarifText{summary}, sarifText{help}, sarifConfig{level}})
	}
	for _, r := range lint.AllRules() {
		add(r.ID, r.Name, r.Summary, lint.Page(r.ID), r.Severity)
	}
	results := make([]sarifResult, 0, len(s.Findings))
	for _, f := range s.Findings {
		region := sarifRegion{f.Line, column(f.Source, f.Column), f.EndLine, 0}
		if f.EndLine == f.Line {
			region.EndColumn = max(column(f.Source, f.EndColumn), region.StartColumn)
		}
		if f.Cell > 0 { // the file is JSON: its line can be named, the column within a string of it means nothing
			region = sarifRegion{StartLine: f.FileLine}
		}
		results = append(results, sarifResult{f.Rule, index[f.Rule], f.Severity, sarifText{inCell(f) + f.Message + " Fix: " + f.Fix},
			[]sarifLocation{{sarifPhysical{sarifArtifact{uri(f.File)}, region}}}})
	}
	return encode(w, sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0",
		[]sarifRun{{sarifTool{driver}, "unicodeCodePoints", results}}})
}

// uri writes a path as a URI reference: spaces and the like escaped.
func uri(path string) string {
	return (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
}

// column counts characters where the finding counts bytes.
func column(line string, bytes int) int {
	return utf8.RuneCountInString(line[:min(max(bytes-1, 0), len(line))]) + 1
}
