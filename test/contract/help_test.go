package contract

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bursar/bursar/test/proc"
)

// helpOf runs `bursar COMMAND --help` as somebody whose home is nowhere.
func helpOf(t *testing.T, command string) string { return helpOfProgram(t, program, command) }

func helpOfProgram(t *testing.T, program, command string) string {
	t.Helper()
	environment := func(cmd *exec.Cmd) { cmd.Env = []string{"HOME=/nowhere", "PATH=/nowhere"} }
	result := proc.Run(t, patience, environment, program, append(strings.Fields(command), "--help")...)
	result.Expect(t, 0)
	return result.Stdout
}

// placed are the defaults that depend on who asks: root's and a user's differ.
var placed = regexp.MustCompile(`\s+\(default\s+/\S+\)`)

// helpWidth is the width of a terminal, in columns.
const helpWidth = 80

// linkisCheck is a program next to bursar that people start, too.
const linkisCheck = "bursar-linkis-check"

// TestHelpFitsIntoEightyColumns runs every command with --help, as a reader does.
func TestHelpFitsIntoEightyColumns(t *testing.T) {
	all := maps.Collect(helpOfAll(t))
	all["/"+linkisCheck] = helpOfProgram(t, filepath.Join(filepath.Dir(program), linkisCheck), "")
	for command, help := range all {
		for line := range strings.Lines(help) {
			line = strings.TrimSuffix(line, "\n")
			if strings.Contains(line, "\t") {
				t.Errorf("bursar %s --help has a tab, whose width is unknown: %s", command, line)
			}
			if width := utf8.RuneCountInString(line); width > helpWidth {
				t.Errorf("bursar %s --help has a line of %d columns: %s", command, width, line)
			}
		}
	}
}

// helpOfAll returns each command and topic with its help, from bursar itself downwards.
func helpOfAll(t *testing.T) iter.Seq2[string, string] {
	return func(yield func(command, help string) bool) {
		var walk func(command string) bool
		walk = func(command string) bool {
			help := helpOf(t, command)
			if !yield(command, help) {
				return false
			}
			for _, child := range children(help) {
				if !walk(strings.TrimSpace(command + " " + child)) {
					return false
				}
			}
			return true
		}
		walk("")
	}
}

// TestHelp keeps the help of each command. It leaves out those whose help the scripts of
// cmd/bursar compare, and the global flags, which the help of bursar itself has.
func TestHelp(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "cmd", "bursar", "testdata", "helptexts.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	compared := func(command string) bool {
		return strings.Contains(string(script), "'bursar "+command+" --help |")
	}
	var text strings.Builder
	for command, help := range helpOfAll(t) {
		own, _, _ := strings.Cut(help, "\nGlobal Flags:\n")
		if command != "" && compared(command) {
			own = "see cmd/bursar/testdata/helptexts.txtar\n"
		}
		fmt.Fprintf(&text, "==== bursar %s\n%s\n", command, placed.ReplaceAllString(own, " (default PATH)"))
	}
	fmt.Fprintf(&text, "==== %s\n%s\n", linkisCheck, helpOfProgram(t, filepath.Join(filepath.Dir(program), linkisCheck), ""))
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

// TestManual keeps a hash of each manual page and of each shell's completion: their words are
// those of the help, so that the hashes hold how they are laid out.
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
