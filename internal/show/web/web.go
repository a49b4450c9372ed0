// Package web serves the page of plimsoll view on this machine's loopback and to nobody else.
//
// It takes a book of answers and a report, as they become ready and returns the page and JSON over HTTP. Requests must carry the token in their path and
// name this machine as their host, so that other users, other pages in the browser and names that are made to point here get nothing. Everything
// is read-only: any method but GET and HEAD is refused.
package web

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/listener"
	"github.com/plimsoll/plimsoll/internal/show/page"
)

const (
	maxConnections = 256             // a browser opens six
	maxAnswers     = 32              // at a time; others wait
	writeTimeout   = 2 * time.Minute // an answer to the slowest question, sent to somebody who reads
)

// Server answers one page.
type Server struct {
	token    string
	host     string
	listener net.Listener
	answers  int           // at a time
	write    time.Duration // for an answer

	ready   chan struct{} // closed when book is set
	book    *page.Book
	known   chan struct{} // closed when summary is set
	summary page.Summary
}

// Listen opens a random port on the loopback and makes a token.
func Listen() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 18)
	rand.Read(secret) // never fails, as its documentation says
	return &Server{
		token: base64.RawURLEncoding.EncodeToString(secret), host: l.Addr().String(), listener: l, answers: maxAnswers, write: writeTimeout,
		ready: make(chan struct{}), known: make(chan struct{}),
	}, nil
}

// URL is where the page is.
func (s *Server) URL() string { return "http://" + s.host + "/" + s.token + "/" }

// Close gives the port back where nothing was served.
func (s *Server) Close() error { return s.listener.Close() }

// Show gives the recordings; questions that came before wait for it. It is called once.
func (s *Server) Show(b *page.Book) {
	s.book = b
	close(s.ready)
}

// Conclude gives the report. It is called once.
func (s *Server) Conclude(sum page.Summary) {
	s.summary = sum
	close(s.known)
}

// Serve answers until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	limited := listener.Limit(s.listener, maxConnections)
	h := &http.Server{
		Handler: listener.InTurn(s.answers, s.write, s), ConnState: limited.State, ReadTimeout: 10 * time.Second, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: s.write,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { h.Close() })
	defer stop()
	err := h.Serve(limited)
	if err == http.ErrServerClosed {
		return nil
	}
	return err
}

// ServeHTTP checks who asks and answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", page.ServedPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "this page is read-only", http.StatusMethodNotAllowed)
		return
	}
	if r.Host != s.host && r.Host != "localhost"+s.host[strings.LastIndexByte(s.host, ':'):] {
		http.Error(w, "this page is served to this machine only", http.StatusForbidden)
		return
	}
	token, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
		http.Error(w, "open the address that plimsoll view printed: it carries a token", http.StatusForbidden)
		return
	}
	s.serve(w, r, rest)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, path string) {
	switch path {
	case "":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		page.WriteServed(w)
	case "app.js":
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		w.Write([]byte(page.Script()))
	case "app.css":
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		w.Write([]byte(page.Style()))
	case "api/summary":
		if s.wait(r, s.known) {
			answer(w, s.summary, nil)
		}
	default:
		name, ok := strings.CutPrefix(path, "api/")
		if !ok {
			http.NotFound(w, r)
			return
		}
		if s.wait(r, s.ready) {
			value, err := s.book.Ask(name, r.URL.Query())
			answer(w, value, err)
		}
	}
}

// wait waits for what is being read; false: the asker went away.
func (s *Server) wait(r *http.Request, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-r.Context().Done():
		return false
	}
}

// Opener is a page for the browser to open that leads to the address. The address carries the token, and what stands in the command line of a browser can
// be read by every user of the machine; the content of a file can not.
func (s *Server) Opener() []byte {
	return []byte(`<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=` + s.URL() + `"><title>Plimsoll</title>`)
}

func answer(w http.ResponseWriter, value any, err error) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		value = map[string]string{"error": err.Error()}
	}
	json.NewEncoder(w).Encode(value)
}
