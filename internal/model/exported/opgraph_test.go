package exported

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// graphs are torch.export graphs of torchvision, transformers and small models (PyTorch 2.11, batch symbolic, no weights).
func graphs(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.json.gz")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no graphs: %v", err)
	}
	all := map[string][]byte{}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(p), ".json.gz")] = data
	}
	return all
}

func unzip(t testing.TB, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func batch(n int64) func(Symbol) (int64, error) {
	return func(Symbol) (int64, error) { return n, nil }
}

func TestEveryRealGraphReadsAndBinds(t *testing.T) {
	t.Parallel()
	for name, data := range graphs(t) {
		g, err := Parse(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(g.Nodes) == 0 || len(g.Outputs) == 0 || len(g.Symbols) == 0 {
			t.Errorf("%s: %d nodes, %d outputs, %d symbols", name, len(g.Nodes), len(g.Outputs), len(g.Symbols))
		}
		for _, s := range g.Symbols {
			if s.Input < 0 {
				t.Errorf("%s: symbol %s belongs to no input", name, s.Name)
			}
		}
		if _, err := g.Bind(batch(8)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAConvolutionIsReadWithAllItHas(t *testing.T) {
	t.Parallel()
	g, err := Parse(graphs(t)["seed-cnn"])
	if err != nil {
		t.Fatal(err)
	}
	b, err := g.Bind(batch(64))
	if err != nil {
		t.Fatal(err)
	}
	n := &b.Nodes[1]
	if n.Target != "aten.conv2d.default" || b.Int(n, "stride", 0) != 1 || len(b.Ints(n, "padding")) != 2 {
		t.Fatalf("node %+v", n)
	}
	if w := b.Values[n.Tensor("weight")]; w.FQN != "conv1.weight" || w.Role != Parameter || w.DType != Float32 {
		t.Errorf("weight %+v", w)
	}
	if got := b.Dims(b.Values[n.Outputs[0]].Sizes); got[0] != 64 || got[1] != 16 {
		t.Errorf("output sizes %v", got)
	}
	if m := b.Stacks[n.Stack]; len(m) != 2 || m[1].Path != "conv1" || m[1].Class != "torch.nn.modules.conv.Conv2d" {
		t.Errorf("modules %v", m)
	}
	if n.Source.Line != 553 || !strings.HasSuffix(n.Source.File, "conv.py") || !strings.Contains(n.Source.Code, "_conv_forward") {
		t.Errorf("source %+v", n.Source)
	}
}

func TestARegionWithoutGradientsIsPartOfTheProgram(t *testing.T) {
	t.Parallel()
	g, err := Parse(graphs(t)["llama-1b"])
	if err != nil {
		t.Fatal(err)
	}
	inside := 0
	for _, n := range g.Nodes {
		if n.NoGrad {
			inside++
		}
		if strings.HasPrefix(n.Target, "higher_order") {
			t.Errorf("%s was not inlined", n.Target)
		}
	}
	if inside < 10 || g.Outputs[0].Name != "loss" || g.Outputs[1].Name != "logits" {
		t.Errorf("%d operators without gradients, outputs %v", inside, g.Outputs)
	}
}

func TestAnArchiveGivesTheSameGraphAsItsText(t *testing.T) {
	t.Parallel()
	text := unzip(t, graphs(t)["seed-mlp"])
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for _, name := range []string{"model/data/weights/weight_0", "model/models/model.json"} {
		w, _ := z.Create(name)
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	z.Close()
	a, err := Parse(archive.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	b, err := Parse(text)
	if err != nil || len(a.Nodes) != len(b.Nodes) || len(a.Values) != len(b.Values) {
		t.Errorf("archive and text differ: %v", err)
	}
}

func TestExpressionsOfBothSpellingsAreComputed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"Symbol('s72', positive=True, integer=True)":                                       7,
		"Mul(Integer(512), Symbol('s72', positive=True, integer=True))":                    3584,
		"Min(Integer(768), Mul(Integer(768), Symbol('s72', positive=True, integer=True)))": 768,
		"Add(Integer(-1), Symbol('s72', integer=True))":                                    6,
		"512*s72": 3584, "s72 + 1": 8, "(s72 - 1)//2": 3, "2*(s72**2)": 98, "-s72": -7,
		"FloorDiv(Add(Symbol('s72'), Integer(1)), Integer(2))": 4, "Mod(s72, 4)": 3, "CeilDiv(s72, 2)": 4, "Max(s72, 9)": 9,
	} {
		e, err := parseExpr(text, func(string) int { return 0 })
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.value([]int64{7}); err != nil || got != want {
			t.Errorf("%s = %d, want %d (%v)", text, got, want, err)
		}
	}
	for _, bad := range []string{"", "Mul(", "Sin(s0)", "Symbol(", "s0 s1", strings.Repeat("(", 99), "Mul()", "FloorDiv(1)", strings.Repeat("-", 99) + "1"} {
		if _, err := parseExpr(bad, func(string) int { return 0 }); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

const head = `{"graph_module":{"graph":{"inputs":[{"as_tensor":{"name":"x"}}],"outputs":[{"as_tensor":{"name":"y"}}],"nodes":[`
const relu = `{"target":"torch.ops.aten.relu.default","inputs":[{"name":"self","arg":{"as_tensor":{"name":"IN"}}}],"outputs":[{"as_tensor":{"name":"OUT"}}],"metadata":{}}`

func program(nodes string) string {
	meta := `{"dtype":7,"sizes":[{"as_int":2}],"strides":[{"as_int":1}],"requires_grad":false}`
	return head + nodes + `],"tensor_values":{"x":` + meta + `,"y":` + meta + `,"z":` + meta + `}},"signature":{"input_specs":[{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],"output_specs":[]}}}`
}

func node(in, out string) string {
	return strings.NewReplacer("IN", in, "OUT", out).Replace(relu)
}

func TestFilesThatAreNoGraphsAreRefusedClearly(t *testing.T) {
	t.Parallel()
	if _, err := Parse([]byte(program(node("x", "y")))); err != nil {
		t.Fatalf("the smallest program: %v", err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":           {"", "neither"},
		"text":            {"hello", "neither"},
		"another object":  {`{"a":1}`, "graph_module"},
		"cut off":         {program(node("x", "y"))[:200], "unterminated string"},
		"a cycle":         {program(node("z", "y") + "," + node("y", "z")), "before it is produced"},
		"a missing value": {program(node("w", "y")), "before it is produced"},
		"no output":       {program(node("x", "z")), "never produced"},
		"undescribed":     {program(node("x", "w") + "," + node("w", "y")), "never defined"},
		"a zip":           {"PK\x03\x04 and nothing else", "zip"},
		"deep":            {`{"graph_module":` + strings.Repeat("[", 5000), "expected"},
		"deeper":          {`{"x":` + strings.Repeat("[", 5000), "nested"},
	} {
		_, err := Parse([]byte(c.text))
		if !errors.Is(err, ErrNotGraph) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSizesBeyondAnyTensorAreRefused(t *testing.T) {
	t.Parallel()
	g, err := Parse(graphs(t)["seed-mlp"])
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{0, -1, 1 << 50} {
		if _, err := g.Bind(batch(n)); err == nil {
			t.Errorf("batch %d was accepted", n)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(program(node("x", "y"))))
	f.Add([]byte(program(node("z", "y"))))
	f.Add(unzip(f, graphs(f)["seed-simple"]))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := Parse(data)
		if err != nil {
			return
		}
		if b, err := g.Bind(batch(3)); err == nil {
			for i := range b.Nodes {
				for _, a := range b.Nodes[i].Args {
					b.Dims(a.Ints)
				}
			}
		}
	})
}

func TestAPackedGraphIsTheGraph(t *testing.T) {
	t.Parallel()
	for name, data := range graphs(t) {
		want, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Nodes {
			want.Nodes[i].Source = Source{} // left out
		}
		packed, err := Pack(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Unpack(packed)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: another graph comes back (%v)", name, err)
		}
		packed[len(packed)/2] ^= 1
		if _, err := Unpack(packed); !errors.Is(err, ErrNotGraph) {
			t.Errorf("%s, damaged: %v", name, err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	for _, name := range []string{"seed-simple", "seed-mlp"} {
		g, err := Parse(graphs(f)[name])
		if err != nil {
			f.Fatal(err)
		}
		packed, err := Pack(g)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed[len(packedMagic)+4:])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := binary.LittleEndian.AppendUint32([]byte(packedMagic), crc32.ChecksumIEEE(data))
		g, err := Unpack(append(whole, data...))
		if err != nil {
			return
		}
		g.Depth()
		_, _ = g.Bind(batch(3)) // sizes that are refused are refused
	})
}

func BenchmarkParse(b *testing.B) {
	all := graphs(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, data := range all {
			if _, err := Parse(data); err != nil {
				b.Fatal(err)
			}
		}
	}
}
