// Command manual writes the manual pages of files, bursar-agent.yaml(5) and
// bursar-coordinator.yaml(5), and of the programs next to bursar: bursar-keeper(8) and
// bursar-linkis-check(1), with the completions of the latter. The program bursar writes the pages
// of its commands. Their date is SOURCE_DATE_EPOCH.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/cmd/manpage"
	"github.com/bursar/bursar/integrations/linkis/check/command"
	"github.com/bursar/bursar/test/docs"
)

func main() {
	root := flag.String("root", ".", "the root of the tree")
	out := flag.String("out", "", "where the pages go")
	completion := flag.String("completion", "", "where the completions of bursar-linkis-check go, a file for each shell")
	version := flag.String("version", "devel", "what they are about")
	flag.Parse()
	err := write(*root, *out, *version)
	if err == nil && *completion != "" {
		err = writeCompletions(*completion)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(root, out, version string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	date, source := time.Unix(seconds, 0), "bursar "+version
	programs, err := docs.Programs(root)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	pages := map[string]*manpage.Page{"bursar-keeper.8": keeper(source, date), command.Name + ".1": linkisCheck(version, source, date)}
	for _, p := range programs {
		pages["bursar-"+p.Name+".yaml.5"] = configuration(p, source, date)
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(out, name), []byte(page.String()), 0o644); err != nil { //nolint:gosec // for everybody to read
			return fmt.Errorf("page: %w", err)
		}
	}
	return nil
}

func configuration(p docs.Program, source string, date time.Time) *manpage.Page {
	page := manpage.New("bursar-"+p.Name+".yaml", "5", source, date, "configuration of bursar "+p.Name)
	page.Heading("SYNOPSIS")
	page.Literal("/etc/bursar/" + p.Name + ".yaml")
	page.Heading("DESCRIPTION")
	page.Text(fmt.Sprintf(`bursar %[1]s reads this file when it starts, and again when it gets SIGHUP (systemctl reload bursar-%[1]s). It is YAML, read strictly:
an unknown or repeated field, or one of the wrong type, is refused with its line and column, and the program ends with exit code 78.
A reload with such a file changes nothing. "bursar %[1]s --check" tells whether a file is right without starting anything.

Every field may be left out. The environment goes over the file, and flags go over both: BURSAR_%[2]s_LOG_LEVEL for logLevel, with _
between words and below sections. Lists of sections and maps are for the file alone.

Durations are written 500ms, 30s, 5m, 24h; memory 4GiB, CPU 2 or 500m. A field of a section is named here with the section before it and
a dot between them.`, p.Name, strings.ToUpper(p.Name)))
	page.Heading("FIELDS")
	terms(page, p.Fields, "")
	page.Heading("FILES")
	page.Term("/etc/bursar/"+p.Name+".yaml", "as it is installed, every field stands in it with its meaning and default, commented out")
	page.References("bursar-"+p.Name+"(1)", "bursar(1)")
	return page
}

func terms(page *manpage.Page, fields []docs.Field, path string) {
	for _, f := range fields {
		if f.Section {
			continue
		}
		meaning := f.Meaning + " Type: " + f.Type + "."
		if f.Live {
			meaning += " A reload changes it."
		}
		page.Term(path+f.Path, meaning)
		terms(page, f.Elements, path+f.Path+"[].")
	}
}

func keeper(source string, date time.Time) *manpage.Page {
	page := manpage.New("bursar-keeper", "8", source, date, "stands over one engine that the Bursar agent has launched")
	page.Heading("SYNOPSIS")
	page.Literal("/usr/libexec/bursar/bursar-keeper")
	page.Heading("DESCRIPTION")
	page.Text(`bursar-keeper is started by bursar agent, never by a person: one for each engine that the agent launches, as the engine's user and in the
engine's cgroup. It starts the engine, writes the engine's output to files and rotates them, and when the engine has ended writes down how: exit
code or signal, the last lines of its standard error, and whether the kernel killed it for lack of memory. It takes about 2 MiB.

It does not need the agent while the engine runs: the agent may be stopped, upgraded or killed, and reads the record when it is back. Neither does it
need its own program's file: a package that replaces or removes it leaves keepers that run as they are. It ignores SIGTERM, SIGINT, SIGHUP and
SIGPIPE and ends when the engine has ended. To end an engine, signal the engine's process, or use bursar stop.

What it is to do comes on descriptor 0 as a line of JSON, what it has started goes to descriptor 1, the record is appended to
descriptor 2. Both programs must be of the same package; an agent understands the keepers of the version before it.`)
	page.Heading("FILES")
	page.Term("/var/log/bursar/engines/ID/", "stdout and stderr of the engine of that allocation, unless its launch named another directory; the engine's user owns it")
	page.Term("/var/lib/bursar/agent/engines/ID/record", "how it ended; root owns it")
	page.References("bursar-agent(1)", "bursar-agent.yaml(5)", "bursar-stop(1)", "bursar-run(1)")
	return page
}
