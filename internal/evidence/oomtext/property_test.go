package oomtext

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var labelled = regexp.MustCompile(`[0-9] ?: |^srun`)

// drawFormat picks a message whose words may be torn anywhere. Those that count on a line of their own, or
// on white space to end a name, are left out.
func drawFormat(t *rapid.T) (string, string) {
	for {
		f := rapid.SampledFrom(formats).Draw(t, "format")
		if labelled.MatchString(f.text) {
			continue // "17: task" at the start of a line is srun's own label
		}
		if strings.Contains(f.want, "host-error") || strings.Contains(f.want, "numpy") || strings.Contains(f.want, "host-oom killed") || strings.Contains(f.want, "oom other") || strings.Contains(f.text, "\x00") {
			continue
		}
		return f.text, withoutForeignClass(f.want)
	}
}

// withoutForeignClass drops the class of an exception that is not PyTorch's: torn in two, its end alone is read.
func withoutForeignClass(brief string) string {
	words := strings.Fields(brief)
	kept := words[:0]
	for _, w := range words {
		class, ok := strings.CutPrefix(w, "class=")
		if !ok || slices.Contains(classNames, class) {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

// briefLike prints a message, with its class where want has one.
func briefLike(want string, m Message) string {
	if !strings.Contains(want, " class=") {
		m.Class = ""
	}
	return brief(m)
}

// wrap breaks a text into lines of width columns, as a terminal does, or at spaces, as a mail program does.
func wrap(text string, width int, atSpaces bool) []string {
	var lines []string
	for _, paragraph := range strings.Split(text, "\n") {
		for len(paragraph) > width {
			cut := width
			if atSpaces {
				if space := strings.LastIndexByte(paragraph[:width], ' '); space > 0 {
					cut = space
				}
			}
			lines = append(lines, paragraph[:cut])
			paragraph = paragraph[cut:]
			if atSpaces {
				paragraph = strings.TrimPrefix(paragraph, " ")
			}
		}
		lines = append(lines, paragraph)
	}
	return lines
}

// prefixes that say nothing about a rank, and those of a rank.
var (
	plainPrefixes = []string{
		"", "> ", "> > ", "2024-05-01 10:11:12.345 ", "2024-05-01T10:11:12.345678Z ", "[2024-05-01 10:11:12,345] ", "2024-05-01T10:11:12.345678901Z stderr F ",
		"ERROR 05-01 10:11:12 [core.py:390] ", "SUBPROCESS: ", "(EngineCore_DP0 pid=4242) ", "(RayTrainWorker pid=99, ip=10.0.0.7) ", "worker-3: ", "10.0.0.7: ",
		"trainer-1  | ", "E0501 10:11:12.345000 161210 api.py:869] ", "[WARNING] [stage3.py:12] ", "\x1b[31m\x1b[1m", "May  1 10:11:12 box python[77]: ",
	}
	rankPrefixes = []string{"[rank%d]: ", "[rank%d]:", "[default%d]:", "%d: ", "[1,%d]<stderr>:", "rank %d: ", "Rank%d: ", "2024-05-01 10:11:12 [rank%d]: ", "node-2: [rank%d]: ", "[%d]: "}
)

func TestWrappingAndPrefixesLoseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, want := drawFormat(t)
		prefix := rapid.SampledFrom(plainPrefixes).Draw(t, "prefix")
		lines := wrap(text, rapid.IntRange(9, 200).Draw(t, "width"), rapid.Bool().Draw(t, "at spaces"))
		log := "starting\n" + prefix + strings.Join(lines, "\n"+prefix) + "\nbye\n"
		expect(t, log, want)
	})
}

