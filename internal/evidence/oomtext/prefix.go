package oomtext

import (
	"bytes"
	"strconv"
)

// speaker identifies who wrote a line of a shared log: a hash of the names in its prefix, 0 for none.
type speaker struct {
	key  uint64
	rank int // -1 unknown
}

// maxPrefixes bounds the prefixes peeled from a line ("worker-1: 2024-05-01 10:00:00 [rank3]: …").
const maxPrefixes = 6

// peel takes time stamps, log levels, quote marks and names of ranks, workers and hosts off the front of
// a line. The indentation behind the last of them stays: tracebacks need it.
func peel(line []byte) ([]byte, speaker) {
	who := speaker{rank: -1}
	for range maxPrefixes {
		start := indent(line)
		if start >= len(line) {
			break
		}
		p := prefixOf(line[start:])
		if p.length == 0 {
			break
		}
		if p.names {
			who.key = fold(who.key, line[start:start+p.length])
		}
		if p.rank >= 0 {
			who.rank = p.rank
		}
		line = line[start+p.length:]
		if len(line) > 0 && line[0] == ' ' {
			line = line[1:]
		}
	}
	return line, who
}

// prefix is one recognised prefix: its length (0 none), whether it names the speaker, and the rank it gives.
type prefix struct {
	length int
	names  bool
	rank   int
}

var noPrefix = prefix{rank: -1}

func prefixOf(line []byte) prefix {
	switch c := line[0]; {
	case c == '>' || c == '|':
		return prefix{length: 1, rank: -1}
	case c == '[':
		return bracketPrefix(line)
	case c == '(':
		return pidPrefix(line)
	case digit(c):
		return digitPrefix(line)
	case letter(c):
		return wordPrefix(line)
	}
	return noPrefix
}

// bracketPrefix knows [rank3]: (torch ≥ 2.3), [default3]: (torchrun --tee), [1,3]<stderr>: (mpirun
// --tag-output), [3]:, dates, levels, [file.py:12], the kernel's [441280.839852] and glog's [E1115 02:25:58 …].
func bracketPrefix(line []byte) prefix {
	end := bytes.IndexByte(line[:min(len(line), 100)], ']')
	if end < 2 {
		return noPrefix
	}
	inside := line[1:end]
	length := end + 1
	if rank, ok := rankName(inside); ok {
		return prefix{length + colon(line[length:]), true, rank}
	}
	if comma := bytes.IndexByte(inside, ','); comma > 0 && bytes.HasPrefix(line[length:], []byte("<std")) {
		if stop := bytes.IndexByte(line[length:min(len(line), length+12)], '>'); stop > 0 {
			length += stop + 1
			return prefix{length + colon(line[length:]), true, number(inside[comma+1:])}
		}
	}
	if rank := number(inside); rank >= 0 {
		if colon(line[length:]) == 0 {
			return noPrefix
		}
		return prefix{length + 1, true, rank}
	}
	if clockLike(inside) || level(inside) || sourceLine(inside) {
		return prefix{length: length + colon(line[length:]), rank: -1}
	}
	return noPrefix
}

// pidPrefix knows Ray's and vLLM's (Name pid=123, ip=10.0.0.1).
func pidPrefix(line []byte) prefix {
	end := bytes.IndexByte(line[:min(len(line), 120)], ')')
	if end < 0 || !bytes.Contains(line[:end], []byte("pid=")) {
		return noPrefix
	}
	p := prefix{end + 1, true, -1}
	if i := bytes.Index(line[:end], []byte("rank=")); i > 0 {
		p.rank = number(leadingDigits(line[i+len("rank=") : end]))
	}
	return p
}

