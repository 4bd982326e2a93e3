package contract

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources parses the Go files of the programs: no tests, no generated code.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	var files []*ast.File
	for _, top := range []string{"agent", "client", "cmd", "coordinator", "integrations", "internal", "label", "proto", "providers", "resource"} {
		tree := os.DirFS(path.Join(root, top))
		err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil && name == ".": // no such folder
				return fs.SkipAll
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "storetest"):
				return fs.SkipDir
			case path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			content, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			if !ast.IsGenerated(file) {
				files = append(files, file)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// literal is the text of a string, or of several that are joined. Other parts are written as {}.
// Such a text stays the same when its line is broken elsewhere.
func literal(e ast.Expr) (text string, found bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text, true
		}
	case *ast.ParenExpr:
		return literal(e.X)
	case *ast.BinaryExpr:
		left, some := literal(e.X)
		right, more := literal(e.Y)
		if e.Op == token.ADD && (some || more) {
			return left + right, true
		}
	}
	return "{}", false
}

// TestWords keeps each text in the code that may be printed, logged, sent or stored: formats,
// names of fields, keys, metrics, statements of SQL. It keeps each text once.
func TestWords(t *testing.T) {
	verb := regexp.MustCompile(`%[-+# 0]*[\d*]*(\.[\d*]*)?(\[\d+\])?[a-zA-Z]|{}`)
	letter := regexp.MustCompile(`\pL`)
	words := make(map[string]bool)
	for _, file := range sources(t) {
		ast.Inspect(file, func(node ast.Node) bool {
			if _, imports := node.(*ast.ImportSpec); imports {
				return false
			}
			e, ok := node.(ast.Expr)
			if !ok {
				return true
			}
			text, found := literal(e)
			if found && letter.MatchString(verb.ReplaceAllString(text, "")) {
				words[strconv.Quote(text)] = true
			}
			_, sum := e.(*ast.BinaryExpr)
			return !found || !sum || strings.Contains(text, "{}")
		})
	}
	golden(t, "words.txt", strings.Join(slices.Sorted(maps.Keys(words)), "\n")+"\n")
}

// levels are the methods of a logger by the number of arguments before the message.
var levels = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1,
	"Log": 2, "LogAttrs": 2, "With": -1,
}

// TestLogs keeps the message of each line of the log with its level and its keys, in their order.
func TestLogs(t *testing.T) {
	lines := make(map[string]bool)
	for _, file := range sources(t) {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if before, logs := levels[method.Sel.Name]; logs && len(call.Args) > before {
				if line := logLine(method.Sel.Name, before, call.Args); line != "" {
					lines[line] = true
				}
			}
			return true
		})
	}
	golden(t, "logs.txt", strings.Join(slices.Sorted(maps.Keys(lines)), "\n")+"\n")
}

// logLine is a call of a logger as text; empty if it is none.
func logLine(method string, before int, arguments []ast.Expr) string {
	line := strings.TrimSuffix(method, "Context")
	if before >= 0 {
		message, found := literal(arguments[before])
		if !found && len(arguments) == before+1 {
			return "" // an Error() of something else
		}
		line += " " + strconv.Quote(message)
	}
	for rest := arguments[before+1:]; len(rest) > 0; {
		switch argument := rest[0].(type) {
		case *ast.CallExpr: // slog.String("key", value)
			key := "{}"
			if len(argument.Args) > 0 {
				key, _ = literal(argument.Args[0])
			}
			line += " " + key
			rest = rest[1:]
		default:
			key, found := literal(argument)
			line += " " + key
			if found {
				rest = rest[min(2, len(rest)):]
			} else {
				rest = rest[1:]
			}
		}
	}
	return line
}
