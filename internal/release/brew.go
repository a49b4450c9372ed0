package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// brew is the text of a Homebrew formula (docs.brew.sh/Formula-Cookbook).
type brew string

const formulaHead = `class Plimsoll < Formula
  desc "Why a PyTorch job ran out of GPU memory, whether one fits, how to make it fit"
  homepage "https://github.com/plimsoll/plimsoll"
  version "%s"
  license "Apache-2.0"

`

const formulaTail = `  def install
    bin.install "plimsoll"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/plimsoll.bash" => "plimsoll"
    zsh_completion.install "completions/_plimsoll"
    fish_completion.install "completions/plimsoll.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/plimsoll version")
    output = pipe_output("#{bin}/plimsoll explain -", "CUDA out of memory. Tried to allocate 2.00 GiB", 3)
    assert_match "2.00 GiB", output
  end
end
`

// formula writes the formula for the archives whose sums are given.
func formula(src source, sums map[string]string) brew {
	var b strings.Builder
	fmt.Fprintf(&b, formulaHead, src.Version)
	for _, p := range platforms {
		name := fmt.Sprintf("plimsoll-%s-%s%s", src.Version, p.Label(), p.ArchiveEnding())
		system, cpu, offered := strings.Cut(p.Brew, " ")
		if !offered || sums[name] == "" {
			continue
		}
		fmt.Fprintf(&b, "  %s do\n    %s do\n      url \"https://github.com/plimsoll/plimsoll/releases/download/v%s/%s\"\n      sha256 \"%s\"\n    end\n  end\n\n",
			system, cpu, src.Version, name, sums[name])
	}
	return brew(b.String() + formulaTail)
}

func (b brew) write(out string) error {
	return os.WriteFile(filepath.Join(out, "plimsoll.rb"), []byte(b), 0o644)
}
