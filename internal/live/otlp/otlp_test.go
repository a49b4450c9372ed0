package otlp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

func registryWith(t *testing.T) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	used := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "plimsoll_gpu_memory_used_bytes", Help: "Memory in use."}, []string{"uuid", "gpu"})
	used.WithLabelValues("GPU-1", "0").Set(5 << 30)
	read := prometheus.NewCounter(prometheus.CounterOpts{Name: "plimsoll_readings_total", Help: "Readings."})
	read.Add(3)
	r.MustRegister(used, read)
	return r
}

func TestACollectorGetsWhatPrometheusWouldScrape(t *testing.T) {
	t.Parallel()
	var got metrics.MetricsData
	var path, kind, key string
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, kind, key = r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Api-Key")
		body, _ := io.ReadAll(r.Body)
		if err := proto.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
	}))
	defer collector.Close()
	began, now := time.Unix(1000, 0), time.Unix(1060, 0)
	e, err := New(collector.URL, "api-key=a%20b", "1.2.3", "node7", began)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.push(context.Background(), registryWith(t), now); err != nil {
		t.Fatal(err)
	}
	if path != "/v1/metrics" || kind != "application/x-protobuf" || key != "a b" {
		t.Errorf("asked %s as %s with %q", path, kind, key)
	}
	one := got.GetResourceMetrics()[0]
	if text := one.GetResource().String(); !strings.Contains(text, "node7") || !strings.Contains(text, "1.2.3") {
		t.Errorf("resource %s", text)
	}
	all := one.GetScopeMetrics()[0].GetMetrics()
	if len(all) != 2 {
		t.Fatalf("metrics %v", all)
	}
	used, read := all[0], all[1]
	point := used.GetGauge().GetDataPoints()[0]
	if used.GetName() != "plimsoll_gpu_memory_used_bytes" || used.GetUnit() != "By" || point.GetAsDouble() != 5<<30 || point.GetTimeUnixNano() != uint64(now.UnixNano()) || len(point.GetAttributes()) != 2 {
		t.Errorf("gauge %v", used)
	}
	if sum := read.GetSum(); !sum.GetIsMonotonic() || sum.GetDataPoints()[0].GetAsDouble() != 3 || sum.GetDataPoints()[0].GetStartTimeUnixNano() != uint64(began.UnixNano()) {
		t.Errorf("counter %v", read)
	}
}

func TestACollectorThatRefusesIsTold(t *testing.T) {
	t.Parallel()
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer collector.Close()
	e, err := New(collector.URL+"/custom", "", "", "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.push(context.Background(), registryWith(t), time.Now()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("refused: %v", err)
	}
	for _, wrong := range []string{"", "localhost:4318", "grpc://x:4317", "http://"} {
		if _, err := New(wrong, "", "", "", time.Now()); err == nil {
			t.Errorf("%q was taken for an address", wrong)
		}
	}
}
