package snapshot

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

const smallest = `{"segments":[],"device_traces":[[{"action":"alloc","addr":512,"size":512}]]}`

func TestEveryErrorHasAKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, input string
		kind        error
	}{
		{"nothing", "", ErrFormat},
		{"text", "hello world", ErrFormat},
		{"a checkpoint", "PK\x03\x04rest", ErrFormat},
		{"other JSON", `{"a": 1}`, ErrFormat},
		{"JSON that is not", `{"segments": nonsense}`, ErrFormat},
		{"a list of numbers", "\x80\x04](K\x01e.", ErrFormat},
		{"a dict of numbers", "\x80\x04}\x8c\x01aK\x01s.", ErrFormat},
		{"a broken pickle", "\x80\x04]e.", ErrFormat},
		{"a page without data", "<!DOCTYPE html><html></html>", ErrFormat},
		{"damaged gzip", "\x1f\x8b\x00\x00\x00\x00\x00\x00\x00\x00\x00", ErrFormat},
		{"cut JSON", `{"segments": [{"address": 1`, ErrTruncated},
		{"a cut pickle", "\x80\x04](K\x01", ErrTruncated},
		{"a pickle that calls", "\x80\x04cos\nsystem\n.", ErrUnsafe},
	} {
		_, err := Read(strings.NewReader(c.input))
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v is not %v", c.name, err, c.kind)
		}
		for _, other := range []error{ErrFormat, ErrTruncated, ErrUnsafe, ErrTooLarge} {
			if other != c.kind && errors.Is(err, other) {
				t.Errorf("%s: %v is also %v", c.name, err, other)
			}
		}
	}
}

func TestARefusedOpcodeIsNamedWithoutItsEscapeSequences(t *testing.T) {
	t.Parallel()
	_, err := Read(strings.NewReader("\x80\x04c\x1b]0;owned\x07os\n\u202esystem\n."))
	var unsafe *UnsafeError
	if !errors.As(err, &unsafe) || unsafe.Opcode != "GLOBAL" || unsafe.Offset != 2 {
		t.Fatalf("%v", err)
	}
	if strings.ContainsAny(err.Error(), "\x1b\x07\u202e") {
		t.Errorf("%q reaches the terminal", err.Error())
	}
}

func TestFieldsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := Read(strings.NewReader(smallest)); err != nil {
		t.Fatal(err)
	}
	for name, input := range map[string]string{
		"an alloc of no size":      `{"segments":[],"device_traces":[[{"action":"alloc"}]]}`,
		"a negative size":          strings.Replace(smallest, `"size":512`, `"size":-1`, 1),
		"a size of null":           strings.Replace(smallest, `"size":512`, `"size":null`, 1),
		"a size of text":           strings.Replace(smallest, `"size":512`, `"size":"big"`, 1),
		"a size beyond any card":   strings.Replace(smallest, `"size":512`, `"size":9223372036854775807`, 1),
		"a device beyond any host": `{"segments":[{"address":1,"total_size":512,"device":9000000000000000000}]}`,
		"a negative device":        `{"segments":[{"address":1,"total_size":512,"device":-1}]}`,
		"a negative block":         `{"segments":[{"address":1,"total_size":512,"blocks":[{"size":-512,"state":"inactive"}]}]}`,
		"empty events":             `{"segments":[],"device_traces":[[{},{},{}]]}`,
	} {
		if _, err := Read(strings.NewReader(input)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAHistoryWithoutStreamsHasTheDefaultOne(t *testing.T) {
	t.Parallel()
	s, err := Read(strings.NewReader(smallest))
	if err != nil {
		t.Fatal(err)
	}
	if tr := &s.Traces[0]; tr.Streams[tr.Stream[0]] != 0 {
		t.Errorf("%+v", tr)
	}
}

func TestAListOfEventsBelongsToOneDevice(t *testing.T) {
	t.Parallel()
	event := "}(\x8c\x06action\x8c\x05alloc\x8c\x04sizeM\x00\x02u"
	shared := "\x80\x04}\x8c\x0ddevice_traces](](" + event + "e\x94" + strings.Repeat("h\x00", 300) + "es."
	if _, err := Read(strings.NewReader(shared)); !errors.Is(err, ErrFormat) {
		t.Errorf("%v", err)
	}
}

// Endless events in little compressed data end early, with less memory than a large snapshot takes.
func TestDecompressionBombsAreRefused(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty events": "{},",
		"events":       `{"action":"alloc","addr":1,"size":512},`,
	} {
		var packed bytes.Buffer
		w, err := zstd.NewWriter(&packed)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, `{"device_traces":[[`)
		chunk := []byte(strings.Repeat(body, 1<<20/len(body)))
		for range 40 {
			w.Write(chunk)
		}
		w.Close()
		if _, err := Read(&packed); !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFileThatNeedsMoreMemoryThanAllowedIsRefused(t *testing.T) {
	t.Parallel()
	events := strings.Repeat(`{"action":"alloc","addr":1,"size":512},`, 3000)
	input := `{"device_traces":[[` + strings.TrimSuffix(events, ",") + `]]}`
	if _, err := (Limits{Memory: 100 << 10}).Read(strings.NewReader(input)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	if _, err := Read(strings.NewReader(input)); err != nil {
		t.Error(err)
	}
}
