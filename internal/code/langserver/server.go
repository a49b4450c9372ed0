// Package langserver shows lint findings in an editor as one types.
//
// It takes messages of the language server protocol on a stream and returns diagnostics for each open document, code actions with the repairs of its
// findings, and, where the cursor rests, the page of a rule. Documents are checked with what the editor holds, saved or not, and with the
// settings of their pyproject.toml. It changes no files: edits are offered to the editor. A message that cannot be read is answered with an error.
package langserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/workspace"
)

// server is one session with an editor.
type server struct {
	version string
	conn    *jsonrpc2.Conn

	mu       sync.Mutex
	open     map[string]*document // by URI
	utf8     bool                 // positions count bytes, not UTF-16 units
	shutdown bool
	exit     chan struct{}
	ended    sync.Once
	wake     chan struct{} // something is to be checked
	warned   map[string]bool
	cache    *workspace.Cache
}

// document is a text that the editor has open.
type document struct {
	uri, path string
	version   int
	text      []byte
	cells     []cell // of a notebook that the editor shows as cells

	checked  []byte // the text that the findings are about; nil: none yet
	findings []lint.Finding
}

// ErrNoShutdown says that the editor went away without saying so.
var ErrNoShutdown = errors.New("the editor ended the session without a shutdown request")

// Serve answers an editor until it says exit or the stream ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer, version string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{version: version, open: map[string]*document{}, exit: make(chan struct{}), wake: make(chan struct{}, 1), warned: map[string]bool{}, cache: workspace.MemoryCache()}
	ready := make(chan struct{})
	handler := jsonrpc2.HandlerWithError(func(ctx context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
		<-ready
		return s.handle(r)
	})
	quiet := jsonrpc2.SetLogger(nowhere{})
	s.conn = jsonrpc2.NewConn(ctx, jsonrpc2.NewBufferedStream(stream{in, out}, jsonrpc2.VSCodeObjectCodec{}), handler, quiet)
	close(ready)
	var wg sync.WaitGroup
	wg.Go(func() { s.work(ctx) })
	select {
	case <-s.exit:
	case <-s.conn.DisconnectNotify():
	case <-ctx.Done():
	}
	cancel()
	s.conn.Close()
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shutdown {
		return ErrNoShutdown
	}
	return nil
}

// stream is standard input and output as one.
type stream struct {
	io.Reader
	io.Writer
}

func (s stream) Close() error {
	if c, ok := s.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// nowhere takes log lines of the library: standard error belongs to the editor's log of crashes.
type nowhere struct{}

func (nowhere) Printf(string, ...any) {}

// handle answers one message. Messages come one after the other, so that a change is there before the next request is answered.
func (s *server) handle(r *jsonrpc2.Request) (any, error) {
	switch r.Method {
	case "initialize":
		return with(r, s.initialize)
	case "shutdown":
		s.mu.Lock()
		s.shutdown = true
		s.mu.Unlock()
		return nil, nil
	case "exit":
		s.ended.Do(func() { close(s.exit) })
		return nil, nil
	case "textDocument/didOpen":
		return with(r, func(p didOpenParams) (any, error) { return nil, s.hold(p.TextDocument) })
	case "textDocument/didChange":
		return with(r, s.change)
	case "textDocument/didClose":
		return with(r, s.closed)
	case "notebookDocument/didOpen":
		return with(r, s.openNotebook)
	case "notebookDocument/didChange":
		return with(r, s.changeNotebook)
	case "notebookDocument/didClose":
		return with(r, s.closeNotebook)
	case "textDocument/didSave", "notebookDocument/didSave", "workspace/didChangeWatchedFiles", "workspace/didChangeConfiguration":
		s.recheck()
		return nil, nil
	case "textDocument/codeAction":
		return with(r, s.codeActions)
	case "textDocument/hover":
		return with(r, s.hover)
	}
	if r.Notif || strings.HasPrefix(r.Method, "$/") {
		return nil, nil
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "not supported: " + r.Method}
}

// with reads the parameters of a message.
func with[P any](r *jsonrpc2.Request, do func(P) (any, error)) (any, error) {
	var p P
	if r.Params == nil {
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: r.Method + " has no parameters"}
	}
	if err := json.Unmarshal(*r.Params, &p); err != nil {
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: r.Method + ": " + err.Error()}
	}
	return do(p)
}

func (s *server) initialize(p initializeParams) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.utf8 = slices.Contains(p.Capabilities.General.PositionEncodings, "utf-8")
	encoding := "utf-16"
	if s.utf8 {
		encoding = "utf-8"
	}
	return initializeResult{serverCapabilities{
		PositionEncoding: encoding, TextDocumentSync: textDocumentSync{true, 1, true}, HoverProvider: true,
		NotebookSync:       notebookSync{[]notebookSelector{{"*", []cellSelector{{"python"}}}}, true},
		CodeActionProvider: codeActionProvider{[]string{kindQuickFix, kindFixAll}},
	}, serverInfo{"plimsoll", s.version}}, nil
}

// hold takes the text of a document.
func (s *server) hold(t textDocument) error {
	s.keep(&document{uri: t.URI, path: pathOf(t.URI), version: t.Version, text: []byte(t.Text)})
	return nil
}

func (s *server) keep(d *document) {
	s.mu.Lock()
	s.open[d.uri] = d
	s.mu.Unlock()
	s.recheck()
}

func (s *server) change(p didChangeParams) (any, error) {
	s.mu.Lock()
	d := s.open[p.TextDocument.URI]
	s.mu.Unlock()
	if d == nil || len(p.ContentChanges) == 0 {
		return nil, nil
	}
	last := p.ContentChanges[len(p.ContentChanges)-1]
	if last.Range != nil {
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: "send the whole text of a changed document (textDocumentSync.change is 1)"}
	}
	return nil, s.hold(textDocument{URI: p.TextDocument.URI, Version: p.TextDocument.Version, Text: last.Text})
}

func (s *server) closed(p documentParams) (any, error) {
	s.mu.Lock()
	delete(s.open, p.TextDocument.URI)
	s.mu.Unlock()
	s.recheck()
	return nil, s.clear(p.TextDocument.URI)
}

// clear takes the diagnostics of a text away.
func (s *server) clear(uri string) error {
	return s.conn.Notify(context.Background(), "textDocument/publishDiagnostics", publishDiagnosticsParams{URI: uri, Diagnostics: []diagnostic{}})
}

// recheck asks for all open documents to be looked at anew: one may import another.
func (s *server) recheck() {
	s.mu.Lock()
	for _, d := range s.open {
		d.checked = nil
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // asked for already
	}
}

// work checks documents whenever some changed. Changes that come meanwhile are taken together.
func (s *server) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.mu.Lock()
		var uris []string
		for uri, d := range s.open {
			if d.checked == nil {
				uris = append(uris, uri)
			}
		}
		s.mu.Unlock()
		slices.Sort(uris)
		for _, uri := range uris {
			if d := s.current(uri); d != nil && ctx.Err() == nil {
				for _, p := range s.diagnostics(d) {
					_ = s.conn.Notify(ctx, "textDocument/publishDiagnostics", p)
				}
			}
		}
	}
}

// current gives a copy of an open document with the findings of its text as it is now; nil where it is not open.
func (s *server) current(uri string) *document {
	s.mu.Lock()
	d, open := s.open[uri]
	if !open {
		s.mu.Unlock()
		return nil
	}
	asked := *d
	held := map[string][]byte{}
	for _, o := range s.open {
		held[o.path] = o.text
	}
	s.mu.Unlock()
	if asked.checked != nil {
		return &asked
	}
	asked.findings = s.check(asked, held)
	asked.checked = asked.text
	s.mu.Lock()
	if d.version == asked.version && s.open[uri] == d {
		d.checked, d.findings = asked.checked, asked.findings
	}
	s.mu.Unlock()
	return &asked
}

// check looks at one document among those that are open.
func (s *server) check(d document, held map[string][]byte) []lint.Finding {
	settings, err := workspace.ReadSettings(d.path, nil)
	if err != nil {
		s.warn(err)
		settings = workspace.Settings{}
	}
	r := workspace.New(settings).Holding(held).Caching(s.cache).File(d.path)
	if r.Err != nil {
		return nil // a notebook that is being written is no JSON at times
	}
	fresh, _, _, err := settings.HideKnown(r.Findings)
	if err != nil {
		s.warn(err)
		return r.Findings
	}
	return fresh
}

// warn shows a message once.
func (s *server) warn(err error) {
	s.mu.Lock()
	known := s.warned[err.Error()]
	s.warned[err.Error()] = true
	s.mu.Unlock()
	if !known {
		_ = s.conn.Notify(context.Background(), "window/showMessage", showMessageParams{2, fmt.Sprintf("plimsoll: %v", err)})
	}
}

var drive = regexp.MustCompile(`^/[A-Za-z]:`)

// pathOf is the file that a URI names; of a document that was never saved, its name.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return filepath.Base(uri)
	}
	path := u.Path
	if drive.MatchString(path) {
		path = path[1:]
	}
	return filepath.Clean(filepath.FromSlash(path))
}
