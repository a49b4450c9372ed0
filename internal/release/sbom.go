package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"
)

// cycloneDX is the version of the format.
const cycloneDX = 1.6

// The bill of materials is in the CycloneDX format (cyclonedx.org/docs/1.6/json), read from what Go writes into the binary itself.
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   bomMetadata `json:"metadata"`
	Components []component `json:"components"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []bomHash  `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// billOfMaterials lists every module that is in a binary, and the Go it was built with.
func billOfMaterials(src source, p platform, binary []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("read what is in the binary: %w", err)
	}
	sum := sha256.Sum256(binary)
	main := module("application", "github.com/plimsoll/plimsoll", "v"+src.Version)
	main.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(sum[:])}}
	main.Properties = []property{{"platform", p.Name()}, {"commit", src.Commit}}
	b := bom{Format: "CycloneDX", Spec: fmt.Sprint(cycloneDX), Version: 1, Metadata: bomMetadata{src.Date.Format(time.RFC3339), main}}
	b.Components = append(b.Components, module("library", "stdlib", info.GoVersion))
	for _, d := range info.Deps {
		b.Components = append(b.Components, dependency(d))
	}
	return json.MarshalIndent(b, "", " ")
}

func dependency(d *debug.Module) component {
	if d.Replace != nil {
		d = d.Replace
	}
	c := module("library", d.Path, d.Version)
	if d.Sum != "" {
		c.Properties = []property{{"go.sum", d.Sum}}
	}
	return c
}

// module names a Go module by its package URL (github.com/package-url/purl-spec).
func module(kind, name, version string) component {
	purl := "pkg:golang/" + name + "@" + version
	return component{Type: kind, Ref: purl, Name: name, Version: version, PURL: purl}
}
