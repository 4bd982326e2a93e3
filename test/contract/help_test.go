package contract

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/proc"
)

// helpOf runs `bursar COMMAND --help` as somebody whose home is nowhere.
func helpOf(t *testing.T, command string) string {
	t.Helper()
	environment := func(cmd *exec.Cmd) { cmd.Env = []string{"HOME=/nowhere", "PATH=/nowhere"} }
	result := proc.Run(t, patience, environment, program, append(strings.Fields(command), "--help")...)
	result.Expect(t, 0)
	return result.Stdout
}

// placed are the defaults that depend on who asks: root's and a user's differ.
var placed = regexp.MustCompile(`\s+\(default\s+/\S+\)`)

// TestHelp keeps what each command says of itself, but those whose help cmd/bursar's scripts compare.
// The flags that all commands have are those of bursar itself.
func TestHelp(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "cmd", "bursar", "testdata", "helptexts.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	compared := func(command string) bool {
		return strings.Contains(string(script), "'bursar "+command+" --help |")
	}
	var text strings.Builder
	var look func(command string)
	look = func(command string) {
		help := helpOf(t, command)
		own, _, _ := strings.Cut(help, "\nGlobal Flags:\n")
		if command != "" && compared(command) {
			own = "see cmd/bursar/testdata/helptexts.txtar\n"
		}
		fmt.Fprintf(&text, "==== bursar %s\n%s\n", command, placed.ReplaceAllString(own, " (default PATH)"))
		for _, child := range children(help) {
			look(strings.TrimSpace(command + " " + child))
		}
	}
	look("")
	golden(t, "help.txt", text.String())
}

// children are the commands and topics that a command's help lists.
func children(help string) (names []string) {
	lists := regexp.MustCompile(`(?m)^((?:Available|Additional) [Ch].+|To [a-z ]+):\n((?:  .+\n)+)`)
	for _, list := range lists.FindAllStringSubmatch(help, -1) {
		for line := range strings.SplitSeq(strings.TrimSpace(list[2]), "\n") {
			fields := strings.Fields(line)
			if fields[0] == "bursar" {
				fields = fields[1:]
			}
			if len(fields) > 1 && !slices.Contains(names, fields[0]) {
				names = append(names, fields[0])
			}
		}
	}
	return names
}

// TestManual keeps a hash of each manual page and of each shell's completion: their words are those of
// the help, so that the hashes hold how they are laid out.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	writer := filepath.Join(dir, "writer")
	if err := (proc.Build{Into: writer, Flags: []string{"-tags", "man"}}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	environment := func(cmd *exec.Cmd) { cmd.Env = []string{"HOME=/nowhere", "SOURCE_DATE_EPOCH=1893456000"} }
	proc.Run(t, patience, environment, writer, filepath.Join(dir, "out")).Expect(t, 0)
	var text strings.Builder
	tree := os.DirFS(filepath.Join(dir, "out"))
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		content = regexp.MustCompile(`/\S*bursar\S*`).ReplaceAll(content, []byte("PATH"))
		fmt.Fprintf(&text, "%x %s\n", sha256.Sum256(content), name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "manual.txt", text.String())
}
