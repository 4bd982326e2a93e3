package docs

import (
	"cmp"
	"fmt"
	"go/ast"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/resource"
)

// module is the beginning of a package's path; the rest is its folder.
const module = "github.com/bursar/bursar/"

// Field is one field of a configuration file.
type Field struct {
	// Name is the field's key. Path is the key after the keys of its sections: "limits.queue".
	// Depth is the number of these sections.
	Name, Path string
	Depth      int
	// Type describes a value in YAML. Meaning is the field's comment, in one line and with the
	// names of the file.
	Type, Meaning string
	// Live is set if a reload changes the field.
	Live bool
	// Default is the field's value in YAML if the file has none. A section has no default.
	Default string
	Section bool
	// Elements are the fields of each element of a list or map of sections.
	Elements []Field
}

// Program is a program that reads a configuration file.
type Program struct {
	// Name is the command: agent, coordinator.
	Name   string
	Fields []Field
}

// Programs returns both programs, with every field of their files, read from the sources below
// root.
func Programs(root string) ([]Program, error) {
	ofAgent, err := agent.Config{}.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("defaults of the agent: %w", err)
	}
	ofAgent.HostID, ofAgent.Address = "", "" // these depend on the machine
	var list []Program
	for _, p := range []struct {
		name   string
		config any
	}{{"agent", ofAgent}, {"coordinator", coordinator.Config{}.WithDefaults()}} {
		w := walk{root: root, packages: make(map[string]map[string]*ast.StructType)}
		fields, err := w.fields(reflect.ValueOf(p.config), "", 0, false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		list = append(list, Program{p.name, fields})
	}
	return list, nil
}

// walk goes through a configuration's value and the comments of its types side by side.
type walk struct {
	root     string
	packages map[string]map[string]*ast.StructType
}

// fields lists the fields of a struct; each section comes before its own fields.
func (w *walk) fields(value reflect.Value, path string, depth int, live bool) ([]Field, error) {
	comments, err := w.comments(value.Type())
	if err != nil {
		return nil, err
	}
	var list []Field
	shared := ""
	for i := range value.NumField() {
		field, of := value.Type().Field(i), value.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		f := Field{
			Name: name, Path: path + name, Depth: depth, Type: yamlType(field.Type), Meaning: comments[field.Name],
			Live: live || field.Tag.Get("reload") == "live", Section: field.Type.Kind() == reflect.Struct,
		}
		if f.Section {
			inner, err := w.fields(of, f.Path+".", depth+1, f.Live)
			if err != nil {
				return nil, err
			}
			list = append(append(list, f), inner...)
			continue
		}
		// A field without a comment shares the comment of the field before it.
		f.Meaning = cmp.Or(f.Meaning, shared)
		shared = f.Meaning
		if element := elementOf(field.Type); element != nil {
			if f.Elements, err = w.fields(reflect.Zero(element), "", 0, f.Live); err != nil {
				return nil, err
			}
		}
		f.Default = inYAML(of)
		list = append(list, f)
	}
	return list, nil
}

// comments returns the comments of a struct's fields, each in one line, with the names of the file.
func (w *walk) comments(of reflect.Type) (map[string]string, error) {
	dir := strings.TrimPrefix(of.PkgPath(), module)
	if w.packages[dir] == nil {
		structs, err := structsOf(filepath.Join(w.root, dir))
		if err != nil {
			return nil, err
		}
		w.packages[dir] = structs
	}
	parsed := w.packages[dir][of.Name()]
	if parsed == nil {
		return nil, fmt.Errorf("no struct %s in %s", of.Name(), dir)
	}
	said := make(map[string]string)
	for _, f := range parsed.Fields.List {
		for _, name := range f.Names {
			said[name.Name] = yamlNames(parsed, strings.Join(strings.Fields(f.Doc.Text()+f.Comment.Text()), " "), "")
		}
	}
	return said, nil
}