// digitPrefix knows dates, clocks, srun --label's "3: " and hosts by address, "10.0.0.2: ".
func digitPrefix(line []byte) prefix {
	head := leadingDigits(line)
	rest := line[len(head):]
	if len(head) <= 5 && bytes.HasPrefix(rest, []byte(": ")) {
		return prefix{len(head) + 1, true, number(head)}
	}
	token := line[:tokenEnd(line)]
	if bytes.Count(token, []byte(".")) == 3 && bytes.HasSuffix(token, []byte(":")) {
		return prefix{len(token), true, -1}
	}
	if len(token) < 8 || !clockAt(token) && !isDate(token) {
		return noPrefix
	}
	length := len(token)
	next := line[min(len(line), length+1):]
	if clock := next[:tokenEnd(next)]; isDate(token) && !clockAt(token) && len(clock) >= 8 && clockAt(clock) && digit(clock[0]) { // a time of day: "16384.00" is a size
		length += 1 + len(clock)
		next = line[min(len(line), length+1):]
	}
	for _, tail := range []string{"- ", "stderr F ", "stdout F ", "stderr P ", "stdout P "} {
		if bytes.HasPrefix(next, []byte(tail)) {
			length += len(tail)
			break
		}
	}
	return prefix{length: min(length, len(line)), rank: -1}
}

// wordPrefix knows "rank 3: ", "stderr: ", "ERROR 04-01 23:46:56 ", glog's "E0813 06:19:49.8 161210 api.py:869]",
// syslog's "Nov 15 02:25:58 host python[12]: ", compose's "trainer-1  | " and the host names of pdsh, "worker-1: ".
func wordPrefix(line []byte) prefix {
	line = line[:min(len(line), 160)]
	end := tokenEnd(line)
	token, rest := line[:end], line[end:]
	if len(token) > 64 {
		return noPrefix
	}
	if rank, ok := rankName(bytes.TrimSuffix(token, []byte(":"))); ok && bytes.HasSuffix(token, []byte(":")) {
		return prefix{end, true, rank}
	}
	if bytes.EqualFold(token, []byte("rank")) && len(rest) > 2 {
		if digits := leadingDigits(rest[1:]); len(digits) > 0 && bytes.HasPrefix(rest[1+len(digits):], []byte(":")) {
			return prefix{end + 2 + len(digits), true, number(digits)}
		}
	}
	switch string(token) {
	case "stderr:", "stdout:", "SUBPROCESS:":
		return prefix{length: end, rank: -1}
	}
	if hostLabel(token) {
		return prefix{end, true, -1}
	}
	if at := indent(rest); at > 0 && bytes.HasPrefix(rest[at:], []byte("| ")) && containsDigit(token) {
		return prefix{end + at + 1, true, -1}
	}
	if level(token) && len(rest) > 9 && digit(rest[1]) {
		return prefix{length: end + clocks(rest), rank: -1}
	}
	if len(token) == 5 && bytes.IndexByte([]byte("EWIF"), token[0]) >= 0 && number(token[1:]) >= 0 {
		if stop := bytes.Index(rest, []byte("] ")); stop > 0 && bytes.IndexByte(rest[:stop], ':') > 0 {
			return prefix{length: end + stop + 1, rank: -1}
		}
	}
	if month(token) {
		if stop := bytes.Index(rest, []byte("]: ")); stop > 12 && clockLike(rest[4:stop]) {
			return prefix{length: end + stop + 2, rank: -1}
		}
	}
	return noPrefix
}

// rankName reads "rank3", "Rank 3", "rank: 3", "default3".
func rankName(name []byte) (int, bool) {
	rest := name
	switch {
	case len(name) > 4 && bytes.EqualFold(name[:4], []byte("rank")):
		rest = name[4:]
	case bytes.HasPrefix(name, []byte("default")):
		rest = name[len("default"):]
	default:
		return -1, false
	}
	n := number(bytes.TrimLeft(rest, ": ="))
	return n, n >= 0
}

