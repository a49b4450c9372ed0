package cli

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestReadingAheadGivesTheSameBytesAndTheSameError(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, aheadSize - 1, aheadSize, aheadSize + 1, 9*aheadSize + 17} {
		want := bytes.Repeat([]byte("plimsoll"), n/8+1)[:n]
		a := readAhead(bytes.NewReader(want))
		if got, err := io.ReadAll(a); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d came back, error %v", n, len(got), err)
		}
		a.Close()
		broken := errors.New("the disk is gone")
		b := readAhead(io.MultiReader(bytes.NewReader(want), iotest.ErrReader(broken)))
		if got, err := io.ReadAll(b); !errors.Is(err, broken) || !bytes.Equal(got, want) {
			t.Errorf("%d bytes and a failure: %d came back, error %v", n, len(got), err)
		}
		b.Close()
	}
	endless := readAhead(endlessReader{})
	if _, err := io.ReadFull(endless, make([]byte, 3*aheadSize)); err != nil {
		t.Error(err)
	}
	endless.Close()
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }
