package mcpserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// roots are the folders that may be read, links resolved. A file must lie under one of each list that is there: the client's, and the server's own.
type roots struct {
	client, own []string
	asked       bool // the client was asked
}

// rootsQuestion is the name of the request for the client's roots within a call.
const rootsQuestion = "roots"

// roots asks the client for its roots where it has any. A result that is not nil goes to the client first, which calls again with the answer.
func (s *server) roots(req *mcp.CallToolRequest) (roots, *mcp.CallToolResult, error) {
	own, err := resolved(s.Roots)
	if err != nil {
		return roots{}, nil, err
	}
	if !hasRoots(req) {
		return roots{own: own}, nil, nil
	}
	response, answered := req.Params.InputResponses[rootsQuestion]
	if !answered {
		//lint:ignore SA1019 clients of 2026 name what may be read in this way; --root is for the others
		return roots{}, &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{rootsQuestion: &mcp.ListRootsParams{}}}, nil
	}
	//lint:ignore SA1019 as above
	list, ok := response.(*mcp.ListRootsResult)
	if !ok {
		return roots{}, nil, errors.New("the client's list of roots cannot be read")
	}
	var client []string
	for _, r := range list.Roots {
		if path, ok := filePath(r.URI); ok {
			client = append(client, path)
		}
	}
	client, err = resolved(client)
	return roots{client: client, own: own, asked: true}, nil, err
}

// hasRoots tells whether the client can name roots.
func hasRoots(req *mcp.CallToolRequest) bool {
	init := req.Session.InitializeParams()
	//lint:ignore SA1019 as above
	return init != nil && init.Capabilities != nil && init.Capabilities.RootsV2 != nil
}

// filePath is the path of a file:// address on this machine.
func filePath(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Path == "" {
		return "", false
	}
	path := u.Path
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/") // file:///C:/work
	}
	return filepath.FromSlash(path), true
}

// resolved makes folders absolute and follows links; folders that are not there are left out.
func resolved(folders []string) ([]string, error) {
	var out []string
	for _, f := range folders {
		absolute, err := filepath.Abs(f)
		if err != nil {
			return nil, err
		}
		if path, err := filepath.EvalSymlinks(absolute); err == nil {
			out = append(out, path)
		}
	}
	return out, nil
}

// path resolves a name that the client gave and refuses what lies outside. Relative names are meant from the first root.
func (r roots) path(name string) (string, error) {
	all := append(append([]string{}, r.client...), r.own...)
	switch {
	case len(all) == 0 && r.asked:
		return "", errors.New("the client names no roots, so no file may be read; open a folder in the client, or start the server with plimsoll mcp --root FOLDER")
	case len(all) == 0:
		return "", errors.New("no file may be read: the client names no roots; start the server with plimsoll mcp --root FOLDER")
	case name == "":
		return "", errors.New("a path is empty")
	case !filepath.IsAbs(name):
		name = filepath.Join(all[0], name)
	}
	path, err := filepath.EvalSymlinks(name)
	outside := fmt.Errorf("%s is not under %s; only files there may be read", name, strings.Join(all, " or "))
	if err != nil {
		if !r.allows(filepath.Clean(name)) {
			return "", outside // whether it is there is nobody's business
		}
		return "", fmt.Errorf("%s: there is no such file", name)
	}
	if !r.allows(path) {
		return "", outside
	}
	return path, nil
}

func (r roots) allows(path string) bool {
	return (len(r.client) == 0 && !r.asked || underAny(path, r.client)) && (len(r.own) == 0 || underAny(path, r.own))
}

// folders are those under which everything may be read.
func (r roots) folders() []string {
	if len(r.own) == 0 || len(r.client) == 0 && !r.asked {
		return append(append([]string{}, r.client...), r.own...)
	}
	var both []string
	for _, c := range r.client {
		for _, o := range r.own {
			if underAny(c, []string{o}) {
				both = append(both, c)
			} else if underAny(o, []string{c}) {
				both = append(both, o)
			}
		}
	}
	return both
}

func underAny(path string, folders []string) bool {
	for _, f := range folders {
		if rel, err := filepath.Rel(f, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// paths resolves several and checks that they are plain files and folders of a size that can be read, with no link in a folder that leads outside.
func (r roots) paths(names []string) ([]string, error) {
	var out []string
	budget := budget{}
	for _, name := range names {
		path, err := r.path(name)
		if err != nil {
			return nil, err
		}
		err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // a folder that may not be read is not read by plimsoll either
			}
			return budget.take(p, d)
		})
		if err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

// budget is what a question may name.
type budget struct {
	files int
	bytes int64
}

func (b *budget) take(path string, d fs.DirEntry) error {
	if d.IsDir() || d.Type()&fs.ModeSymlink != 0 { // links in folders are not followed
		return nil
	}
	if !d.Type().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	info, err := d.Info()
	if err != nil {
		return nil
	}
	b.files++
	b.bytes += info.Size()
	switch {
	case b.files > maxFiles:
		return fmt.Errorf("more than %d files; name a smaller folder", maxFiles)
	case b.bytes > maxInput:
		return fmt.Errorf("more than %d GiB of files; name fewer", maxInput>>30)
	}
	return nil
}

// small reads a file that is part of a question.
func (r roots) small(name string) ([]byte, error) {
	paths, err := r.paths([]string{name})
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(paths[0])
	if err == nil && info.IsDir() {
		return r.small(filepath.Join(paths[0], "config.json"))
	}
	if err == nil && info.Size() > maxText {
		return nil, fmt.Errorf("%s has %d bytes, more than a configuration has", name, info.Size())
	}
	return os.ReadFile(paths[0])
}
