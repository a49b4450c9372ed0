package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/listener"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds on what clients may cost.
const (
	maxConnections = 256
	maxScrapes     = 8 // at a time; others wait
	maxHeader      = 8 << 10
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	idleTimeout    = 60 * time.Second
)

// Handler answers scrapes. localOnly refuses requests that name a host other than this machine, as a page in a browser would that
// found out how to reach loopback under a name of its own.
func Handler(c *Collector, localOnly bool) (http.Handler, error) {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", listener.InTurn(maxScrapes, 2*requestTimeout, promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, Timeout: requestTimeout, ErrorHandling: promhttp.HTTPErrorOnError,
	})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	return guard(mux, localOnly), nil
}

// guard sends away what no scrape looks like.
func guard(next http.Handler, localOnly bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if localOnly && !localHost(r.Host) {
			http.Error(w, "this server answers on this machine only", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 0)
		next.ServeHTTP(w, r)
	})
}

// localHost tells whether a Host header names this machine by a loopback address.
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// Server serves one collector.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// ErrAddress is in the chain of the error for an address that is none.
var ErrAddress = errors.New("not an address to listen on")

// Listen opens the address. A bare port listens on loopback: other machines must be asked for by name.
func Listen(address string, c *Collector) (*Server, error) {
	host, port, err := net.SplitHostPort(bracketed(address))
	if err != nil {
		return nil, fmt.Errorf("%w: %q (write for example 127.0.0.1:9740, or 0.0.0.0:9740 for every interface)", ErrAddress, address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return nil, fmt.Errorf("%w: %q has no port from 0 to 65535", ErrAddress, address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	open, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	bound, _ := netip.ParseAddrPort(open.Addr().String())
	handler, err := Handler(c, bound.Addr().IsLoopback())
	if err != nil {
		_ = open.Close()
		return nil, err
	}
	limited := listener.Limit(open, maxConnections)
	return &Server{
		listener: limited,
		http: &http.Server{
			Handler: handler, ConnState: limited.State, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: 2 * requestTimeout,
			IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		},
	}, nil
}

// bracketed writes an IPv6 address with a port as it should be written: Kubernetes gives a pod's address without brackets ("$(POD_IP):9740").
func bracketed(address string) string {
	at := strings.LastIndexByte(address, ':')
	if at < 0 || strings.HasPrefix(address, "[") {
		return address
	}
	if host, err := netip.ParseAddr(address[:at]); err == nil && host.Is6() {
		return "[" + address[:at] + "]" + address[at:]
	}
	return address
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve answers until the context ends, then lets scrapes under way finish.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), headerTimeout)
		defer cancel()
		_ = s.http.Shutdown(patience)
	})
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
