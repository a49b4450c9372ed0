package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/simgpu"
	"github.com/plimsoll/plimsoll/internal/live/watch"
)

// tool finds a program of the Debian package prometheus. Tests with it run in make test-browser, which installs it.
func tool(t *testing.T, name string) string {
	t.Helper()
	if os.Getenv("PLIMSOLL_PROMETHEUS") == "" {
		t.Skipf("needs %s: make test-browser runs this test", name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed; run scripts/install-prometheus.sh", name)
	}
	return path
}

var deploy = filepath.Join("..", "..", "..", "deploy")

func TestTheAlertRulesPassTheirOwnTests(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "plimsoll.rules.yml"}, {"test", "rules", "plimsoll.test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = filepath.Join(deploy, "alerts")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestPromtoolFindsNothingToCriticise(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(tool(t, "promtool"), "check", "metrics")
	c, _, _ := demo(t, false)
	text, _ := scrape(t, c, false)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// prometheusServer starts a real Prometheus that scrapes the simulated machine, and gives the address of its API.
func prometheusServer(t *testing.T) string {
	t.Helper()
	program := tool(t, "prometheus")
	m, history := simgpu.Demo(), watch.NewHistory()
	c := NewCollector(Options{Version: "test", StaleAfter: time.Hour})
	now := time.Now()
	for at := now.Add(-4 * time.Minute); at.Before(now); at = at.Add(time.Second) {
		c.Show(history.Look(context.Background(), m, at))
	}
	s, err := Listen("127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-served })

	rules, err := filepath.Abs(filepath.Join(deploy, "alerts", "plimsoll.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n"+
		"  - job_name: plimsoll\n    static_configs: [{targets: [%q]}]\n", rules, s.Address())
	if err := os.WriteFile(filepath.Join(folder, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	cmd := exec.Command(program, "--config.file="+filepath.Join(folder, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus said:\n%s", log.String())
		}
	})
	return "http://" + address
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// api asks Prometheus and decodes the data of its answer.
func api(address, path string, data any) error {
	response, err := http.Get(address + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// eventually repeats a check until it passes or half a minute is over.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for range 300 {
		if err = check(); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal(err)
}

func series(address, query string) (int, error) {
	var data struct{ Result []any }
	err := api(address, "query?query="+url.QueryEscape(query), &data)
	return len(data.Result), err
}

func TestARealPrometheusScrapesEvaluatesAndFeedsTheDashboard(t *testing.T) {
	t.Parallel()
	address := prometheusServer(t)
	// Prometheus asks for OpenMetrics first; a page that breaks the format makes the target unhealthy.
	eventually(t, func() error {
		var data struct {
			ActiveTargets []struct{ Health, LastError string }
		}
		if err := api(address, "targets", &data); err != nil {
			return err
		}
		if len(data.ActiveTargets) != 1 || data.ActiveTargets[0].Health != "up" {
			return fmt.Errorf("targets: %+v", data.ActiveTargets)
		}
		return nil
	})
	for _, m := range Table {
		eventually(t, func() error {
			n, err := series(address, m.Name)
			if err == nil && n == 0 {
				return fmt.Errorf("no series of %s", m.Name)
			}
			return err
		})
	}
	checkAlerts(t, address)
	checkDashboard(t, address)
}

// checkAlerts waits until every rule is healthy and those that the simulated machine deserves are pending or firing.
func checkAlerts(t *testing.T, address string) {
	t.Helper()
	deserved := map[string]bool{
		"GPUProcessMemoryGrows": true, "GPUMemoryRunsOutToday": true, "GPUMemoryOrphaned": true, "OtherProcessOnTrainingGPU": true,
		"GPUMemoryRunsOutSoon": false, "GPUsCannotBeRead": false,
	}
	eventually(t, func() error {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, State, Health, LastError string }
			}
		}
		if err := api(address, "rules", &data); err != nil {
			return err
		}
		if len(data.Groups) != 1 || len(data.Groups[0].Rules) != len(deserved) {
			return fmt.Errorf("rules: %+v", data)
		}
		for _, r := range data.Groups[0].Rules {
			if active := r.State == "pending" || r.State == "firing"; r.Health != "ok" || active != deserved[r.Name] {
				return fmt.Errorf("rule %s is %s and %s: %s", r.Name, r.Health, r.State, r.LastError)
			}
		}
		return nil
	})
}

// checkDashboard runs every query of the Grafana dashboard; each must find something on the simulated machine.
func checkDashboard(t *testing.T, address string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, "grafana", "plimsoll.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) < 10 {
		t.Errorf("the dashboard has %d panels", len(dashboard.Panels))
	}
	seen := map[int]bool{}
	for _, p := range dashboard.Panels {
		if seen[p.ID] || len(p.Targets) == 0 {
			t.Errorf("panel %q: id %d twice, or no query", p.Title, p.ID)
		}
		seen[p.ID] = true
		for _, target := range p.Targets {
			query := strings.ReplaceAll(target.Expr, "$instance", ".*")
			eventually(t, func() error {
				n, err := series(address, query)
				if err == nil && n == 0 {
					return fmt.Errorf("panel %q finds nothing: %s", p.Title, query)
				}
				return err
			})
		}
	}
}
