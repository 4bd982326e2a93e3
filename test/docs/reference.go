// Package docs keeps the documentation true: it makes the configuration reference from the code
// that reads the configuration and the settings of providers.
package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/exec"
	"github.com/bursar/bursar/providers/yarn"
)

// Section is one configuration file's part of the reference.
type Section struct {
	Title, Intro string
	// Dir is the package below the root, Type the struct that the file is read into.
	Dir, Type string
}

// Sections returns the parts of the reference.
func Sections() []Section {
	return []Section{
		{"bursar coordinator --config FILE", "Read strictly: an unknown or repeated field, or one of the wrong type, is refused with its line\n" +
			"and column. A text needs no quotes to stay as it is written: `0660`, `3.10` and `yes` are text if\n" +
			"the type says so.", "coordinator", "Config"},
		{"bursar agent --config FILE", "Read strictly, like the coordinator's.", "agent", "Config"},
		{"identities: FILE", "The file that the coordinator's setting `identities` names, read strictly. `bursar token` writes it.", "internal/access", "document"},
		{"providersFile: FILE", "The file that the coordinator's setting `providersFile` names, read strictly;\n" +
			"[an example](../examples/providers.yaml). `bursar provider set` takes the same settings without a\n" +
			"file.", "providers/providerfile", "file"},
	}
}

// Reference writes the configuration reference for the sources below root.
func Reference(root string) (string, error) {
	var b strings.Builder
	b.WriteString("# Configuration reference\n\n" +
		"Made from the code by `go test ./test/docs -update`; a test fails if it is stale. Durations are\n" +
		"written `30s`, `5m`, `24h`; memory `4GiB`, CPU `2` or `500m`. A field marked with ↻ changes with a\n" +
		"reload (SIGHUP, `systemctl reload`), every other field at the next start.\n")
	for _, s := range Sections() {
		structs, err := structsOf(filepath.Join(root, s.Dir))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n## `%s`\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", s.Title, s.Intro)
		if err := fields(&b, root, structs, s.Type, "", false); err != nil {
			return "", fmt.Errorf("%s: %w", s.Title, err)
		}
	}
	b.WriteString("\n## Providers\n\n" +
		"The settings of a cluster, in the file or with `bursar provider set`. An unknown setting is\n" +
		"refused, and so is one without a value. No setting holds a secret: those of type file name files on\n" +
		"the coordinators' machines. If a provider was added over the API, these files are in\n" +
		"`providerCredentials`; a name without a directory means a file there. A provider of kind exec can\n" +
		"only be in the file: [writing a provider](providers.md) has more about it.\n")
	settings(&b, "Of every kind", providers.PaceSettings())
	settings(&b, "Of yarn", yarn.Settings())
	settings(&b, "Of exec", exec.Settings())
	return b.String(), nil
}

// settings writes a row for every setting of a provider.
func settings(b *strings.Builder, title string, list []providers.Setting) {
	fmt.Fprintf(b, "\n### %s\n\n| setting | type | meaning |\n|---|---|---|\n", title)
	for _, s := range list {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", s.Name, s.Type, s.Doc)
	}
}

// structsOf parses a package and returns its struct types by name.
func structsOf(dir string) (map[string]*ast.StructType, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	structs := make(map[string]*ast.StructType)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	return structs, nil
}

