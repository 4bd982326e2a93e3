//go:build linux

package ha

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/bursar/bursar/test/baseline"
)

// TestTheVersionBeforeIsTheReleasedOne: the upgrade tests run against a commit before this
// version's own work. They once ran against one that had this version's tables already, and tested
// no upgrade.
func TestTheVersionBeforeIsTheReleasedOne(t *testing.T) {
	if err := checkReleased("../..", beforeCommit, beforeSchema); err != nil {
		t.Fatal(err)
	}
	migrations, err := migrationsIn("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{
		fmt.Sprintf("commit `%.7s` (schema %d)", beforeCommit, beforeSchema),
		fmt.Sprintf("this one (schema %d)", len(migrations)),
		fmt.Sprintf("its schema is version %d`", len(migrations)),
	} {
		if !bytes.Contains(text, []byte(says)) {
			t.Errorf("docs/operations.md does not say %q", says)
		}
	}
}

// TestAWrongVersionBeforeIsFound gives the check commits of a small history: the release, two of
// this version's, and one of another branch.
func TestAWrongVersionBeforeIsFound(t *testing.T) {
	dir := t.TempDir()
	r := repository(dir)
	git := func(arguments ...string) string {
		t.Helper()
		arguments = append([]string{"-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"}, arguments...)
		output, err := r.git(arguments...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(output))
	}
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	contract := func(messages ...string) *descriptorpb.FileDescriptorProto {
		file := &descriptorpb.FileDescriptorProto{Name: new("bursar/v1/a.proto"), Package: new("bursar.v1")}
		for _, name := range messages {
			file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{Name: new(name)})
		}
		return file
	}
	commit := func(migrations int, file *descriptorpb.FileDescriptorProto) string {
		t.Helper()
		for i := range migrations {
			write(fmt.Sprintf("%s/%05d.sql", migrationFolders[0], i+1), fmt.Sprint(i))
			write(fmt.Sprintf("%s/%05d.sql", migrationFolders[1], i+1), fmt.Sprint(i))
		}
		raw, err := proto.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		write("proto/bursar/v1/a.pb.go", fmt.Sprintf("package v1\n\nconst file_a_rawDesc = \"\" +\n\t%q\n", raw))
		git("add", ".")
		git("commit", "-q", "--allow-empty", "-m", "a commit")
		return git("rev-parse", "HEAD")
	}
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{contract("A")}})
	if err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "-b", "main")
	write(baseline.File, string(set))
	released := commit(1, contract("A"))
	git("checkout", "-q", "-b", "elsewhere")
	elsewhere := commit(1, contract("A"))
	git("checkout", "-q", "main")
	said := commit(1, contract("A", "B"))
	stored := commit(2, contract("A", "B"))
	last := commit(2, contract("A", "B"))
	for _, test := range []struct {
		commit string
		schema int
		want   string // nothing: it is right
	}{
		{released, 1, ""},
		{released, 2, "has 1 migrations, want 2"},
		{released[:7], 1, "full hash"},
		{strings.Repeat("0", 40), 1, "is not in this clone"},
		{elsewhere, 1, "is no ancestor"},
		{last, 2, "is this version"},
		{stored, 1, "has 2 migrations, want 1"}, // the tables are this version's, as once
		{stored, 2, "the contract of"},
		{said, 1, "the contract of"},
	} {
		err := checkReleased(r, test.commit, test.schema)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s with %d migrations: %v; want %q", test.commit, test.schema, err, test.want)
		}
	}
	write(migrationFolders[1]+"/00001.sql", "another")
	if err := checkReleased(r, released, 1); err == nil || !strings.Contains(err.Error(), "was changed after its release") {
		t.Errorf("with a released migration that was changed: %v", err)
	}
}

