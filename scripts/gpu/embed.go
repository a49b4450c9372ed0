// Package gpu holds the scripts that measure a card.
//
// It takes nothing and returns the text of workspaces.py, which plimsoll doctor --measure-workspaces runs with the user's Python. The other
// scripts of this folder are for people who develop Plimsoll. Nothing is refused.
package gpu

import _ "embed"

// Workspaces measures what cuDNN takes on a card.
//
//go:embed workspaces.py
var Workspaces []byte
