package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTheCommittedBundleIsFresh(t *testing.T) {
	t.Chdir("..")
	files, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(assets, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what its sources make: run make web", name)
		}
	}
}