// checkReleased checks that a commit is the version before this tree: an ancestor, with that
// number of migrations, which are the first of this tree's, and with the contract that is this
// tree's baseline. It must not have what this version has added to the tables or the contract.
func checkReleased(tree repository, commit string, schema int) error {
	if len(commit) != 40 {
		return fmt.Errorf("%s: want the full hash of a commit", commit)
	}
	if err := tree.has(commit); err != nil {
		return err
	}
	if _, err := tree.git("merge-base", "--is-ancestor", commit, "HEAD"); err != nil {
		return fmt.Errorf("%s is no ancestor of this version: %w", commit, err)
	}
	if head, err := tree.git("rev-parse", "HEAD"); err != nil || strings.TrimSpace(string(head)) == commit {
		return errors.Join(fmt.Errorf("%s is this version, not the one before", commit), err)
	}
	now, err := migrationsIn(string(tree))
	if err != nil {
		return err
	}
	for _, folder := range migrationFolders {
		list, err := tree.git("ls-tree", "--name-only", commit, folder+"/")
		if err != nil {
			return err
		}
		files := strings.Fields(string(list))
		if len(files) != schema {
			return fmt.Errorf("%s: %s has %d migrations, want %d: is it a commit of this version, which has %d?", commit, folder, len(files), schema, len(now))
		}
		for _, file := range files {
			was, err := tree.git("show", commit+":"+file)
			if err != nil {
				return err
			}
			if is, err := os.ReadFile(filepath.Join(string(tree), file)); err != nil || !bytes.Equal(is, was) {
				return errors.Join(fmt.Errorf("%s was changed after its release in %s", file, commit), err)
			}
		}
	}
	return checkContract(tree, commit)
}

// checkContract compares the contract that a commit's code was generated from with the baseline.
// Both are moved at a release.
func checkContract(tree repository, commit string) error {
	set, err := baseline.Read(string(tree))
	if err != nil {
		return err
	}
	want, has := make(map[string]bool), make(map[string]bool)
	for _, file := range set.GetFile() {
		if strings.HasPrefix(file.GetName(), "bursar/v1/") {
			addNames(want, file.GetPackage(), file.GetMessageType())
		}
	}
	list, err := tree.git("ls-tree", "--name-only", commit, "proto/bursar/v1/")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(list)) {
		if !strings.HasSuffix(name, ".pb.go") {
			continue
		}
		source, err := tree.git("show", commit+":"+name)
		if err != nil {
			return err
		}
		var file descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(descriptorIn(name, source), &file); err != nil {
			return fmt.Errorf("%s of %s: %w", name, commit, err)
		}
		addNames(has, file.GetPackage(), file.GetMessageType())
	}
	if maps.Equal(want, has) {
		return nil
	}
	maps.DeleteFunc(has, func(name string, _ bool) bool { defer delete(want, name); return want[name] })
	return fmt.Errorf("the contract of %s is not %s, which a release moves with it: it has %v, and not %v",
		commit, baseline.File, slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(want)))
}

// addNames adds the messages and fields of a file.
func addNames(names map[string]bool, parent string, messages []*descriptorpb.DescriptorProto) {
	for _, m := range messages {
		name := parent + "." + m.GetName()
		names[name] = true
		for _, field := range m.GetField() {
			names[name+"."+field.GetName()] = true
		}
		addNames(names, name, m.GetNestedType())
	}
}

// descriptorIn returns the description of a file that its generated code carries, as a constant of
// text.
func descriptorIn(name string, source []byte) (raw []byte) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	for _, d := range file.Decls {
		if constant, is := d.(*ast.GenDecl); is && constant.Tok == token.CONST {
			for _, spec := range constant.Specs {
				if value, is := spec.(*ast.ValueSpec); is && strings.HasSuffix(value.Names[0].Name, "_rawDesc") {
					ast.Inspect(value.Values[0], func(n ast.Node) bool {
						if literal, is := n.(*ast.BasicLit); is {
							text, _ := strconv.Unquote(literal.Value) // of a file that was parsed
							raw = append(raw, text...)
						}
						return true
					})
				}
			}
		}
	}
	return raw
}

// migrationFolders have as many migrations each.
var migrationFolders = []string{"coordinator/store/postgres/migrations", "coordinator/store/sqlite/migrations"}

// migrationsIn lists those that a tree has for PostgreSQL.
func migrationsIn(tree string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(tree, migrationFolders[0], "*.sql"))
	if err == nil && len(files) == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		return nil, fmt.Errorf("migrations of %s: %w", tree, err)
	}
	return files, nil
}
