package main

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/plimsoll/plimsoll/internal/cli"
)

// manual is a man page for every command, and the completions of every shell.
func manual(src source) ([]entry, error) {
	root := cli.Command()
	root.DisableAutoGenTag = true
	root.InitDefaultCompletionCmd()
	files, err := completions(root)
	if err != nil {
		return nil, err
	}
	header := doc.GenManHeader{Title: "PLIMSOLL", Section: "1", Date: &src.Date, Source: "plimsoll " + src.Version, Manual: "Plimsoll"}
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		c.DisableAutoGenTag = true
		name, h := "plimsoll", header
		if c != root {
			name += "-" + c.Name()
		}
		h.Title = name
		var page bytes.Buffer
		if err := doc.GenMan(c, &h, &page); err != nil {
			return nil, fmt.Errorf("man page of %s: %w", name, err)
		}
		files = append(files, entry{"man/man1/" + name + ".1", page.Bytes(), 0o644})
	}
	return files, nil
}

func completions(root *cobra.Command) ([]entry, error) {
	var files []entry
	for _, shell := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"plimsoll.bash", func(w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
		{"_plimsoll", root.GenZshCompletion},
		{"plimsoll.fish", func(w io.Writer) error { return root.GenFishCompletion(w, true) }},
		{"plimsoll.ps1", root.GenPowerShellCompletionWithDesc},
	} {
		var text bytes.Buffer
		if err := shell.write(&text); err != nil {
			return nil, fmt.Errorf("completion %s: %w", shell.name, err)
		}
		files = append(files, entry{"completions/" + shell.name, text.Bytes(), 0o644})
	}
	return files, nil
}
