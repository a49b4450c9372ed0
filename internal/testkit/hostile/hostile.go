// Package hostile makes inputs that nearly make sense, for fuzz targets and for the corpus of hostile files.
//
// It takes a valid document (JSON, Python source, a log) and a source of choices: random numbers of a seed, or the bytes of a fuzzer and returns a mutant of it:
// fields dropped, renamed and moved, numbers at the edges of their types, values of other types, lists permuted and repeated, references shared,
// depth added. The same choices always make the same mutant. For tests only.
package hostile

import (
	"math/rand/v2"
	"strings"
)

// Choices answers questions with a number of 0 to n-1; 0 is always the mildest answer.
type Choices interface{ Below(n int) int }

// FromBytes takes answers from the bytes of a fuzzer. When they are used up, every answer is 0.
func FromBytes(b []byte) Choices { return &taken{b} }

type taken struct{ rest []byte }

func (t *taken) Below(n int) int {
	if len(t.rest) == 0 || n <= 1 {
		return 0
	}
	v := int(t.rest[0])
	t.rest = t.rest[1:]
	if n > 256 && len(t.rest) > 0 {
		v = v<<8 | int(t.rest[0])
		t.rest = t.rest[1:]
	}
	return v % n
}

// FromSeed takes answers from random numbers that are the same for the same seed.
func FromSeed(seed uint64) Choices { return drawn{rand.New(rand.NewPCG(seed, 0x9d15ea5e))} }

type drawn struct{ *rand.Rand }

func (d drawn) Below(n int) int { return d.IntN(max(n, 1)) }

// Words that have tripped readers of text: terminal sequences, bidirectional text, markup, broken encodings, names that mean something to
// a template, a shell or a file system.
var Words = []string{
	"", " ", "\x1b]0;title\x07", "\x1b[2J\x1b[1;1H", "\u202e\u2066gnp", "</script><script>alert(1)</script>", "\xff\xfe\x80", "\x00", "../../../../etc/passwd",
	"%s%n%d", "{{.}}", "$(touch executed)", "'; touch executed; '", "e\u0301\u0323", "\U0001F468\u200d\U0001F469\u200d\U0001F467", "NaN", "-0", "1e999", "null", "__import__('os')",
	strings.Repeat("A", 5000), strings.Repeat("/x", 300), "\u2028\u2029", "constructor", "__proto__",
}

// Numbers at the edges of their types, and far outside what they count.
var Numbers = []string{
	"0", "-1", "1", "2", "511", "512", "513", "2147483647", "2147483648", "-2147483648", "4294967295", "4294967296", "9007199254740993", "9223372036854775807", "-9223372036854775808",
	"18446744073709551615", "17592186044416", "17592186044417", "1e308", "-1e308", "1e-308", "0.125", "1e18", "140737488355328",
}

// Text is a mutant of lines of text, such as a log or a Python program.
func Text(base string, c Choices) string {
	lines := strings.SplitAfter(base, "\n")
	for range 1 + c.Below(6) {
		at := c.Below(len(lines))
		switch c.Below(9) {
		case 0:
			lines[at] = replaceNumber(lines[at], Numbers[c.Below(len(Numbers))], c)
		case 1: // drop
			lines = append(lines[:at:at], lines[at+1:]...)
		case 2: // repeat
			lines = append(lines[:at:at], append(repeat(lines[at], 1+c.Below(40)), lines[at:]...)...)
		case 3: // swap
			other := c.Below(len(lines))
			lines[at], lines[other] = lines[other], lines[at]
		case 4: // a word in the middle
			cut := c.Below(len(lines[at]) + 1)
			lines[at] = lines[at][:cut] + Words[c.Below(len(Words))] + lines[at][cut:]
		case 5: // cut
			lines[at] = lines[at][:c.Below(len(lines[at])+1)]
		case 6: // other indentation, or brackets
			lines[at] = strings.Repeat([]string{" ", "\t", "(", "[", "{", "if x:", "not ", "lambda: ", "f'{"}[c.Below(9)], 1+c.Below(300)) + lines[at]
		case 7: // join with the next
			lines[at] = strings.TrimRight(lines[at], "\n")
		case 8: // a part of another line
			other := lines[c.Below(len(lines))]
			cut := c.Below(len(lines[at]) + 1)
			lines[at] = lines[at][:cut] + other[c.Below(len(other)+1):]
		}
		if len(lines) == 0 {
			return ""
		}
	}
	return strings.Join(lines, "")
}

func repeat(line string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = line
	}
	return out
}

// replaceNumber puts a number in the place of one of a line's.
func replaceNumber(line, number string, c Choices) string {
	var at [][2]int
	for i := 0; i < len(line); i++ {
		if line[i] < '0' || line[i] > '9' {
			continue
		}
		from := i
		for i < len(line) && (line[i] >= '0' && line[i] <= '9' || line[i] == '.') {
			i++
		}
		at = append(at, [2]int{from, i})
	}
	if len(at) == 0 {
		return line
	}
	place := at[c.Below(len(at))]
	return line[:place[0]] + number + line[place[1]:]
}
