package browsertests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// evil are names that would run if any of them became markup or script.
var evil = []string{
	`<img src=x onerror="window.ran=1">`, `</script><script>window.ran=1</script>`, `"><svg onload=window.ran=1>`, `javascript:window.ran=1`,
	`{{constructor.constructor('window.ran=1')()}}`, "`${window.ran=1}`", `</title><script>window.ran=1</script>`,
}

// hostile writes a snapshot whose files and functions are such names, and whose own name is one too.
func hostile(t *testing.T) string {
	t.Helper()
	type object = map[string]any
	var events []object
	for i := range 200 {
		name := evil[i%len(evil)]
		frames := []object{{"name": name, "filename": "/home/me/" + name + ".py", "line": 1 + i}, {"name": "main" + name, "filename": name, "line": 3}}
		address := 1<<30 + i*4096
		events = append(events, object{"action": "alloc", "addr": address, "size": 2048 + i, "stream": 0, "frames": frames, "time_us": 1000 + 10*i})
		if i%3 == 0 {
			events = append(events, object{"action": "free_requested", "addr": address, "size": 2048 + i, "stream": 0, "frames": frames, "time_us": 1001 + 10*i},
				object{"action": "free_completed", "addr": address, "size": 2048 + i, "stream": 0, "frames": frames, "time_us": 1002 + 10*i})
		}
	}
	events = append(events, object{"action": "oom", "size": 1 << 30, "stream": 0, "device_free": 4096, "frames": []object{{"name": evil[0], "filename": evil[1] + ".py", "line": 7}}, "time_us": 9999})
	b, err := json.Marshal(object{"segments": []object{}, "device_traces": [][]object{events}, "allocator_settings": object{"PYTORCH_CUDA_ALLOC_CONF": evil[2]}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), `<img src=x onerror=window.ran=1>.json`)
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestNamesAreShownAndNeverRun(t *testing.T) {
	file := hostile(t)
	html := filepath.Join(t.TempDir(), "report.html")
	if out, err := exec.Command(binary, "view", "--html", html, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := serve(t, file)
	for _, c := range []struct{ url, allowed string }{{s.URL, s.URL}, {"file://" + html, "file://" + html}} {
		tab := open(t, c.url+"#by=line&tab=table&alloc=5", c.allowed, desk)
		walk(t, tab)
		text := eval[string](t, tab, `(async () => {
			document.querySelector('.tabs [data-value="table"]').click();
			await new Promise(r => setTimeout(r, 500));
			document.querySelector("table.alive tr[role=button]").click();
			return document.body.innerText;
		})()`)
		if !strings.Contains(text, `onerror="window.ran=1">`) {
			t.Errorf("%s: the names are not shown", c.url)
		}
		if eval[bool](t, tab, `"ran" in window || document.images.length > 0 || document.querySelectorAll("svg:not(.brand svg)").length > 0`) {
			t.Errorf("%s: a name became part of the page", c.url)
		}
	}
}
