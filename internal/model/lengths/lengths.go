// Package lengths says how long the samples of a training run are, and which of them a batch has.
//
// It takes a list of lengths (one a line, or JSON) or a distribution such as lognormal:130,0.7,max=1024 and returns lengths, and the batches that a sampler
// makes of them. The orders are those of the sampler's kind, not PyTorch's own for a seed: its random generator is not written again here. Refused, each
// with its line: what is no length, no lengths at all, and more than any run has.
package lengths

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a believable run.
const (
	longest = 1 << 24
	most    = 50_000_000
)

// Read reads lengths: a number a line, a JSON array of numbers, or JSON lines with the number in length, input_length, num_tokens or n_tokens, or with
// the tokens themselves in input_ids.
func Read(r io.Reader) ([]int, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		b, err := in.Peek(1)
		if err != nil || b[0] != ' ' && b[0] != '\n' && b[0] != '\t' && b[0] != '\r' {
			break
		}
		in.Discard(1)
	}
	if b, _ := in.Peek(1); len(b) == 1 && b[0] == '[' {
		return readArray(in)
	}
	return readLines(in)
}

func readArray(r io.Reader) ([]int, error) {
	d := json.NewDecoder(r)
	_, err := d.Token() // the bracket
	var out []int
	for err == nil && d.More() {
		var n int
		if err = d.Decode(&n); err != nil {
			break
		}
		if err := check(n); err != nil {
			return nil, fmt.Errorf("entry %d: %w", len(out)+1, err)
		}
		if out = append(out, n); len(out) > most {
			return nil, fmt.Errorf("more than %d lengths", most)
		}
	}
	if err == nil {
		_, err = d.Token() // the other bracket
	}
	if err != nil {
		return nil, fmt.Errorf("a JSON array of lengths: %w", err)
	}
	return some(out)
}

func readLines(r io.Reader) ([]int, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	var out []int
	for at := 1; lines.Scan(); at++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		n, err := length(text)
		if err == nil {
			err = check(n)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		if out = append(out, n); len(out) > most {
			return nil, fmt.Errorf("more than %d lengths", most)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read lengths: %w", err)
	}
	return some(out)
}

// fields are where JSON lines have a length.
var fields = []string{"length", "input_length", "num_tokens", "n_tokens"}

func length(text string) (int, error) {
	if text[0] != '{' {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("%.40q is not a length in tokens", text)
		}
		return n, nil
	}
	var line map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		return 0, fmt.Errorf("no JSON object: %w", err)
	}
	for _, name := range fields {
		if raw, ok := line[name]; ok {
			var n int
			if err := json.Unmarshal(raw, &n); err != nil {
				return 0, fmt.Errorf("%s is not a number of tokens", name)
			}
			return n, nil
		}
	}
	if raw, ok := line["input_ids"]; ok {
		var ids []json.RawMessage
		if err := json.Unmarshal(raw, &ids); err != nil {
			return 0, fmt.Errorf("input_ids is not a list of tokens")
		}
		return len(ids), nil
	}
	return 0, fmt.Errorf("the object has none of %s, input_ids", strings.Join(fields, ", "))
}

func check(n int) error {
	if n < 1 || n > longest {
		return fmt.Errorf("%d is not the length of a sample in tokens (1 to %d)", n, longest)
	}
	return nil
}

func some(out []int) ([]int, error) {
	if len(out) == 0 {
		return nil, fmt.Errorf("no lengths")
	}
	return out, nil
}

// Distribution is where lengths are drawn from.
type Distribution struct {
	text     string
	kind     string
	a, b     float64
	min, max int
}

// kinds are the distributions, by how many numbers they take.
var kinds = map[string]struct {
	numbers int
	example string
}{
	"lognormal": {2, "lognormal:130,0.7 (median and sigma of the logarithm)"},
	"normal":    {2, "normal:256,64 (mean and standard deviation)"},
	"uniform":   {2, "uniform:32,1024"},
	"constant":  {1, "constant:512"},
}

// IsDistribution tells whether a text is meant as one.
func IsDistribution(text string) bool {
	name, _, ok := strings.Cut(text, ":")
	_, known := kinds[name]
	return ok && known
}

// ParseDistribution reads a name, its numbers, and where lengths are cut: lognormal:130,0.7,max=1024.
func ParseDistribution(text string) (Distribution, error) {
	name, rest, _ := strings.Cut(text, ":")
	kind, ok := kinds[name]
	if !ok {
		return Distribution{}, fmt.Errorf("%q is not a distribution of lengths; choose lognormal, normal, uniform or constant", name)
	}
	d := Distribution{text: text, kind: name, min: 1, max: longest}
	var numbers []float64
	for _, part := range strings.Split(rest, ",") {
		field, value, named := strings.Cut(part, "=")
		if !named {
			value = field
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || math.IsNaN(n) || n < 0 || n > longest {
			return d, fmt.Errorf("%s: %.40q is not a number for a distribution of lengths", text, part)
		}
		switch {
		case !named:
			numbers = append(numbers, n)
		case field == "max":
			d.max = int(n)
		case field == "min":
			d.min = int(n)
		default:
			return d, fmt.Errorf("%s: %q is not known; min= and max= cut lengths", text, field)
		}
	}
	if len(numbers) != kind.numbers || d.min < 1 || d.max < d.min {
		return d, fmt.Errorf("%s: write it as %s, with min= and max= where lengths are cut", text, kind.example)
	}
	d.a = numbers[0]
	if kind.numbers > 1 {
		d.b = numbers[1]
	}
	return d, nil
}

// String is the text it was read from.
func (d Distribution) String() string { return d.text }

// Draw draws n lengths; the same seed gives the same ones.
func (d Distribution) Draw(n int, seed uint64) []int {
	r := rand.New(rand.NewPCG(seed, 0x6c656e67746873))
	out := make([]int, n)
	for i := range out {
		x := d.a
		switch d.kind {
		case "lognormal":
			x = d.a * math.Exp(d.b*r.NormFloat64())
		case "normal":
			x = d.a + d.b*r.NormFloat64()
		case "uniform":
			x = d.a + math.Floor((d.b-d.a+1)*r.Float64())
		}
		out[i] = int(math.Round(min(max(x, float64(d.min)), float64(d.max))))
	}
	return out
}

// Cap cuts every length at the longest there may be; 0: none.
func Cap(all []int, at int) []int {
	if at <= 0 {
		return all
	}
	out := slices.Clone(all)
	for i, n := range out {
		out[i] = min(n, at)
	}
	return out
}
