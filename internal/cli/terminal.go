package cli

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/plimsoll/plimsoll/internal/show/screen"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// terminalStyle decides how stdout may look: colour only on a terminal and never with NO_COLOR set, the
// terminal's width up to 100 columns, ASCII where the locale is not UTF-8.
func terminalStyle(out *os.File, getenv func(string) string) screen.Style {
	style := screen.Style{Width: 80, ASCII: asciiLocale(getenv)}
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n >= 40 {
		style.Width = min(n, 100)
	}
	if getenv("CLICOLOR_FORCE") == "1" {
		style.Color = true
	}
	if !isTerminal(out) {
		return style
	}
	if w, _, err := term.GetSize(int(out.Fd())); err == nil && w >= 40 {
		style.Width = min(w, 100)
	}
	style.Color = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	return style
}

func asciiLocale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			u := strings.ToUpper(v)
			return !strings.Contains(u, "UTF-8") && !strings.Contains(u, "UTF8") && u != "C" && u != "POSIX"
		}
	}
	return false
}
