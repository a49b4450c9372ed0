package langserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/plimsoll/plimsoll/internal/code/langserver"
)

// editor is the other end of a session: it collects what the server publishes.
type editor struct {
	t         *testing.T
	conn      *jsonrpc2.Conn
	published chan published
	done      chan error
}

type published struct {
	URI         string
	Version     int
	Diagnostics []struct {
		Range    struct{ Start, End place }
		Severity int
		Code     string
		Message  string
	}
}

type place struct{ Line, Character int }

type pipe struct {
	io.Reader
	io.WriteCloser
}

func start(t *testing.T, encodings ...string) *editor {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	e := &editor{t: t, published: make(chan published, 64), done: make(chan error, 1)}
	go func() {
		e.done <- langserver.Serve(context.Background(), in, out, "1.0")
		out.Close()
	}()
	handler := jsonrpc2.HandlerWithError(func(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
		var p published
		if r.Method == "textDocument/publishDiagnostics" && json.Unmarshal(*r.Params, &p) == nil {
			e.published <- p
		}
		return nil, nil
	})
	e.conn = jsonrpc2.NewConn(context.Background(), jsonrpc2.NewBufferedStream(pipe{fromServer, toServer}, jsonrpc2.VSCodeObjectCodec{}), handler)
	t.Cleanup(func() { e.conn.Close() })
	var result struct {
		Capabilities struct{ PositionEncoding string }
	}
	e.call("initialize", map[string]any{"capabilities": map[string]any{"general": map[string]any{"positionEncodings": encodings}}}, &result)
	if want := "utf-16"; len(encodings) == 0 && result.Capabilities.PositionEncoding != want {
		t.Errorf("positions are counted in %q", result.Capabilities.PositionEncoding)
	}
	e.notify("initialized", map[string]any{})
	return e
}

func (e *editor) call(method string, params, result any) {
	e.t.Helper()
	if err := e.conn.Call(context.Background(), method, params, result); err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
}

func (e *editor) notify(method string, params any) {
	e.t.Helper()
	if err := e.conn.Notify(context.Background(), method, params); err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
}

func (e *editor) open(path string, version int, text string) string {
	uri := (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
	e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": uri, "languageId": "python", "version": version, "text": text}})
	return uri
}

// until waits for the diagnostics of a version of a document.
func (e *editor) until(uri string, version int) published {
	e.t.Helper()
	for p := range e.published {
		if p.URI == uri && p.Version == version {
			return p
		}
	}
	return published{}
}

const leaky = "import torch\ntotal = 0\nfor x, y in loader:\n    größe = '🙂'; total += criterion(model(x), y)\nprint(total)\n"

func TestAnEditorSeesFindingsRepairsAndPages(t *testing.T) {
	t.Parallel()
	e := start(t)
	uri := e.open(filepath.Join(t.TempDir(), "train.py"), 1, leaky)
	p := e.until(uri, 1)
	if len(p.Diagnostics) != 1 || p.Diagnostics[0].Code != "LM001" || p.Diagnostics[0].Severity != 1 || p.Diagnostics[0].Range.Start != (place{3, 18}) {
		t.Fatalf("%+v", p)
	}
	cursor := map[string]any{"line": 3, "character": 20}
	at := map[string]any{"start": cursor, "end": cursor}
	var actions []struct {
		Title, Kind string
		Edit        struct {
			Changes map[string][]struct {
				Range   struct{ Start, End place }
				NewText string
			}
		}
	}
	e.call("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": uri}, "range": at, "context": map[string]any{"diagnostics": []any{}}}, &actions)
	if len(actions) < 2 || actions[0].Kind != "quickfix" || actions[0].Edit.Changes[uri][0].NewText != ".detach()" || actions[0].Edit.Changes[uri][0].Range.Start != (place{3, 49}) {
		t.Errorf("%+v", actions)
	}
	var page struct{ Contents struct{ Kind, Value string } }
	e.call("textDocument/hover", map[string]any{"textDocument": map[string]any{"uri": uri}, "position": cursor}, &page)
	if page.Contents.Kind != "markdown" || !strings.Contains(page.Contents.Value, "LM001 graph-retained-across-iterations") || !strings.Contains(page.Contents.Value, "## Wrong") {
		t.Errorf("%+v", page)
	}
	e.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": 2},
		"contentChanges": []any{map[string]any{"text": strings.Replace(leaky, "y)\n", "y).item()\n", 1)}}})
	if p := e.until(uri, 2); len(p.Diagnostics) != 0 {
		t.Errorf("the mistake is corrected, and still: %+v", p)
	}
	e.call("shutdown", nil, nil)
	e.notify("exit", nil)
	if err := <-e.done; err != nil {
		t.Error(err)
	}
}

func TestOneOpenDocumentImportsAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const program = "import torch\nfrom engine import step\ntotal = 0\nfor x in loader:\n    total += step(model, x)\nprint(total)\n"
	if err := os.WriteFile(filepath.Join(dir, "engine.py"), []byte("def step(model, x):\n    return model(x).mean().item()\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	e := start(t, "utf-8", "utf-16")
	uri := e.open(filepath.Join(dir, "train.py"), 1, program)
	if p := e.until(uri, 1); len(p.Diagnostics) != 0 {
		t.Errorf("with the file as saved: %+v", p)
	}
	e.open(filepath.Join(dir, "engine.py"), 7, "def step(model, x):\n    return model(x).mean()\n")
	for {
		if p := e.until(uri, 1); len(p.Diagnostics) == 1 && p.Diagnostics[0].Code == "LM001" {
			return // checked anew with what the editor holds, not with what was saved
		}
	}
}

func TestBadMessagesAreAnswered(t *testing.T) {
	t.Parallel()
	e := start(t)
	for method, params := range map[string]any{
		"textDocument/hover":      []any{1, 2},
		"textDocument/definition": map[string]any{},
		"textDocument/codeAction": "x",
	} {
		var wrong *jsonrpc2.Error
		if err := e.conn.Call(context.Background(), method, params, nil); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", method, err)
		}
	}
	var none any
	e.call("textDocument/hover", map[string]any{"textDocument": map[string]any{"uri": "file:///not/open.py"}, "position": place{1, 1}}, &none)
	if none != nil {
		t.Errorf("a document that is not open says %v", none)
	}
	e.conn.Close()
	if err := <-e.done; !errors.Is(err, langserver.ErrNoShutdown) {
		t.Errorf("gone without a word: %v", err)
	}
}
