// Command bundle makes the script and the style of plimsoll view from their sources.
//
// It takes the TypeScript modules and the style sheet in internal/show/page/src and returns internal/show/page/assets/app.js and
// app.css, minified. Run it with make web; a test compares what is committed with what it would write.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

const (
	sources = "../internal/show/page/src"
	assets  = "../internal/show/page/assets"
)

func main() {
	files, err := bundle()
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(assets, name), content, 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// bundle makes the assets by name.
func bundle() (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, entry := range map[string]string{"app.js": "main.ts", "app.css": "style.css"} {
		result := api.Build(api.BuildOptions{
			EntryPoints: []string{filepath.Join(sources, entry)}, Bundle: true, Write: false,
			Format: api.FormatIIFE, Target: api.ES2020, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
			MinifyWhitespace: true, MinifySyntax: true, MinifyIdentifiers: true,
		})
		if len(result.Errors) > 0 {
			return nil, fmt.Errorf("%s", api.FormatMessages(result.Errors, api.FormatMessagesOptions{Kind: api.ErrorMessage}))
		}
		out[name] = result.OutputFiles[0].Contents
	}
	return out, nil
}
