package oomtext

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
)

// span is a message and the bytes of the squashed text it stands on.
type span struct {
	message    *Message
	start, end int
}

// template knows one family of messages: the strings that give one away, each without white space and in
// lower case as in squashed text, and how to read on from there.
type template struct {
	triggers []string
	read     func(t squashed, at int) (span, bool)
}

// templates in order of preference where two claim the same text.
var templates = slices.Concat(ownTemplates, phraseTemplates(stackPhrases), phraseTemplates(hostPhrases), lastTemplates)

// ownTemplates need more than a phrase to be read.
var ownTemplates = []template{
	{[]string{"noneoftheinputshaverequiresgrad=true", "incompatiblewithgradientcheckpointing"}, readWarning},
	{[]string{"triedtoallocate"}, readTried},
	{[]string{"wouldexceedallowedmemory"}, readAsync},
	{[]string{"waspreemptivelyrejected"}, readReject},
	{[]string{"failedwithoomondevice"}, readAttempt},
	{[]string{"mpsbackendoutofmemory"}, readMPS},
	{[]string{"invalidbuffersize:"}, readMPSBuffer},
	{[]string{"cudaruntimeerror(2)", "error=2:outofmemory"}, readTHC},
	{[]string{"cudafailure'outofmemory'", "cudafailure2'outofmemory'", "failedtocudacalloc", "failedtocudahostalloc"}, readNCCL},
	{[]string{"ranoutofmemorytryingtoallocate", "failedtoallocate"}, readBFC},
	{[]string{"cudaerror:outofmemory", "cudadrivererror:outofmemory", "hiperror:outofmemory", "cudaerroroutofmemory",
		"hiperroroutofmemory", "cudaerrormemoryallocation", "outofdevicememory"}, readDriver},
	{[]string{"statusallocfailed", "statusnotinitialized", "statusallocationfailed", "cufftallocfailed", "statusmemoryerror", "statusinternalerror", "cufftinternalerror"}, readLibrary},
	{[]string{"unabletofindavalidcudnnalgorithm", "unabletofindanengine"}, readEngine},
	{[]string{"nvmlsuccess=="}, readNVML},
	{[]string{"youtriedtoallocate"}, readCPU},
	{[]string{"unabletoallocate"}, readNumPy},
	{[]string{"outofmemory:kill", "oom-kill:constraint"}, readKernel},
	{[]string{"oom-killevent", "oomkillevent"}, readSlurm},
	{[]string{"iskilledbysignal:"}, readWorkerKilled},
	{[]string{"exitedunexpectedly"}, readWorkerGone},
	{[]string{"unexpectedbuserror", "sharedmemoryobject", "unabletowritetofile</torch", "unabletommap"}, readShared},
	{[]string{"exitcode:-9", "exitcode137", "exitcode:137", "exitstatus137", "exitcode=137", "exitstatus:137", "exitcode-9", "returncode=-9", "returncode-9", "returncode:-9", "exited(137)", "zsh:killed", "signal:killed", "oomkilled", "signal9(sigkill)", "signals.sigkill"}, readExit},
	{[]string{"whichexceedsthememoryusagethreshold"}, readRay},
	{[]string{"oomwhenallocatingtensor"}, readTensorFlow},
	{[]string{"outofmemorywhiletryingtoallocate", "outofmemoryallocating", "failedtoallocaterequestfor", "ranoutofmemoryinmemoryspace"}, readXLA},
	{[]string{"freememoryondevice", "noavailablememoryforthecacheblocks", "availablekvcachememory", "canbestoredinkvcache"}, readVLLM},
	{[]string{"outofresource:sharedmemory", "usestoomuchshareddata"}, readTriton},
	{[]string{"noexecutablebatchsizefound"}, readAccelerate},
	{[]string{"cannotre-initializecudainforkedsubprocess"}, readForked},
}

// lastTemplates read what says little.
var lastTemplates = []template{
	{[]string{"outofmemory"}, readBare},
	{[]string{"memoryerror", "std::badalloc", "cannotallocatememory"}, readHostError},
	{[]string{"killed"}, readKilled},
	{[]string{"outofmemory"}, readAnyDevice},
	{[]string{"failedtoallocate", "unabletoallocate", "couldnotallocate", "cannotallocate", "allocationfailed", "failedtoalloc", "insufficientmemory", "notenoughmemory"}, readAnyAllocation},
}

// trigger is one word of a template.
type trigger struct {
	word     string
	core     int // its length up to the last letter or digit
	template int
}

// triggers lists the words of all templates; their number is that of the automaton.
var triggers = sync.OnceValue(func() []trigger {
	var out []trigger
	for i, t := range templates {
		for _, w := range t.triggers {
			core := len(w)
			for classOf(w[core-1]) == skipping {
				core--
			}
			out = append(out, trigger{w, core, i})
		}
	}
	return out
})

func triggerWords() []string {
	var words []string
	for _, t := range triggers() {
		words = append(words, t.word)
	}
	return words
}

// readAll reads every message of a text, in order, none inside another.
func readAll(t squashed) []span {
	type candidate struct {
		span
		template int
	}
	var found []candidate
	words := triggers()
	triggerAutomaton().hits(t.s, func(word uint16, last int) {
		w := words[word]
		at := last + 1 - w.core
		if !t.has(at, w.word) {
			return
		}
		if s, ok := templates[w.template].read(t, at); ok {
			found = append(found, candidate{s, w.template})
		}
	})
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Or(a.start-b.start, a.template-b.template) })
	var kept []span
	end := 0
	for _, s := range found {
		if s.start >= end && !(s.message.Format == anyFormat && end > 0 && t.sameLine(end-1, s.start)) {
			kept = append(kept, s.span)
			end = s.end
		}
	}
	return kept
}

// sameLine tells whether no line feed stands between positions i and k. What a message has said, a reader of last resort does not say again behind it.
func (t squashed) sameLine(i, k int) bool {
	return bytes.IndexByte(t.raw[t.pos[i]:t.pos[k]], '\n') < 0
}

// newMessage has everything unknown.
func newMessage(kind Kind, format string) Message {
	return Message{Kind: kind, Format: format, Certain: true, Device: -1, Rank: -1}
}

// classNames are the exceptions PyTorch raises here, longest first.
var classNames = []string{
	"torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError", "torch.AcceleratorError", "OutOfMemoryError", "RuntimeError",
}

// classBefore reads the exception class in front of i ("torch.OutOfMemoryError:"). It returns where it starts.
func (t squashed) classBefore(i int) (string, int) {
	if i < 2 || t.s[i-1] != ':' {
		return "", i
	}
	for _, name := range classNames {
		start := i - 1 - len(name)
		if start < 0 || !t.has(start, strings.ToLower(name)) {
			continue
		}
		if start == 0 || !letter(t.s[start-1]) || t.breaks(start) {
			return name, start
		}
	}
	start := i - 1
	for start > 0 && (letter(t.s[start-1]) || t.s[start-1] == '.') && (start == i-1 || !t.breaks(start)) {
		start--
	}
	for start < i-1 && t.s[start] == '.' {
		start++
	}
	name := t.rawText(start, i-1)
	last := name[strings.LastIndexByte(name, '.')+1:]
	for _, end := range []string{"Error", "Exception", "OutOfResources"} {
		if strings.HasSuffix(last, end) && len(last) > len("Error") {
			return name, start
		}
	}
	return "", i
}

// breaks tells whether white space stands between s[i-1] and s[i].
func (t squashed) breaks(i int) bool {
	return i > 0 && bytes.ContainsAny(t.raw[t.pos[i-1]+1:t.pos[i]], " \t\r\n")
}
