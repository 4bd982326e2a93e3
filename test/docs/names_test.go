package docs

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// declared holds the names that a tree of Go files declares.
type declared struct {
	// of packages, types, functions, methods, fields, variables and constants
	names   map[string]bool
	members map[string]bool // as "Type.method", "Type.field" and "package.Name"
	files   map[string]bool // base names
}

func readDeclared(t *testing.T, root string) declared {
	t.Helper()
	d := declared{names: make(map[string]bool), members: make(map[string]bool), files: make(map[string]bool)}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "third_party"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		d.files[entry.Name()] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		d.add(file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d declared) add(file *ast.File) {
	of := file.Name.Name
	d.names[of] = true
	declare := func(owner, name string) {
		d.names[name] = true
		d.members[owner+"."+name] = true
	}
	for _, declaration := range file.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			owner := of
			if declaration.Recv != nil {
				owner = receiverName(declaration.Recv.List[0].Type)
			}
			declare(owner, declaration.Name.Name)
		case *ast.GenDecl:
			for _, spec := range declaration.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						declare(of, name.Name)
					}
				case *ast.TypeSpec:
					declare(of, spec.Name.Name)
					for _, name := range fieldNames(spec.Type) {
						declare(spec.Name.Name, name)
					}
				}
			}
		}
	}
}

func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// fieldNames returns the fields of a struct, or the methods of an interface.
func fieldNames(e ast.Expr) (names []string) {
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)
)

// notOfGo are words in docs/architecture.md that look like Go names but are not: examples, files
// that operators write, their settings, and fields of the contract.
var notOfGo = map[string]bool{
	"T": true, "T.f": true, "f": true, "agent.yaml": true, "allow_stale": true, "request_id": true, "capacity": true, "trustedUsers": true,
}

// A name that changes in the code must change in docs/architecture.md, too.
func TestEveryNameInTheArchitectureIsDeclared(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	d := readDeclared(t, root)
	spans := codeSpan.FindAllStringSubmatch(string(text), -1)
	if len(spans) < 200 {
		t.Fatalf("only %d names are found", len(spans))
	}
	for _, span := range spans {
		if !d.has(root, span[1]) {
			t.Errorf("docs/architecture.md names `%s`, which is nowhere in the tree", span[1])
		}
	}
}

// has reports whether a name belongs to a file, a folder or a declaration, or is no such name at
// all.
func (d declared) has(root, name string) bool {
	switch {
	case notOfGo[name] || strings.HasPrefix(name, "-") || strings.Contains(name, " ") || strings.HasPrefix(name, "golang.org/"):
		return true
	case strings.Contains(name, "/"):
		found, err := filepath.Glob(filepath.Join(root, name))
		return err == nil && len(found) > 0
	case strings.HasSuffix(name, ".go"):
		return d.files[name]
	case !identifier.MatchString(name):
		return true
	}
	parts := strings.Split(name, ".")
	if len(parts) == 1 {
		if _, err := os.Stat(filepath.Join(root, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
		return d.names[name]
	}
	for i := 1; i < len(parts); i++ {
		if !d.members[parts[i-1]+"."+parts[i]] {
			return false
		}
	}
	return true
}
