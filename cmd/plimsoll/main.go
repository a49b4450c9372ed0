// Command plimsoll tells people who train with PyTorch whether a job fits on a GPU, why it ran out of
// memory, and how to make it fit.
package main

import (
	"context"
	"os"

	"github.com/plimsoll/plimsoll/internal/cli"
)

func main() { os.Exit(cli.Run(context.Background(), cli.OS(), os.Args[1:])) }
