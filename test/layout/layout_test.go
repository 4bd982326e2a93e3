// Package layout holds the rules of this tree that no compiler and no linter holds: which package
// may import which, what a pure package may contain, how large a file and how wide a comment may
// be, and that links and package comments are there.
//
// A rule is a function from a tree to its complaints, so that it can be shown a small tree in
// memory that breaks it.
package layout

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// module is the path of this module; what follows it in an import is a folder of the tree.
const module = "github.com/bursar/bursar"

// tree is every file of the project by its slash-separated path from the root. A file that is no
// text has no content.
type tree map[string]string

// rule is one thing that must hold; broken names every place that breaks it.
type rule struct {
	name   string
	broken func(tree) []string
}

func rules() []rule {
	return []rule{
		{"the top folder shows what the project is", topBroken},
		{"imports go down the floors", floorsBroken},
		{"pure packages have no I/O and no goroutine", purityBroken},
		{"allocations change their state by named transitions", statesBroken},
		{"the race detector is used where there are goroutines", racesBroken},
		{"small programs stay small", sizeBroken},
		{"programs leave out the libraries of others", shunnedBroken},
		{"packages say what they are for", packageCommentsBroken},
		{"comments end before column 100", commentsBroken},
		{"files are small and named for what they hold", filesBroken},
		{"nothing is skipped or left over", leftoversBroken},
		{"tests do not sleep", sleepsBroken},
		{"nothing names a machine's own place", placesBroken},
		{"links lead somewhere", linksBroken},
	}
}

func TestTree(t *testing.T) {
	files := project(t)
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, complaint := range r.broken(files) {
				t.Error(complaint)
			}
		})
	}
}

// project reads the tree that this test stands in: what git has or would add, or, outside of a
// checkout, every file.
func project(t *testing.T) tree {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	paths := committed(t, root)
	files := tree{}
	for _, name := range paths {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted here, not yet in git
		}
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(content) || bytes.ContainsRune(content, 0) {
			content = nil
		}
		files[name] = string(content)
	}
	for _, known := range []string{"go.mod", "test/layout/layout_test.go"} {
		if _, ok := files[known]; !ok {
			t.Fatalf("%s is not among the %d files found: this is not the tree", known, len(files))
		}
	}
	return files
}

func committed(t *testing.T, root string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, ".git")); err == nil {
		out, err := exec.CommandContext(t.Context(), "git", "-C", root, "-c", "safe.directory=*",
			"ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
		if err != nil {
			t.Fatalf("git ls-files: %v", err)
		}
		return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	}
	var paths []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{"bin", "tmp", ".cache"}, name) {
			return fs.SkipDir
		}
		if err == nil && entry.Type().IsRegular() {
			paths = append(paths, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// source is one Go file.
type source struct {
	path, folder string
	content      string
	test         bool
	generated    bool
	*ast.File
	lines *token.FileSet
}

// sources parses the Go files that the go command would build, in the order of their paths.
func (files tree) sources() []source {
	var list []source
	for _, name := range files.paths() {
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		s := source{path: name, folder: path.Dir(name), content: files[name], lines: token.NewFileSet()}
		// What does not parse does not build either, and the compiler reports it better.
		s.File, _ = parser.ParseFile(s.lines, name, s.content, parser.ParseComments|parser.SkipObjectResolution)
		s.test = strings.HasSuffix(name, "_test.go")
		s.generated = ast.IsGenerated(s.File)
		list = append(list, s)
	}
	return list
}

// paths lists the files of ours in order: what third parties wrote keeps its own rules.
func (files tree) paths() []string {
	var list []string
	for name := range files {
		if !strings.HasPrefix(name, "third_party/") && path.Base(name) != "go.sum" {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// calls yields what is called by a selector: the t.Skip of t.Skip("…").
func (s source) calls() iter.Seq[*ast.SelectorExpr] {
	return func(yield func(*ast.SelectorExpr) bool) {
		for node := range ast.Preorder(s.File) {
			if call, ok := node.(*ast.CallExpr); ok {
				if selector, ok := call.Fun.(*ast.SelectorExpr); ok && !yield(selector) {
					return
				}
			}
		}
	}
}

// at gives the place of a node as path:line.
func (s source) at(node ast.Node) string {
	position := s.lines.Position(node.Pos())
	position.Column = 0
	return position.String()
}

// within reports whether a folder is one of these or stands below one.
func within(folder string, tops []string) bool {
	return slices.ContainsFunc(tops, func(top string) bool {
		return folder == top || strings.HasPrefix(folder, top+"/")
	})
}
