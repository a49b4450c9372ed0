package pysource_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/testkit/goldentest"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// The .tree file was written by CPython 3.11 itself (testdata/dump.py).
func TestTheTreeIsTheOneCPythonBuilds(t *testing.T) {
	t.Parallel()
	f := pysource.Parse(read(t, "grammar.py"))
	for _, e := range f.Errors {
		t.Errorf("line %d: %s", f.Position(e.Start).Line, e.Message)
	}
	got, want := strings.Split(dump(f), "\n"), strings.Split(string(read(t, "grammar.tree")), "\n")
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("statement %d\n got %s\nwant %s", i+1, got[min(i, len(got)-1)], want[i])
		}
	}
}

func TestNewerGrammarIsRead(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"type Pair[T: int, *Ts] = tuple[T, *Ts]",
		"def f[T](x: T) -> T: return x",
		"class Box[T = int](Base): pass",
		`f"{names["key"]} {f"{f'{1}'}"}"`,
		"f'''{\n x\n}'''",
		`t"template {value!r:>{width}}"`,
		"try: pass\nexcept A, B: pass",
		"x = [*a for a in b]",
	} {
		if f := pysource.Parse([]byte(src)); len(f.Errors) > 0 {
			t.Errorf("%s: %s", src, f.Errors[0].Message)
		}
	}
}

func TestABrokenLineCostsOnlyItself(t *testing.T) {
	t.Parallel()
	f := pysource.Parse(read(t, "broken.py"))
	var b strings.Builder
	for _, e := range f.Errors {
		p := f.Position(e.Start)
		fmt.Fprintf(&b, "%d:%d %s\n", p.Line, p.Column, e.Message)
	}
	b.WriteString("\n" + dump(f))
	goldentest.Check(t, filepath.Join("testdata", "broken.tree"), []byte(b.String()))
}

func TestNestingWithoutEndIsCutOff(t *testing.T) {
	t.Parallel()
	const n = 100_000
	for name, src := range map[string]string{
		"brackets": strings.Repeat("(", n),
		"unary":    strings.Repeat("-", n) + "x",
		"not":      strings.Repeat("not ", n) + "x",
		"power":    strings.Repeat("x**", n) + "x",
		"chain":    strings.Repeat("x.y().", n) + "x",
		"sum":      strings.Repeat("x+", n) + "x",
		"lambda":   strings.Repeat("lambda: ", n) + "x",
		"ternary":  strings.Repeat("a if b else ", n) + "x",
		"strings":  strings.Repeat("f'{", n),
		"quotes":   strings.Repeat(`f"{f'{`, n),
		"triples":  strings.Repeat(`f"""{`, n) + strings.Repeat("x'", n),
		"dicts":    strings.Repeat("{1:", n),
	} {
		if f := pysource.Parse([]byte(src)); len(f.Errors) == 0 {
			t.Errorf("%s: nothing was said about it", name)
		}
	}
	var blocks strings.Builder
	for i := range 2000 {
		blocks.WriteString(strings.Repeat(" ", i) + "if x:\n")
	}
	if f := pysource.Parse([]byte(blocks.String())); len(f.Errors) == 0 {
		t.Error("blocks: nothing was said about it")
	}
}

func TestPositionsCountLinesAndColumnsFromOne(t *testing.T) {
	t.Parallel()
	f := pysource.Parse([]byte("a = 1\r\nb = '''x\ny'''\rc = d\n"))
	last := f.Body[2].(*pysource.Assign)
	if got := f.Position(last.Value.Pos().Start); got != (pysource.Position{Line: 4, Column: 5}) {
		t.Errorf("d stands at %v", got)
	}
	if f.Line(3) != "y'''" || f.Line(4) != "c = d" {
		t.Errorf("lines are cut wrongly: %q %q", f.Line(3), f.Line(4))
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"grammar.py", "broken.py"} {
		for line := range strings.SplitSeq(string(read(f, name)), "\n") {
			f.Add([]byte(line))
		}
		f.Add(read(f, name))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file := pysource.Parse(src)
		pysource.WalkBody(file.Body, func(n pysource.Node) bool {
			s := n.Pos()
			if s.Start < 0 || s.End < s.Start || int(s.End) > len(src) {
				t.Fatalf("%T spans %v of %d bytes", n, s, len(src))
			}
			file.Position(s.Start)
			return true
		})
	})
}

func BenchmarkParse(b *testing.B) {
	src := []byte(strings.Repeat(string(read(b, "grammar.py")), 50))
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		pysource.Parse(src)
	}
}

func TestABracketThatIsNotClosedIsShown(t *testing.T) {
	t.Parallel()
	for src, line := range map[string]int{
		"x = 1\nvalues = {\n  'a': f(1),\n  'b': 2\n":             2,
		"x = f(1,\n  2\ny = 3\nprint(x)\n":                        1,
		"call(a,\n  b\ndef next():\n    return (1)\n":             1,
		"t = f\"\"\"{x(\nreturn 1\n)}\"\"\"\nprint(t)\nok = [1\n": 5,
	} {
		f := pysource.Parse([]byte(src))
		if len(f.Errors) == 0 || f.Position(f.Errors[0].Start).Line != line {
			t.Errorf("%q: %v, want line %d", src, f.Errors, line)
		}
	}
}

// The span of a statement with a block ends with the last statement in it, not in the line that follows.
func TestABlockEndsWithItsLastStatement(t *testing.T) {
	t.Parallel()
	const src = "for x in y:\n    if x:\n        f(x)  # done\n\nelse:\n    g()\n# after\nh()\nwith a:\n    b()\n\n\nclass C:\n    def m(self):\n        return 1\nz = 1\n"
	f := pysource.Parse([]byte(src))
	var got []string
	for _, st := range f.Body {
		text := f.Text(st)
		got = append(got, text[strings.LastIndexByte(text, '\n')+1:])
	}
	if want := []string{"    g()", "h()", "    b()", "        return 1", "z = 1"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
