// Package otlp sends metrics to an OpenTelemetry collector.
//
// It takes the metrics that Prometheus would scrape and the address of a collector; out go the same names, labels and numbers over OTLP/HTTP (protobuf), once an
// interval. It uses OpenTelemetry's own message types. The SDK's exporter is left out: it brings gRPC, 2.6 MB of a wheel. A collector that does not answer costs a
// line and the readings of that interval, never more.
package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

// Exporter sends to one collector.
type Exporter struct {
	address string
	headers map[string]string
	client  *http.Client
	facts   []*common.KeyValue // of this process
	began   time.Time
}

// timeout is how long a collector may take to answer.
const timeout = 10 * time.Second

// New reads the address of a collector: http://host:4318, or with the whole path. Headers are written as in OTEL_EXPORTER_OTLP_HEADERS: key=value,key=value
// (opentelemetry.io/docs/specs/otel/protocol/exporter).
func New(endpoint, headers, version, host string, began time.Time) (*Exporter, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an address like http://localhost:4318", endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/metrics"
	}
	e := &Exporter{address: u.String(), headers: map[string]string{}, client: &http.Client{Timeout: timeout}, began: began}
	for pair := range strings.SplitSeq(headers, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok && pair != "" {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list of key=value")
		}
		if plain, err := url.PathUnescape(strings.TrimSpace(value)); ok && err == nil {
			e.headers[strings.TrimSpace(key)] = plain
		}
	}
	e.facts = attributes([]*dto.LabelPair{pair("service.name", "plimsoll"), pair("service.version", version), pair("host.name", host)})
	return e, nil
}

// Run sends what the collector of metrics has, once an interval, until the context ends; problems are told, the same one once.
func (e *Exporter) Run(ctx context.Context, from prometheus.Collector, interval time.Duration, tell func(error)) {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(from); err != nil {
		tell(fmt.Errorf("register the metrics: %w", err))
		return
	}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			err := e.push(ctx, registry, now)
			if err != nil && err.Error() != last && ctx.Err() == nil {
				tell(err)
			}
			last = fmt.Sprint(err)
		}
	}
}

func (e *Exporter) push(ctx context.Context, from prometheus.Gatherer, now time.Time) error {
	families, err := from.Gather()
	if err != nil {
		return fmt.Errorf("gather the metrics: %w", err)
	}
	body, err := proto.Marshal(e.message(families, now))
	if err != nil {
		return fmt.Errorf("write the metrics: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	for key, value := range e.headers {
		request.Header.Set(key, value)
	}
	response, err := e.client.Do(request)
	if err != nil {
		return fmt.Errorf("send the metrics: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("send the metrics: the collector answered %s", response.Status)
	}
	return nil
}

// message is what OTLP calls an ExportMetricsServiceRequest: on the wire the same as MetricsData, field 1 of both holds the resources' metrics
// (https://github.com/open-telemetry/opentelemetry-proto/blob/v1.7.0/opentelemetry/proto/collector/metrics/v1/metrics_service.proto#L37).
func (e *Exporter) message(families []*dto.MetricFamily, now time.Time) *metrics.MetricsData {
	scope := &metrics.ScopeMetrics{Scope: &common.InstrumentationScope{Name: "plimsoll"}}
	for _, f := range families {
		if m := e.metric(f, now); m != nil {
			scope.Metrics = append(scope.Metrics, m)
		}
	}
	return &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{Resource: &resource.Resource{Attributes: e.facts}, ScopeMetrics: []*metrics.ScopeMetrics{scope}}}}
}

// metric translates gauges and counters, which is all there is; nil for other kinds.
func (e *Exporter) metric(f *dto.MetricFamily, now time.Time) *metrics.Metric {
	out := &metrics.Metric{Name: f.GetName(), Description: f.GetHelp(), Unit: unit(f.GetName())}
	var points []*metrics.NumberDataPoint
	for _, m := range f.GetMetric() {
		value := m.GetGauge().GetValue()
		if f.GetType() == dto.MetricType_COUNTER {
			value = m.GetCounter().GetValue()
		}
		points = append(points, &metrics.NumberDataPoint{Attributes: attributes(m.GetLabel()), StartTimeUnixNano: uint64(e.began.UnixNano()), TimeUnixNano: uint64(now.UnixNano()),
			Value: &metrics.NumberDataPoint_AsDouble{AsDouble: value}})
	}
	switch f.GetType() {
	case dto.MetricType_GAUGE:
		out.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: points}}
	case dto.MetricType_COUNTER:
		out.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{DataPoints: points, IsMonotonic: true, AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}}
	default:
		return nil
	}
	return out
}

// unit is that of a metric by the end of its name, in the words of UCUM that OpenTelemetry asks for.
func unit(name string) string {
	for ending, unit := range map[string]string{"_bytes": "By", "_seconds": "s", "_ratio": "1", "_celsius": "Cel", "_bytes_per_second": "By/s"} {
		if strings.HasSuffix(name, ending) {
			return unit
		}
	}
	return ""
}

func attributes(labels []*dto.LabelPair) []*common.KeyValue {
	var out []*common.KeyValue
	for _, l := range labels {
		if l.GetValue() != "" {
			out = append(out, &common.KeyValue{Key: l.GetName(), Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: l.GetValue()}}})
		}
	}
	return out
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }
