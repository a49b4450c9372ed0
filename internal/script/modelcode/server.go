package modelcode

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/script/runner"
)

// server is a Python that has imported what reading a model needs. It ends with plimsoll.
type server struct {
	asks    *os.File
	answers *bufio.Reader
	ended   <-chan runner.Outcome
}

// serve starts Python and waits until it is ready.
func (r *Reader) serve(p *python) (*server, error) {
	dir, err := os.MkdirTemp("", "plimsoll-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the probe: %w", err)
	}
	defer os.RemoveAll(dir) // what is ready has imported all of it
	if err := probe.Install(dir); err != nil {
		return nil, fmt.Errorf("write the probe: %w", err)
	}
	in, asks, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start Python: %w", err)
	}
	answers, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start Python: %w", err)
	}
	ended := make(chan runner.Outcome, 1)
	s := &server{asks: asks, answers: bufio.NewReader(answers), ended: ended}
	go func() {
		theirs := sync.OnceFunc(func() { in.Close(); out.Close() })
		defer theirs()
		outcome, _ := runner.Run(runner.Command{
			Args: []string{p.Path, "-m", "plimsoll._serve", string(p.Library)}, Env: r.environ(dir), Stdin: in, Stdout: out, Stderr: io.Discard,
			Started: func(int) { theirs() },
		})
		ended <- outcome // one that could not be started has a code as well
	}()
	if _, err := s.answers.ReadString('\n'); err != nil {
		outcome := <-ended
		if outcome.Killed() {
			return nil, Failed{Why: "Python was killed; there may be too little memory"}
		}
		return nil, Failed{Why: fmt.Sprintf("Python ended with code %d while it imported %[2]s; try: %[3]s -c 'import %[2]s'", outcome.Code, p.Library, p.Path)}
	}
	return s, nil
}

// answered has Python answer a request, and tells whether the process that read it was killed.
func (r *Reader) answered(p *python, asked, out string) (killed bool, err error) {
	s := r.asks[p.Library]
	if s == nil {
		if s, err = r.serve(p); err != nil {
			return false, err
		}
		if r.asks == nil {
			r.asks = map[hfconfig.Library]*server{}
		}
		r.asks[p.Library] = s
	}
	if _, err = fmt.Fprintf(s.asks, "%s\t%s\n", asked, out); err == nil {
		var status string
		if status, err = s.answers.ReadString('\n'); err == nil {
			return strings.TrimSpace(status) == "-9", nil
		}
	}
	outcome := <-s.ended
	delete(r.asks, p.Library)
	return outcome.Killed(), nil
}
