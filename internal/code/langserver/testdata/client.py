"""Drives `plimsoll lint --lsp` with the client of pygls: python client.py PLIMSOLL FILE. Prints what an editor would show."""
import asyncio
import pathlib
import sys

from lsprotocol import types
from pygls.lsp.client import LanguageClient


async def cells(client, notebook, text, until):
    """Opens the file as two cells of a notebook, the second with a line for IPython before it; types in one; closes it."""
    head, body = text.split("\n\n", 1)
    first, second = notebook.replace("file:", "vscode-notebook-cell:") + "#W0", notebook.replace("file:", "vscode-notebook-cell:") + "#W1"
    code = types.NotebookCellKind.Code
    client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(
        types.NotebookDocument(uri=notebook, notebook_type="jupyter-notebook", version=1, cells=[types.NotebookCell(code, first), types.NotebookCell(code, second)]),
        [types.TextDocumentItem(uri=first, language_id="python", version=1, text=head), types.TextDocumentItem(uri=second, language_id="python", version=1, text="%matplotlib \\\n  inline\n" + body)],
    ))
    print("first cell:", [d.code for d in await until((first, 1))])
    found = await until((second, 1))
    for d in found:
        print("second cell:", d.code, d.severity.name, d.range.start.line, d.range.start.character)
    actions = await client.text_document_code_action_async(types.CodeActionParams(types.TextDocumentIdentifier(uri=second), found[0].range, types.CodeActionContext(diagnostics=found)))
    for a in actions:
        print("action:", a.title, [(e.range.start.line, e.range.start.character, e.new_text) for e in a.edit.changes[second]])
    top = types.Position(line=2, character=0)
    client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(
        types.VersionedNotebookDocumentIdentifier(version=2, uri=notebook),
        types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(text_content=[types.NotebookDocumentCellContentChanges(
            types.VersionedTextDocumentIdentifier(version=2, uri=second), [types.TextDocumentContentChangePartial(types.Range(top, top), "@torch.no_grad()\n")])])),
    ))
    print("after typing:", [d.code for d in await until((second, 2))])
    client.notebook_document_did_close(types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier(uri=notebook), [types.TextDocumentIdentifier(uri=first), types.TextDocumentIdentifier(uri=second)]))
    print("after closing:", await until((second, None)))


async def main(plimsoll, path):
    client = LanguageClient("editor", "1")
    seen = {}  # by version, of the file; by URI and version, of cells
    news = asyncio.Event()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(params):
        seen[params.version if params.uri == uri else (params.uri, params.version)] = params.diagnostics
        news.set()

    async def until(version):
        while version not in seen:
            await news.wait()
            news.clear()
        return seen[version]

    uri, text = path.as_uri(), path.read_text()
    await client.start_io(plimsoll, "lint", "--lsp")
    result = await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities(), process_id=None, root_uri=None))
    print("server:", result.server_info.name, result.capabilities.position_encoding)
    client.initialized(types.InitializedParams())

    document = types.TextDocumentIdentifier(uri=uri)
    client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri=uri, language_id="python", version=1, text=text)))
    found = await until(1)
    for d in found:
        print("diagnostic:", d.code, d.severity.name, d.range.start.line, d.range.start.character)

    actions = await client.text_document_code_action_async(types.CodeActionParams(document, found[0].range, types.CodeActionContext(diagnostics=found)))
    for a in actions:
        print("action:", a.title)
    page = await client.text_document_hover_async(types.HoverParams(document, found[0].range.start))
    print("hover:", page.contents.value.splitlines()[0])

    lines = text.splitlines(keepends=True)
    for e in sorted(actions[0].edit.changes[uri], key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
        assert e.range.start.line == e.range.end.line
        line = lines[e.range.start.line]
        lines[e.range.start.line] = line[: e.range.start.character] + e.new_text + line[e.range.end.character :]
    fixed = "".join(lines)
    compile(fixed, "fixed.py", "exec")
    client.text_document_did_change(types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(version=2, uri=uri), [types.TextDocumentContentChangeWholeDocument(fixed)]))
    print("after the first action:", [d.code for d in await until(2)])

    await cells(client, path.with_name("train.ipynb").as_uri(), text, until)

    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    print("exit code:", client._server.returncode)


asyncio.run(asyncio.wait_for(main(sys.argv[1], pathlib.Path(sys.argv[2]).resolve()), 60))
