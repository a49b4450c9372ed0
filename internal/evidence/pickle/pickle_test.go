package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// tree is a Builder that keeps everything, for comparing with what Python loads.
type tree struct{ items []any }

func (t *tree) add(k Kind, v any) Value {
	t.items = append(t.items, v)
	return Value{k, uint64(len(t.items) - 1)}
}

func (t *tree) String(b []byte) (Value, error) { return t.add(FirstReference, string(b)), nil }
func (t *tree) Dict() Value                    { return t.add(FirstReference+1, map[string]Value{}) }
func (t *tree) List() Value                    { return t.add(FirstReference+2, &[]Value{}) }
func (t *tree) Tuple(items []Value) (Value, error) {
	return t.add(FirstReference+3, bytes.Clone(nil)), nil
}
func (t *tree) Append(l Value, items []Value) error {
	if l.Kind != FirstReference+2 {
		return errors.New("not a list")
	}
	list := t.items[l.N].(*[]Value)
	*list = append(*list, items...)
	return nil
}

func (t *tree) SetItems(d Value, pairs []Value) error {
	if d.Kind != FirstReference+1 {
		return errors.New("not a dict")
	}
	dict := t.items[d.N].(map[string]Value)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].Kind != FirstReference {
			return errors.New("key is no text")
		}
		dict[t.items[pairs[i].N].(string)] = pairs[i+1]
	}
	return nil
}

func (t *tree) show(v Value) string {
	switch v.Kind {
	case FirstReference:
		return fmt.Sprintf("%q", t.items[v.N])
	case FirstReference + 1:
		d := t.items[v.N].(map[string]Value)
		return fmt.Sprintf("dict of %d", len(d))
	case FirstReference + 2:
		var parts []string
		for _, item := range *t.items[v.N].(*[]Value) {
			parts = append(parts, t.show(item))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case Int:
		return fmt.Sprint(int64(v.N))
	}
	return fmt.Sprintf("kind %d", v.Kind)
}

func TestValuesArriveAsPythonWroteThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, pickle, want string }{
		{"integers of every width", "\x80\x04](K\x01M\x02\x01J\xff\xff\xff\xff\x8a\x05\x00\x00\x00\x00\x01\x8a\x01\xff\x8a\x00e.", "[1 258 -1 4294967296 -1 0]"},
		{"an address above 2^63", "\x80\x04]\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00a.", "[-9223372036854775808]"},
		{"texts short and long", "\x80\x04](\x8c\x02hiX\x05\x00\x00\x00worlde.", `["hi" "world"]`},
		{"memo by position (CPython)", "\x80\x04](\x8c\x01a\x94h\x00e.", `["a" "a"]`},
		{"memo by index (torch)", "\x80\x02](X\x01\x00\x00\x00aq\x00h\x00e.", `["a" "a"]`},
		{"a list in two batches", "\x80\x04](K\x01K\x02e(K\x03e.", "[1 2 3]"},
		{"nested single items", "\x80\x04]]K\x07aa.", "[[7]]"},
		{"frames are skipped", "\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00]K\x01a.", "[1]"},
		{"opcode LIST", "\x80\x02(K\x01K\x02l.", "[1 2]"},
	} {
		b := &tree{}
		v, err := Read(strings.NewReader(c.pickle), b)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := b.show(v); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestNothingThatCouldRunCodeIsRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, pickle, word string }{
		{"GLOBAL", "\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR.", "os.system"},
		{"STACK_GLOBAL", "\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"},
		{"REDUCE", "\x80\x04NNR.", "REDUCE"},
		{"BUILD", "\x80\x04N}b.", "BUILD"},
		{"INST", "\x80\x02(ios\nsystem\n.", "os.system"},
		{"OBJ", "\x80\x02(No.", "OBJ"},
		{"NEWOBJ", "\x80\x02N)\x81.", "NEWOBJ"},
		{"NEWOBJ_EX", "\x80\x04N)}\x92.", "NEWOBJ_EX"},
		{"PERSID", "\x80\x02Pabc\n.", "PERSID"},
		{"BINPERSID", "\x80\x02NQ.", "BINPERSID"},
		{"EXT1", "\x80\x02\x82\x01.", "EXT1"},
		{"NEXT_BUFFER", "\x80\x05\x97.", "NEXT_BUFFER"},
	} {
		_, err := Read(strings.NewReader(c.pickle), &tree{})
		if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), c.word) || !strings.Contains(err.Error(), "byte") {
			t.Errorf("%s: %v; want a refusal that names %q and the offset", c.name, err, c.word)
		}
	}
}

