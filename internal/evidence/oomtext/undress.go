package oomtext

import (
	"bytes"
	"strings"
)

// undress takes off what the place a log was kept in put on a line: tags and entities of a web page, escapes of a JSON string. It reports whether it changed
// anything; the result may have line feeds of its own.
func undress(line []byte) ([]byte, bool) {
	page := marked(line, '<') || marked(line, '&')
	text := bytes.TrimSpace(line)
	quoted := len(text) > 2 && text[0] == '{' && text[len(text)-1] == '}' && bytes.IndexByte(text, '\\') >= 0
	if !page && !quoted {
		return line, false
	}
	s := string(line)
	if quoted {
		s = jsonEscapes.Replace(s)
	}
	if page || strings.IndexByte(s, '<') >= 0 {
		s = entities.Replace(stripTags(s))
	}
	return []byte(s), s != string(line)
}

// marked tells a line with a mark that opens a tag or an entity: a letter, a slash or a number sign follows it. Progress bars have others.
func marked(line []byte, mark byte) bool {
	for {
		i := bytes.IndexByte(line, mark)
		if i < 0 || i+1 == len(line) {
			return false
		}
		if c := line[i+1]; letter(c) || c == '/' || c == '#' {
			return true
		}
		line = line[i+1:]
	}
}

var (
	jsonEscapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "", `\t`, "\t", `\"`, `"`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\u0027`, "'", `\u001b`, "\x1b")
	entities    = strings.NewReplacer("&nbsp;", " ", "&#160;", " ", "&lt;", "<", "&gt;", ">", "&quot;", `"`, "&#34;", `"`, "&#39;", "'", "&#x27;", "'", "&apos;", "'", "&amp;", "&")
)

// tags that pages wrap logs in. Others stay: </torch_12_0> and <module> are names.
var tags = map[string]bool{"br": true, "p": true, "pre": true, "td": true, "tr": true, "th": true, "span": true, "div": true, "code": true, "b": true, "i": true, "em": true, "strong": true, "li": true, "ul": true,
	"a": true, "font": true, "table": true, "tbody": true, "details": true, "summary": true, "blockquote": true, "samp": true, "kbd": true, "tt": true}

const longestTag = 300

// stripTags puts a space in place of each tag.
func stripTags(s string) string {
	if strings.IndexByte(s, '<') < 0 {
		return s
	}
	var b strings.Builder
	for {
		open := strings.IndexByte(s, '<')
		if open < 0 {
			break
		}
		end := strings.IndexByte(s[open:min(len(s), open+longestTag)], '>') // no further: a line may have thousands of marks and no end
		if end < 0 || !tags[tagName(s[open+1:open+end])] {
			b.WriteString(s[:open+1])
			s = s[open+1:]
			continue
		}
		b.WriteString(s[:open])
		b.WriteByte(' ')
		s = s[open+end+1:]
	}
	b.WriteString(s)
	return b.String()
}

// tagName is the name in "span class=x", "/td", "br/".
func tagName(inside string) string {
	name := strings.Trim(inside, "/ ")
	if i := strings.IndexByte(name, ' '); i >= 0 {
		name = name[:i]
	}
	return strings.ToLower(name)
}