// elementOf returns the struct type of a list's or map's elements; nil if they are no structs.
func elementOf(t reflect.Type) reflect.Type {
	if (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) && t.Elem().Kind() == reflect.Struct {
		return t.Elem()
	}
	return nil
}

func yamlType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t == reflect.TypeFor[resource.Size]():
		return "size"
	case t.Kind() == reflect.Struct:
		return "section"
	case t.Kind() == reflect.Slice:
		return "list of " + yamlType(t.Elem())
	case t.Kind() == reflect.Map:
		return "map to " + yamlType(t.Elem())
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "text"
	default:
		return "number"
	}
}

// inYAML writes a value in one line.
func inYAML(value reflect.Value) string {
	switch v := value.Interface().(type) {
	case time.Duration:
		// 5m0s is 5m.
		text := v.String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		return text
	case resource.Size:
		return v.String()
	case string:
		return strconv.Quote(v)
	}
	switch value.Kind() {
	case reflect.Slice:
		var list []string
		for i := range value.Len() {
			list = append(list, inYAML(value.Index(i)))
		}
		return "[" + strings.Join(list, ", ") + "]"
	case reflect.Map: // no default is a map with elements
		return "{}"
	default:
		return fmt.Sprint(value.Interface())
	}
}

// fileColumns is the width at which the comments of an installed file wrap.
const fileColumns = 80

// ConfigFile returns the file that the packages install: every field with its meaning and its
// default, in comments.
func ConfigFile(p Program) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Configuration of the Bursar %[1]s (bursar-%[1]s.service).
#
# Every field is here with its default, commented out. To change one, remove the
# "#" before it, and the one before its section, if it is in one. The environment
# (BURSAR_%[2]s_FIELD_NAME) overrides this file, and flags override both.
#
# Check a file. If it is wrong, this says where:
#   bursar %[1]s --config /etc/bursar/%[1]s.yaml --check
# Change the fields marked "reload". The others need a restart:
#   systemctl reload bursar-%[1]s
#
# The same text is in bursar-%[1]s.yaml(5).
`, p.Name, strings.ToUpper(p.Name))
	for _, f := range p.Fields {
		// A comment has one space after its #, and two more in a section. A line to uncomment has
		// none or an even number.
		indent := strings.Repeat("  ", f.Depth)
		meaning := f.Meaning
		if f.Live && !f.Section {
			meaning = strings.TrimSpace(meaning + " (reload)")
		}
		b.WriteString("\n")
		for _, line := range wrapped(meaning, fileColumns-len("# #")-len(indent)) {
			writeComment(&b, indent, line)
		}
		if len(f.Elements) > 0 {
			writeComment(&b, indent, "Each has:")
			for _, e := range elements(f.Elements, "") {
				for i, line := range wrapped(fmt.Sprintf("%s (%s): %s", e.Path, e.Type, e.Meaning), fileColumns-len("# # - ")-len(indent)) {
					writeComment(&b, indent, map[bool]string{true: "- ", false: "| "}[i == 0]+line)
				}
			}
		}
		if f.Section {
			fmt.Fprintf(&b, "#%s%s:\n", indent, f.Name)
		} else {
			fmt.Fprintf(&b, "#%s%s: %s\n", indent, f.Name, f.Default)
		}
	}
	return b.String()
}

// elements lists the fields of an element. Fields of a list in it have the list's path before their
// name.
func elements(fields []Field, path string) []Field {
	var list []Field
	for _, f := range fields {
		f.Path = path + f.Path
		list = append(list, f)
		list = append(list, elements(f.Elements, f.Path+"[].")...)
	}
	return list
}

// writeComment writes a line that stays a comment without its first #: in a section it has a second
// one.
func writeComment(b *strings.Builder, indent, line string) {
	if indent == "" {
		fmt.Fprintf(b, "# %s\n", line)
		return
	}
	fmt.Fprintf(b, "#%s# %s\n", indent, line)
}

// wrapped breaks a text into lines of at most this many bytes, if its words allow.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
