package notebook

import (
	"regexp"
	"strings"
)

// pythonLine is one line of a cell as Python.
type pythonLine struct {
	text     string
	length   int  // of the line in the cell
	cut      int  // bytes left out at its beginning
	shifted  bool // its cell is indented as a whole: what is written there would move
	replaced bool // its text is not that of the cell
}

// pythonCells are cell magics whose cell is Python that runs in the notebook's own process
// (https://ipython.readthedocs.io/en/stable/interactive/magics.html#cell-magics, and those of memory_profiler, line_profiler and scalene).
var pythonCells = map[string]bool{
	"time": true, "timeit": true, "capture": true, "prun": true, "memit": true, "mprun": true, "scalene": true, "snakeviz": true, "heat": true,
}

// The lines that IPython rewrites before Python sees them (https://ipython.readthedocs.io/en/stable/interactive/reference.html).
var (
	timed    = regexp.MustCompile(`^%time(?:it)?[ \t]+([^-\s])`)
	assigned = regexp.MustCompile(`^([A-Za-z_][\w.,\[\]'" \t]*=[ \t]*)[!%][^=]`)
	help     = regexp.MustCompile(`^(\?|[%\w.*\[\]'"()]+\?{1,2}[ \t]*$)`)
	// Commands without a sign before them work in cells of one line (run_cell in https://github.com/ipython/ipython/blob/8.29.0/IPython/core/interactiveshell.py).
	alone   = regexp.MustCompile(`^(?:ls|ll|l[kfx]|ldir|cat|cd|cp|mv|rm|mkdir|rmdir|pwd|man|more|less)[ \t]+[^=,( \t\n].*$`)
	command = regexp.MustCompile(`^(?:(?:pip|conda|mamba)[ \t]+(?:install|uninstall|list|show|update|remove)\b|cd[ \t]+[~\w./])`)
)

// pythonLines turns the lines of a cell into lines of Python, one for one. A cell in another language becomes no lines at all.
func pythonLines(text string) []pythonLine {
	lines := strings.Split(text, "\n")
	automagic := alone.MatchString(strings.TrimSpace(text))
	indent := leadingIndent(lines)
	var out []pythonLine
	var state logical
	started, foreign := false, false // foreign: inside a command that a backslash continues
	for _, l := range lines {
		p := pythonLine{text: l, length: len(l), shifted: indent != ""}
		if indent != "" && strings.HasPrefix(l, indent) {
			l = l[len(indent):]
			p.text, p.cut = l, len(indent)
		}
		trimmed := strings.TrimSpace(l)
		if !started && trimmed != "" && !strings.HasPrefix(trimmed, "#") { // Colab lets a form's comments stand before a cell magic
			started = true
			if name, ok := strings.CutPrefix(trimmed, "%%"); ok {
				if !pythonCells[firstWord(name)] {
					return nil
				}
				out = append(out, pythonLine{length: p.length, replaced: true})
				continue
			}
		}
		switch {
		case foreign:
			p.text, p.replaced = "", true
			foreign = strings.HasSuffix(trimmed, `\`)
		case automagic && trimmed != "":
			p.text, p.replaced = "pass", true
		case state.open():
			state.read(l)
		default:
			p = withoutMagic(p)
			foreign = p.replaced && strings.HasSuffix(trimmed, `\`)
			if !p.replaced {
				state.read(p.text)
			}
		}
		out = append(out, p)
	}
	return out
}

// leadingIndent is the indentation of a cell's first line with text, which IPython takes off every line that has it
// (leading_indent in https://github.com/ipython/ipython/blob/8.29.0/IPython/core/inputtransformer2.py).
func leadingIndent(lines []string) string {
	for _, l := range lines {
		if rest := strings.TrimLeft(l, " \t"); strings.TrimSpace(rest) != "" {
			return l[:len(l)-len(rest)]
		}
	}
	return ""
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	return word
}

// withoutMagic gives Python for a line that begins a statement: a command becomes a pass of the same indentation.
func withoutMagic(p pythonLine) pythonLine {
	text := strings.TrimLeft(p.text, " \t")
	if text == "" {
		return p
	}
	indent := p.text[:len(p.text)-len(text)]
	if m := timed.FindStringSubmatchIndex(text); m != nil && !strings.HasPrefix(text, "%timeit") && indent == "" {
		p.text, p.cut = text[m[2]:], p.cut+m[2]
		return p
	}
	if m := assigned.FindStringSubmatch(text); m != nil {
		p.text, p.replaced = indent+m[1]+"None", true
		return p
	}
	if strings.ContainsRune("!%?/,;", rune(text[0])) || help.MatchString(text) || command.MatchString(text) {
		p.text, p.replaced = indent+"pass", true
	}
	return p
}

// logical follows whether a statement goes on over the end of a line.
type logical struct {
	brackets  int
	quote     string // of a string that is open: three quotes
	backslash bool
}

func (s *logical) open() bool { return s.brackets > 0 || s.quote != "" || s.backslash }

// read goes over one more line of Python.
func (s *logical) read(line string) {
	line = strings.TrimRight(line, "\r")
	s.backslash = false
	for i := 0; i < len(line); i++ {
		rest := line[i:]
		switch c := line[i]; {
		case s.quote != "":
			if c == '\\' {
				i++
			} else if strings.HasPrefix(rest, s.quote) {
				i += len(s.quote) - 1
				s.quote = ""
			}
		case c == '#':
			return
		case c == '"' || c == '\'':
			i += s.literal(rest)
		case c == '(' || c == '[' || c == '{':
			s.brackets++
		case c == ')' || c == ']' || c == '}':
			s.brackets = max(0, s.brackets-1)
		case c == '\\' && i == len(line)-1:
			s.backslash = true
		}
	}
}

// literal goes over a string that begins with a quote and tells how many bytes follow the quote on this line.
func (s *logical) literal(rest string) int {
	if three := rest[:1] + rest[:1] + rest[:1]; strings.HasPrefix(rest, three) {
		s.quote = three
		return 2
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
			if i >= len(rest) {
				s.backslash = true
			}
		case rest[0]:
			return i
		}
	}
	return len(rest)
}