// hostLabel tells a host name with a colon, as pdsh puts it: lower case, a hyphen or a telling word, a digit.
func hostLabel(token []byte) bool {
	if len(token) < 3 || token[len(token)-1] != ':' {
		return false
	}
	name := token[:len(token)-1]
	for _, c := range name {
		if !digit(c) && c != '-' && !(c >= 'a' && c <= 'z') {
			return false
		}
	}
	if !digit(name[len(name)-1]) {
		return false
	}
	for _, word := range []string{"node", "worker", "host", "gpu"} {
		if bytes.HasPrefix(name, []byte(word)) {
			return true
		}
	}
	return bytes.IndexByte(name, '-') > 0
}

func level(word []byte) bool {
	switch string(word) {
	case "DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL", "stderr", "stdout":
		return true
	}
	return false
}

// sourceLine tells "engine.py:160", "INFO|trainer.py:12", "api.cpp:3:step".
func sourceLine(text []byte) bool {
	i := bytes.Index(text, []byte(".py:"))
	if i < 0 {
		return false
	}
	return i+4 < len(text) && digit(text[i+4])
}

// clockLike tells text that has a time of day, a date or a count of seconds in it, and starts with a
// digit or a glog letter.
func clockLike(text []byte) bool {
	if len(text) < 5 || !digit(text[0]) && !(bytes.IndexByte([]byte("EWIF"), text[0]) >= 0 && digit(text[1])) {
		return false
	}
	return clockAt(text) || isDate(text) || bytes.IndexByte(text, '.') > 0 && onlyDigits(text)
}

// clockAt tells whether there is a dd:dd:dd anywhere.
func clockAt(text []byte) bool {
	for i := 2; i+5 < len(text); i++ {
		if text[i] == ':' && text[i+3] == ':' && digit(text[i-1]) && digit(text[i+1]) && digit(text[i+2]) && digit(text[i+4]) {
			return true
		}
	}
	return false
}

// isDate tells 2024-05-01…, 2024/05/01… and 05/01/2024.
func isDate(text []byte) bool {
	if len(text) < 8 {
		return false
	}
	sep := func(c byte) bool { return c == '-' || c == '/' }
	return len(text) >= 10 && sep(text[4]) && sep(text[7]) && len(leadingDigits(text)) == 4 || sep(text[2]) && sep(text[5])
}

// clocks returns the length of " 04-01 23:46:56" in front of rest.
func clocks(rest []byte) int {
	length := 0
	for length+1 < len(rest) && rest[length] == ' ' && digit(rest[length+1]) {
		word := rest[length+1:]
		end := tokenEnd(word)
		if !bytes.ContainsAny(word[:end], ":-/") {
			break
		}
		length += 1 + end
	}
	return length
}

func month(token []byte) bool {
	return len(token) == 3 && bytes.Contains([]byte("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"), token)
}

func indent(line []byte) int {
	i := 0
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	return i
}

func tokenEnd(line []byte) int {
	for i, c := range line {
		if c == ' ' || c == '\t' {
			return i
		}
	}
	return len(line)
}

func leadingDigits(text []byte) []byte {
	i := 0
	for i < len(text) && digit(text[i]) {
		i++
	}
	return text[:i]
}

func onlyDigits(text []byte) bool {
	for _, c := range text {
		if !digit(c) && c != '.' {
			return false
		}
	}
	return true
}

func containsDigit(text []byte) bool { return bytes.ContainsAny(text, "0123456789") }

// number reads a whole number of at most six digits, -1 for anything else.
func number(text []byte) int {
	if len(text) == 0 || len(text) > 6 || len(leadingDigits(text)) != len(text) {
		return -1
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return -1
	}
	return n
}

func colon(rest []byte) int {
	if len(rest) > 0 && rest[0] == ':' {
		return 1
	}
	return 0
}

// fold mixes a name into a key (FNV-1a); the result is never 0.
func fold(key uint64, name []byte) uint64 {
	if key == 0 {
		key = 14695981039346656037
	}
	for _, c := range name {
		key = (key ^ uint64(c)) * 1099511628211
	}
	return max(key, 1)
}