func TestATerminalThatDoesNotRepeatThePrefixLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, want := drawFormat(t)
		if strings.Contains(want, "rank=") {
			return
		}
		prefix := fmt.Sprintf(rapid.SampledFrom(rankPrefixes).Draw(t, "prefix"), 7)
		if !strings.Contains(want, "class=") {
			return
		}
		// Not so narrow that the name of the exception is torn: a line that names one is known to go on.
		lines := wrap(prefix+text, rapid.IntRange(60, 200).Draw(t, "width"), false)
		log, err := Read(strings.NewReader(strings.Join(lines, "\n") + "\n"))
		if err != nil || len(log.Messages) != 1 {
			t.Fatalf("%d messages, %v in\n%s", len(log.Messages), err, strings.Join(lines, "\n"))
		}
		m := log.Messages[0]
		if m.Rank != 7 {
			t.Fatalf("rank %d", m.Rank)
		}
		m.Rank = -1
		if got := briefLike(want, m); got != want {
			t.Fatalf("\n got %s\nwant %s\n%s", got, want, strings.Join(lines, "\n"))
		}
	})
}

func TestInterleavedRanksAreToldApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		form := rapid.SampledFrom(rankPrefixes).Draw(t, "prefix")
		ranks := rapid.IntRange(2, 8).Draw(t, "ranks")
		pending := make([][]string, ranks)
		want := make([]string, ranks)
		for r := range pending {
			var text string
			text, want[r] = drawFormat(t)
			for strings.Contains(want[r], "rank=") {
				text, want[r] = drawFormat(t)
			}
			for _, line := range wrap(text, rapid.IntRange(20, 160).Draw(t, "width"), rapid.Bool().Draw(t, "at spaces")) {
				pending[r] = append(pending[r], fmt.Sprintf(form, r)+line)
			}
		}
		log, err := Read(strings.NewReader(strings.Join(interleave(t, pending), "\n") + "\n"))
		if err != nil || len(log.Messages) != ranks {
			t.Fatalf("%d messages from %d ranks, %v", len(log.Messages), ranks, err)
		}
		for _, m := range log.Messages {
			r := m.Rank
			if r < 0 || r >= ranks {
				t.Fatalf("rank %d", r)
			}
			m.Rank = -1
			if got := briefLike(want[r], m); got != want[r] {
				t.Fatalf("rank %d\n got %s\nwant %s", r, got, want[r])
			}
		}
	})
}

// interleave draws the next line from any speaker that has one left.
func interleave(t *rapid.T, pending [][]string) []string {
	var all []string
	for {
		var open []int
		for r, lines := range pending {
			if len(lines) > 0 {
				open = append(open, r)
			}
		}
		if len(open) == 0 {
			return all
		}
		r := rapid.SampledFrom(open).Draw(t, "speaker")
		all = append(all, pending[r][0])
		pending[r] = pending[r][1:]
	}
}

func TestACutMessageNeverSaysAnythingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, _ := drawFormat(t)
		full, err := Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		cut := text[:rapid.IntRange(0, len(text)).Draw(t, "cut")]
		part, err := Read(strings.NewReader(cut))
		if err != nil {
			t.Fatal(err)
		}
		if len(part.Messages) > 1 {
			t.Fatalf("%d messages in %q", len(part.Messages), cut)
		}
		for _, m := range part.Messages {
			whole := full.Messages[0]
			for _, pair := range [][2]Amount{{m.Requested, whole.Requested}, {m.Capacity, whole.Capacity}, {m.Free, whole.Free}, {m.Process, whole.Process},
				{m.Allocated, whole.Allocated}, {m.ReservedUnallocated, whole.ReservedUnallocated}, {m.Allowed, whole.Allowed}, {m.PrivatePools, whole.PrivatePools}} {
				if m.Truncated && strings.HasPrefix(pair[1].Text, strings.TrimSuffix(pair[0].Text, " bytes")) {
					continue // a count without a unit, cut inside: the message says that it was
				}
				if pair[0].Known && pair[0].Bytes != pair[1].Bytes && whole.Format != "triton" && whole.Format != "v1-cached" {
					t.Fatalf("%q reads %v, whole %v", cut, pair[0], pair[1])
				}
			}
		}
	})
}

// expect reads one message out of a log.
func expect(t *rapid.T, text, want string) {
	log, err := Read(strings.NewReader(text))
	if err != nil || len(log.Messages) != 1 {
		t.Fatalf("%d messages, %v in\n%s", len(log.Messages), err, text)
	}
	if got := briefLike(want, log.Messages[0]); got != want {
		t.Fatalf("\n got %s\nwant %s\n%s", got, want, text)
	}
}
