package metrics

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func deployed(t *testing.T, parts ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{deploy}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheDaemonSetIsReadOnlyAndTakesNoCard(t *testing.T) {
	t.Parallel()
	type document struct {
		Kind     string
		Metadata struct{ Namespace string }
		Spec     struct {
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					HostPID     bool `yaml:"hostPID"`
					HostNetwork bool `yaml:"hostNetwork"`
					Volumes     []any
					Containers  []struct {
						Args            []string
						Ports           []struct{ ContainerPort int }
						Resources       struct{ Limits, Requests map[string]string }
						SecurityContext struct {
							RunAsNonRoot             bool  `yaml:"runAsNonRoot"`
							RunAsUser                int   `yaml:"runAsUser"`
							AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
							ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
							Privileged               bool
							Capabilities             struct{ Drop, Add []string }
						} `yaml:"securityContext"`
					}
				}
			}
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(deployed(t, "kubernetes", "daemonset.yaml")))
	var kinds []string
	for {
		var d document
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, d.Kind)
		if d.Kind != "DaemonSet" {
			continue
		}
		pod := d.Spec.Template
		c := pod.Spec.Containers[0]
		for name, value := range d.Spec.Selector.MatchLabels {
			if pod.Metadata.Labels[name] != value {
				t.Errorf("the selector %s=%s does not match the pods", name, value)
			}
		}
		if !pod.Spec.HostPID || !slices.Contains(c.Args, "metrics") {
			t.Errorf("hostPID %v, args %q", pod.Spec.HostPID, c.Args)
		}
		if s := c.SecurityContext; s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) ||
			len(s.Capabilities.Add) > 0 || !s.RunAsNonRoot || s.RunAsUser == 0 || s.Privileged {
			t.Errorf("security context: %+v", s)
		}
		if pod.Spec.HostNetwork || len(pod.Spec.Volumes) > 0 {
			t.Errorf("the pod has the host's network (%v) or folders (%v)", pod.Spec.HostNetwork, pod.Spec.Volumes)
		}
		for name := range c.Resources.Limits {
			if strings.Contains(name, "nvidia.com") {
				t.Errorf("the exporter takes a card away from jobs: %s", name)
			}
		}
	}
	if !slices.Equal(kinds, []string{"Namespace", "DaemonSet"}) {
		t.Errorf("documents: %q", kinds)
	}
}

func TestTheSystemdUnitStartsTheServerOnLoopbackWithoutRoot(t *testing.T) {
	t.Parallel()
	unit := string(deployed(t, "systemd", "plimsoll-metrics.service"))
	for _, line := range []string{
		"ExecStart=/usr/local/bin/plimsoll metrics --listen 127.0.0.1:9740", "DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "AmbientCapabilities=", "CapabilityBoundingSet=", "ProtectKernelLogs=yes", "RestrictNamespaces=yes", "SystemCallFilter=@system-service", "MemoryMax=256M", "[Install]",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
}

func TestRulesAndDashboardNameOnlyMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, m := range Table {
		known[m.Name] = true
	}
	name := regexp.MustCompile(`plimsoll_[a-z_]+`)
	for _, parts := range [][]string{{"alerts", "plimsoll.rules.yml"}, {"alerts", "plimsoll.test.yml"}, {"grafana", "plimsoll.json"}} {
		for _, found := range name.FindAllString(string(deployed(t, parts...)), -1) {
			if !known[found] {
				t.Errorf("%s: there is no metric %s", filepath.Join(parts...), found)
			}
		}
	}
}
