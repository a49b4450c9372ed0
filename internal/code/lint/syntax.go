package lint

import (
	"regexp"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/notebook"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// syntax turns the parser's errors into findings; the first of a file says enough.
func syntax(path string, f *pysource.File, cells []notebook.Cell) []Finding {
	at, message := firstError(f, cells)
	if message == "" {
		return nil
	}
	found := place(f, path, at)
	found.Rule, found.Severity = SyntaxRule, Warning
	found.Message = "this line is not valid Python: " + message
	found.Fix = "fix the line; the rest was checked as far as it could be read"
	line := f.Line(found.Line)
	old := python2(line)
	if old != "" {
		found.Message = "this line is not Python " + old
	}
	if contains(f.Source[:min(len(f.Source), 64)], "\x00") {
		found.Message, found.Fix = "this file is not text that Python reads: it has zero bytes, as UTF-16 does", "save it as UTF-8"
		return []Finding{found}
	}
	if placeholder.MatchString(line) || old == "" && (blank.MatchString(line) || onlyComments(f, found.Line)) {
		found.Severity, found.Message = Note, "this line is a place to be filled in, not Python yet"
		found.Fix = "nothing, until it is filled in; the rest was checked as far as it could be read"
	}
	return []Finding{found}
}

// firstError finds the first place that is not Python. A notebook's cells are compiled one by one: what is missing at the end of one is no error of
// the next.
func firstError(f *pysource.File, cells []notebook.Cell) (at pysource.Span, message string) {
	if len(f.Errors) == 0 {
		return pysource.Span{}, ""
	}
	if cells == nil {
		return f.Errors[0].Span, f.Errors[0].Message
	}
	start := 0
	for _, c := range cells {
		if alone := pysource.Parse(f.Source[start:c.End]); len(alone.Errors) > 0 {
			e := alone.Errors[0]
			last := int32(max(start, c.End-1)) // its last line, where the text ends too early
			return pysource.Span{Start: min(e.Span.Start+int32(start), last), End: min(e.Span.End+int32(start), last)}, e.Message
		}
		start = c.End
	}
	return pysource.Span{}, ""
}

// placeholder are the words of exercises where somebody else is to write: <YOUR CODE HERE>.
var placeholder = regexp.MustCompile(`(?i)<\s*(your|todo|fill|insert|put|write|code|solution|student|answer|\.\.\.|…)[^<>]*>|<\s*[a-z]\w*(\s+\w+)+\s*>|\byour code\b|\bfill (this )?in\b|\?\?\?|^[\w\s.,()\[\]"']*[^=!<>]=\s*(#.*)?$`)

// blank are the signs that stand for what is missing in a line of an exercise: `padding=?`, `x = ....`, `f(___ ___)`.
var blank = regexp.MustCompile(`[=(,]\s*\?\s*([,)]|$)|([=(,]|\breturn|^)\s*(\.{4,}|_{3,})|(?i)#.*\byour \w+ here\b`)

// onlyComments tells whether a line is the end of a block that holds words for whoever is to write it, and no code. Code that was commented out is
// no such place.
func onlyComments(f *pysource.File, line int) bool {
	words := false
	for at := line; at > 0; at-- {
		text := strings.TrimSpace(f.Line(at))
		comment, ok := strings.CutPrefix(text, "#")
		switch comment = strings.Trim(comment, "# \t-="); {
		case ok:
			words = words || comment != "" && (todo.MatchString(comment) || len(pysource.Parse([]byte(comment+"\n")).Errors) > 0)
		case text != "" && at < line:
			code, _, _ := strings.Cut(text, "#")
			return words && strings.HasSuffix(strings.TrimSpace(code), ":")
		}
	}
	return false
}

// todo are comments of one word that ask for code.
var todo = regexp.MustCompile(`(?i)^(todo|fixme|your code|fill|complete|implement|solution|answer|\.\.\.|…|_+)\b|^\.\.\.|^_+$`)

// oldPython are the ways in which public training code is most often no Python 3.
var oldPython = []struct {
	form *regexp.Regexp
	says string
}{
	{regexp.MustCompile(`(?:^|[:;])\s*print\s+[^(=.\s]`), "3: print is a function there"},
	{regexp.MustCompile(`\.(cuda|to)\(.*\basync\s*=`), "3.7 or newer: async is a keyword there; PyTorch calls the argument non_blocking since 0.4"},
	{regexp.MustCompile(`\basync\s*=`), "3.7 or newer: async is a keyword there"},
	{regexp.MustCompile(`^\s*except\s+[\w.()]+\s*,\s*\w+\s*:`), "3: write `except Error as name:`"},
	{regexp.MustCompile(`^\s*exec\s+['"\w]`), "3: exec is a function there"},
}

func python2(line string) string {
	for _, o := range oldPython {
		if o.form.MatchString(line) {
			return o.says
		}
	}
	return ""
}
