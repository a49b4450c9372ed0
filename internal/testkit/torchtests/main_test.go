package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

func TestTestsThatReachPyTorchAreFound(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "x_test.go", `package x
func TestDirect(t *testing.T) { python := probetest.Warm(t); _ = python }
func TestThroughAHelper(t *testing.T) { runs{}.start(t) }
func (r runs) start(t *testing.T) { begin(t) }
func begin(t *testing.T) { probetest.Python(t) }
func TestOfGoAlone(t *testing.T) { begins(t) }
func begins(t *testing.T) {}
`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := reaching([]*ast.File{file}), []string{"TestDirect", "TestThroughAHelper"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestThePackagesOfThisRepositoryAreFound(t *testing.T) {
	t.Parallel()
	found, err := list("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for folder, test := range map[string]string{"cli": "TestCheckpointedBlocksGiveTheSameGradients", "script/capture": "TestSecondBackwardPassesAreFollowed", "script/probe": "TestEveryProgramsHolderIsNamed"} {
		if !slices.Contains(found["../../../internal/"+folder], test) {
			t.Errorf("%s: %s is not among %v", folder, test, found["../../../internal/"+folder])
		}
	}
}