// fields writes a row for every field with a yaml name. Fields of nested structs have their
// parent's path. If live is set, a reload changes all of them.
func fields(b *strings.Builder, root string, structs map[string]*ast.StructType, name, path string, live bool) error {
	s := structs[name]
	if s == nil {
		return fmt.Errorf("no struct %s", name)
	}
	doc := ""
	for _, f := range s.Fields.List {
		if text := strings.TrimSpace(f.Doc.Text() + f.Comment.Text()); text != "" {
			doc = text
		}
		key := yamlName(f)
		if key == "" || key == "-" {
			continue
		}
		typed := typeName(f.Type)
		element := strings.TrimPrefix(strings.TrimPrefix(typed, "[]"), "map[string]")
		at := path + key
		suffix := "."
		switch {
		case strings.HasPrefix(typed, "[]"):
			suffix = "[]."
		case element != typed:
			suffix = ".NAME."
		}
		switch {
		case structs[element] != nil:
			if err := fields(b, root, structs, element, at+suffix, live || tagOf(f, "reload") == "live"); err != nil {
				return err
			}
		case elsewhere(element) != "":
			nested, err := structsOf(filepath.Join(root, elsewhere(element)))
			if err != nil {
				return err
			}
			_, name, _ := strings.Cut(element, ".")
			if err := fields(b, root, nested, name, at+suffix, live || tagOf(f, "reload") == "live"); err != nil {
				return err
			}
		default:
			meaning := strings.ReplaceAll(yamlNames(s, strings.Join(strings.Fields(doc), " "), "`"), "|", "\\|")
			if live || tagOf(f, "reload") == "live" {
				meaning += reloaded
			}
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", at, plain(typed), meaning)
		}
	}
	return nil
}

// yamlNames replaces Go names by the names of the file: the fields of a struct, and fields of
// another struct in the form Struct.Field. It puts each name between quotes.
func yamlNames(s *ast.StructType, doc, quote string) string {
	names := make(map[string]string)
	for _, f := range s.Fields.List {
		if key := yamlName(f); key != "" && key != "-" {
			for _, name := range f.Names {
				names[name.Name] = key
			}
		}
	}
	doc = otherField.ReplaceAllStringFunc(doc, func(path string) string {
		parent, field, _ := strings.Cut(path, ".")
		return quote + lowerFirst(parent) + "." + lowerFirst(field) + quote
	})
	return goName.ReplaceAllStringFunc(doc, func(name string) string {
		if key := names[name]; key != "" && name != "Consul" { // which is also the product's name
			return quote + key + quote
		}
		return name
	})
}

var (
	otherField = regexp.MustCompile(`\b[A-Z][A-Za-z]+\.[A-Z][A-Za-z]+\b`)
	goName     = regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`)
)

func lowerFirst(name string) string {
	if strings.ToUpper(name) == name { // such as TLS
		return strings.ToLower(name)
	}
	return strings.ToLower(name[:1]) + name[1:]
}

// elsewhere returns the folder of the package that declares a field's struct type; empty if the
// type is no struct of ours.
func elsewhere(typed string) string {
	name, _, _ := strings.Cut(typed, ".")
	return map[string]string{"label": "label", "credential": "internal/credential", "consul": "internal/discovery/consul", "machine": "agent/machine"}[name]
}

// reloaded marks a field that a reload changes.
const reloaded = " ↻"

func yamlName(f *ast.Field) string {
	name, _, _ := strings.Cut(tagOf(f, "yaml"), ",")
	return name
}

func tagOf(f *ast.Field, key string) string {
	if f.Tag == nil {
		return ""
	}
	return reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get(key)
}

func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return typeName(t.X) + "." + t.Sel.Name
	case *ast.ArrayType:
		return "[]" + typeName(t.Elt)
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.MapType:
		return "map[" + typeName(t.Key) + "]" + typeName(t.Value)
	default:
		return "?"
	}
}

// plain describes a Go type in the words of a YAML file.
func plain(t string) string {
	switch {
	case t == "time.Duration":
		return "duration"
	case t == "resource.Size":
		return "size"
	case t == "bool":
		return "true or false"
	case strings.HasPrefix(t, "int"), strings.HasPrefix(t, "uint"):
		return "number"
	case strings.HasPrefix(t, "[]"):
		return "list of " + plain(t[2:])
	case strings.HasPrefix(t, "map["):
		_, value, _ := strings.Cut(t, "]")
		return "map to " + plain(value)
	case t == "yamlfile.OneOrMore":
		return "text, or list of text"
	case t == "yamlfile.ScalarOrList":
		return "text, or list of text"
	case t == "string", t == "yamlfile.Scalar":
		return "text"
	default:
		return t
	}
}
