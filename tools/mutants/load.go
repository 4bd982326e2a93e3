package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// loaded is a package with its types, and the text of its files.
type loaded struct {
	path string // its import path
	dir  string // below the module's root
	root string // of the module
	name string

	files []*source
	fset  *token.FileSet
	types *types.Package
	info  *types.Info
	// rapid says that its tests have properties of pgregory.net/rapid, and so that package's
	// flags.
	rapid bool
}

// source is one file.
type source struct {
	path   string // below the module's root
	text   []byte
	syntax *ast.File
	edits  []edit
}

// listed is the output of "go list", under its names.
type listed struct {
	ImportPath, Dir, Name, Export      string
	GoFiles, TestImports, XTestImports []string
	Module                             *struct{ Dir string }
	DepOnly                            bool
}

// load parses and checks a package. It reads imported packages from the build cache.
func load(ctx context.Context, pattern string) (*loaded, error) {
	//nolint:gosec // the package that the caller names
	list := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Name,Export,GoFiles,TestImports,XTestImports,Module,DepOnly", pattern)
	list.Stderr = os.Stderr
	answer, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := make(map[string]string)
	var target listed
	for decoder := json.NewDecoder(strings.NewReader(string(answer))); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) { //nolint:musttag // the names are those of its fields
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[l.ImportPath] = l.Export
		if !l.DepOnly {
			target = l
		}
	}
	if target.Module == nil {
		return nil, fmt.Errorf("%q: want one package of this module", pattern)
	}
	p := &loaded{path: target.ImportPath, root: target.Module.Dir, name: target.Name, fset: token.NewFileSet()}
	if p.dir, err = filepath.Rel(p.root, target.Dir); err != nil {
		return nil, err
	}
	p.rapid = slices.Contains(append(target.TestImports, target.XTestImports...), "pgregory.net/rapid")
	return p, p.check(target.GoFiles, exports)
}

// check parses the files and finds their types.
func (p *loaded) check(names []string, exports map[string]string) error {
	var syntax []*ast.File
	for _, name := range names {
		path := filepath.Join(p.dir, name)
		text, err := os.ReadFile(filepath.Join(p.root, path)) //nolint:gosec // a file of the package
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(p.fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p.files = append(p.files, &source{path: path, text: text, syntax: file})
		syntax = append(syntax, file)
	}
	p.info = &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object),
	}
	imports := importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var err error
	p.types, err = (&types.Config{Importer: imports}).Check(p.path, p.fset, syntax, p.info)
	return err
}
