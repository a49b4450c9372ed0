package oomtext

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
)

func TestALongLogGivesItsMessagesWithTheirPlaces(t *testing.T) {
	t.Parallel()
	quiet := string(quietLog(20_000))
	message := trace("train.py:41:<module>:loss.backward()") + oom
	text := quiet + message + quiet + strings.Replace(message, "64.00", "96.00", 1) + quiet
	log, err := Read(strings.NewReader(text))
	if err != nil || len(log.Messages) != 2 {
		t.Fatalf("%d messages, %v", len(log.Messages), err)
	}
	if log.Bytes != int64(len(text)) || log.Lines != strings.Count(text, "\n") {
		t.Errorf("%d bytes, %d lines", log.Bytes, log.Lines)
	}
	for i, m := range log.Messages {
		rest := text[m.Offset:]
		if !strings.HasPrefix(rest, "torch.OutOfMemoryError") || m.Line != strings.Count(text[:m.Offset], "\n")+1 {
			t.Errorf("message %d at line %d, offset %d: %.40q", i, m.Line, m.Offset, rest)
		}
		if len(m.Tracebacks) != 1 {
			t.Errorf("message %d has %d tracebacks", i, len(m.Tracebacks))
		}
	}
}

func TestTheSizeOfReadsDoesNotMatter(t *testing.T) {
	t.Parallel()
	text := string(quietLog(300)) + "[rank1]: " + v2("capacity", "GPU 1", "") + "\r\n" + string(quietLog(300)) + "RuntimeError: CUDA error: out of memory"
	whole, err := Read(strings.NewReader(text))
	if err != nil || len(whole.Messages) != 2 || whole.Messages[0].Rank != 1 {
		t.Fatalf("%+v %v", whole.Messages, err)
	}
	bytewise, err := Read(iotest.OneByteReader(strings.NewReader(text)))
	if err != nil || fmt.Sprint(bytewise) != fmt.Sprint(whole) {
		t.Errorf("byte by byte: %+v %v", bytewise, err)
	}
}

func TestARepeatedMessageIsCountedOnce(t *testing.T) {
	t.Parallel()
	messages := read(t, strings.Repeat("step skipped: "+oom, 400))
	if len(messages) != 1 || messages[0].Repeats != 399 {
		t.Fatalf("%d messages, repeats %d", len(messages), messages[0].Repeats)
	}
}

func TestALoggerThatPrintsTheMessageFirstGivesItsTracebackToIt(t *testing.T) {
	t.Parallel()
	messages := read(t, "ERROR - "+oom+trace("train.py:41:<module>:loss.backward()")+oom)
	if len(messages) != 1 || len(messages[0].Tracebacks) != 1 {
		t.Errorf("%+v", messages)
	}
}

func TestAFloodOfMessagesIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 3 * MaxMessages {
		fmt.Fprintf(&b, "RuntimeError: CUDA out of memory. Tried to allocate %d.00 MiB\n", i)
	}
	log, err := Read(strings.NewReader(b.String()))
	if err != nil || len(log.Messages) != MaxMessages || log.Dropped != 2*MaxMessages {
		t.Errorf("%d kept, %d dropped, %v", len(log.Messages), log.Dropped, err)
	}
}

// endless repeats a text up to a number of bytes.
type endless struct {
	text []byte
	left int
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), e.left)], e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	e.left -= n
	return n, nil
}

func TestMemoryStaysBoundedWhateverComes(t *testing.T) {
	t.Parallel()
	var speakers bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&speakers, "[rank%d]: out of memory killed exitcode: -9\n[rank%d]: a\n", i, i)
	}
	for name, text := range map[string][]byte{
		"a quiet log":       quietLog(1000),
		"one endless line":  []byte("no end in sight "),
		"triggers all over": []byte("killed out of memory tried to allocate "),
		"empty lines":       []byte("\n"),
		"tiny lines":        []byte("k\nCUDA out of memory\nx\n"),
		"many speakers":     speakers.Bytes(),
		"escapes":           []byte("\x1b[31"),
		"NULs":              {0},
	} {
		r := newReader()
		if _, err := r.read(&endless{text: text, left: 1 << 20}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range r.order {
			if cap(w.text) > 4*(2*keep+maxWait+maxLine) || cap(w.lines) > 4*maxLines {
				t.Errorf("%s: a window grew to %d bytes, %d lines", name, cap(w.text), cap(w.lines))
			}
		}
		if len(r.order) > maxSpeakers+1 {
			t.Errorf("%s: %d windows", name, len(r.order))
		}
	}
}

func TestAReaderThatFailsIsReportedWithWhatWasRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	log, err := Read(io.MultiReader(strings.NewReader(oom), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || len(log.Messages) != 1 {
		t.Errorf("%d messages, %v", len(log.Messages), err)
	}
}

func TestUnnamedLinesBelongToNobody(t *testing.T) {
	t.Parallel()
	messages := read(t, "[rank2]: all well\nplain line\nanother\n"+oom)
	if len(messages) != 1 || messages[0].Rank != -1 {
		t.Errorf("%+v", messages)
	}
}

func TestALogFromPowerShellIsRead(t *testing.T) {
	t.Parallel()
	text := "Früh am Tag\r\n" + trace("train.py:41:<module>:loss.backward()") + v2("capacity", "GPU 1", "") + "\r\n"
	plain := read(t, text)
	for name, order := range map[string]binary.AppendByteOrder{"\xff\xfe": binary.LittleEndian, "\xfe\xff": binary.BigEndian} {
		data := []byte(name)
		for _, c := range utf16.Encode([]rune(text)) {
			data = order.AppendUint16(data, c)
		}
		if got := read(t, string(data)); len(got) != 1 || fmt.Sprint(got) != fmt.Sprint(plain) {
			t.Errorf("%q: %+v\nwant %+v", name, got, plain)
		}
	}
}
