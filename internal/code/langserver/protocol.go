package langserver

// The part of the protocol that is spoken here, under the names it has there
// (https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/).

type initializeParams struct {
	Capabilities struct {
		General struct {
			PositionEncodings []string `json:"positionEncodings"`
		} `json:"general"`
	} `json:"capabilities"`
}

type initializeResult struct {
	Capabilities serverCapabilities `json:"capabilities"`
	ServerInfo   serverInfo         `json:"serverInfo"`
}

type serverInfo struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

type serverCapabilities struct {
	PositionEncoding   string             `json:"positionEncoding"`
	TextDocumentSync   textDocumentSync   `json:"textDocumentSync"`
	NotebookSync       notebookSync       `json:"notebookDocumentSync"`
	HoverProvider      bool               `json:"hoverProvider"`
	CodeActionProvider codeActionProvider `json:"codeActionProvider"`
}

type textDocumentSync struct {
	OpenClose bool `json:"openClose"`
	Change    int  `json:"change"` // 1: the whole text each time
	Save      bool `json:"save"`
}

type codeActionProvider struct {
	CodeActionKinds []string `json:"codeActionKinds"`
}

type textDocument struct {
	URI      string `json:"uri"`
	Language string `json:"languageId"`
	Version  int    `json:"version"`
	Text     string `json:"text"`
}

type notebookSync struct {
	Selector []notebookSelector `json:"notebookSelector"`
	Save     bool               `json:"save"`
}

// notebookSelector names cells by their language, of every kind of notebook.
type notebookSelector struct {
	Notebook string         `json:"notebook"`
	Cells    []cellSelector `json:"cells"`
}

type cellSelector struct {
	Language string `json:"language"`
}

type notebookDocument struct {
	URI     string         `json:"uri"`
	Version int            `json:"version"`
	Cells   []notebookCell `json:"cells"`
}

type notebookCell struct {
	Kind     int    `json:"kind"` // 1: text, 2: code
	Document string `json:"document"`
}

type didOpenNotebookParams struct {
	Notebook notebookDocument `json:"notebookDocument"`
	Cells    []textDocument   `json:"cellTextDocuments"`
}

type didChangeNotebookParams struct {
	Notebook notebookDocument `json:"notebookDocument"`
	Change   struct {
		Cells struct {
			Structure *struct {
				Array struct {
					Start       int            `json:"start"`
					DeleteCount int            `json:"deleteCount"`
					Cells       []notebookCell `json:"cells"`
				} `json:"array"`
				DidOpen  []textDocument `json:"didOpen"`
				DidClose []textDocument `json:"didClose"`
			} `json:"structure"`
			Data        []notebookCell    `json:"data"`
			TextContent []cellTextChanges `json:"textContent"`
		} `json:"cells"`
	} `json:"change"`
}

type cellTextChanges struct {
	Document textDocument    `json:"document"`
	Changes  []contentChange `json:"changes"`
}

type notebookParams struct {
	Notebook notebookDocument `json:"notebookDocument"`
}

type didOpenParams struct {
	TextDocument textDocument `json:"textDocument"`
}

type didChangeParams struct {
	TextDocument   textDocument    `json:"textDocument"`
	ContentChanges []contentChange `json:"contentChanges"`
}

type contentChange struct {
	Range *textRange `json:"range"` // nil: Text is all there is
	Text  string     `json:"text"`
}

type documentParams struct {
	TextDocument textDocument `json:"textDocument"`
}

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type textRange struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

// overlaps tells whether two ranges share a place; an empty one, a cursor, may stand at either end of the other.
func (r textRange) overlaps(o textRange) bool {
	return !r.End.before(o.Start) && !o.End.before(r.Start)
}

func (p position) before(o position) bool {
	return p.Line < o.Line || p.Line == o.Line && p.Character < o.Character
}

// The severities of a diagnostic.
const (
	severityError       = 1
	severityWarning     = 2
	severityInformation = 3
)

type diagnostic struct {
	Range    textRange `json:"range"`
	Severity int       `json:"severity"`
	Code     string    `json:"code"`
	Source   string    `json:"source"`
	Message  string    `json:"message"`
	Tags     []int     `json:"tags,omitempty"` // 1: unnecessary
}

type publishDiagnosticsParams struct {
	URI         string       `json:"uri"`
	Version     int          `json:"version,omitempty"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type codeActionParams struct {
	TextDocument textDocument `json:"textDocument"`
	Range        textRange    `json:"range"`
	Context      struct {
		Only []string `json:"only"`
	} `json:"context"`
}

type codeAction struct {
	Title       string        `json:"title"`
	Kind        string        `json:"kind"`
	Diagnostics []diagnostic  `json:"diagnostics,omitempty"`
	IsPreferred bool          `json:"isPreferred,omitempty"`
	Edit        workspaceEdit `json:"edit"`
}

type workspaceEdit struct {
	Changes map[string][]textEdit `json:"changes"`
}

type textEdit struct {
	Range   textRange `json:"range"`
	NewText string    `json:"newText"`
}

type hoverParams struct {
	TextDocument textDocument `json:"textDocument"`
	Position     position     `json:"position"`
}

type hover struct {
	Contents markup    `json:"contents"`
	Range    textRange `json:"range"`
}

type markup struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

type showMessageParams struct {
	Type    int    `json:"type"`
	Message string `json:"message"`
}