func TestBrokenPicklesAreRefusedWithTheirOffset(t *testing.T) {
	t.Parallel()
	huge := make([]byte, 8)
	binary.LittleEndian.PutUint64(huge, 1<<62)
	for _, c := range []struct{ name, pickle, reason string }{
		{"cut off", "\x80\x04](K\x01", "ends here"},
		{"cut off inside a text", "\x80\x04\x8c\x20abc", "ends here"},
		{"empty", "", "ends here"},
		{"protocol 0", "(lp0\n.", "protocol"},
		{"a huge text", "\x80\x04\x8d" + string(huge) + "x", "4611686018427387904 bytes"},
		{"a 4 GiB text", "\x80\x04X\xff\xff\xff\xffabc", "bytes"},
		{"an unknown memo slot", "\x80\x04h\x05.", "never filled"},
		{"a memo index out of reach", "\x80\x02]r\xff\xff\xff\x7f.", "out of reach"},
		{"an empty stack", "\x80\x04.", "stack"},
		{"a mark that is not there", "\x80\x04]e.", "mark"},
		{"an odd dict", "\x80\x04}(K\x01u.", "odd"},
		{"append to a text", "\x80\x04\x8c\x01aK\x01a.", "not a list"},
		{"reaching below a mark", "\x80\x04](a.", "fewer"},
		{"a value thrown away", "\x80\x04NN0.", "opcode"},
		{"an unknown opcode", "\x80\x04\xff.", "opcode"},
		{"a giant integer", "\x80\x04\x8b\xff\xff\xff\x7f.", "integer"},
	} {
		_, err := Read(strings.NewReader(c.pickle), &tree{})
		var at *Error
		if !errors.As(err, &at) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v; want an error at an offset that says %q", c.name, err, c.reason)
		}
	}
}

// A text whose length the file does not honour must not be allocated for.
func TestPromisedLengthsCostNothing(t *testing.T) {
	t.Parallel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 50 {
		_, err := Read(strings.NewReader("\x80\x04X\x00\x00\x00\x01abc"), &tree{})
		if err == nil {
			t.Fatal("a text of 16 MiB in a file of ten bytes was read")
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 200<<20 {
		t.Errorf("%d bytes were allocated for texts that are not there", grown)
	}
}

// endless repeats a pattern without end: what a bomb looks like once decompressed.
type endless struct {
	head, body []byte
	at         int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if e.at < len(e.head) {
			k := copy(p[n:], e.head[e.at:])
			e.at += k
			n += k
			continue
		}
		n += copy(p[n:], e.body)
	}
	return n, nil
}

func TestBombsEndWithinBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, head, body string }{
		{"values without end", "\x80\x04", "N"},
		{"marks without end", "\x80\x04", "("},
		{"memo slots without end", "\x80\x04N", "\x94"},
	} {
		_, err := Read(&endless{head: []byte(c.head), body: []byte(c.body)}, &tree{})
		var at *Error
		if !errors.As(err, &at) {
			t.Errorf("%s: %v; want a refusal", c.name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"\x80\x04](K\x01M\x02\x01J\xff\xff\xff\xffe.", "\x80\x02}(X\x01\x00\x00\x00aq\x00K\x01u.", "\x80\x04\x8c\x02os\x8c\x06system\x93.",
		"\x80\x05}\x94(\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94]\x94]\x94au.", "\x80\x02(K\x01l.", "\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Read(bytes.NewReader(data), &tree{})
		if err == nil {
			return
		}
		var at *Error
		var unsafe *UnsafeError
		if !errors.As(err, &at) && !errors.As(err, &unsafe) && !errors.Is(err, io.EOF) {
			t.Errorf("error without a position: %v", err)
		}
	})
}
