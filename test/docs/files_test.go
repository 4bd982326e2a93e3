package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// readOnce are settings that mention a file or a folder whose content is never read again, each
// with the reason.
var readOnce = map[string]string{
	"store":                    "the file of an embedded store stays open; an address has its own row",
	"dataDir":                  "a folder that is written to",
	"stateDir":                 "a folder that is written to",
	"socket":                   "a socket that is made",
	"consul.address":           "a socket is connected to for each connection",
	"consul.token":             "the token itself",
	"providerCredentials":      "a folder: the files in it are those of providers",
	"cgroup":                   "a cgroup is looked at for each measurement",
	"workDirs[].path":          "a folder is looked at for each measurement",
	"workDirs[].minFreeInodes": "a number",
	"countables.NAME.command":  "a program is started anew for each run",
	"healthCommand.command":    "a program is started anew for each run",
	"command":                  "a program is started anew for each run",
	"directory":                "a folder that a program is started in",
	"environment":              "variables of a program",
	"basePath":                 "a part of a URL",
	"engines.logDir":           "a folder that is written to",
	"engines.remote.programs":  "a program is started anew for each engine",

	"engines.remote.environment.allowed": "names of variables",
}

// Each setting that names a file is either in the manual's table of files that are read again, or
// in readOnce with a reason. The author of a new setting decides.
func TestTheManualSaysWhenEachFileIsReadAgain(t *testing.T) {
	manual, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(manual), "#### Files that are read again\n")
	if !found {
		t.Fatal("the table is gone")
	}
	table, _, _ = strings.Cut(table, "\n\n    bursar")
	named := make(map[string]bool) // in the first column
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			named[name[1]] = true
		}
	}
	text, err := Reference("../..")
	if err != nil {
		t.Fatal(err)
	}
	speaks := regexp.MustCompile(`(?i)\bfiles?\b|\bdirectory\b|\bfolder\b|\bpath\b`)
	looksSo := regexp.MustCompile(`(?i)(file|files|cert|certificate|key|ca|keytab|conf|dir|path|identities|log)$`)
	n := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| (.*) \\|$").FindAllStringSubmatch(text, -1) {
		name, kind, meaning := row[1], row[2], row[3]
		last := name[strings.LastIndex(name, ".")+1:]
		isText := strings.Contains(kind, "text") || kind == "file"
		if !isText || kind != "file" && !speaks.MatchString(meaning) && !looksSo.MatchString(last) || strings.HasPrefix(name, "labels.") {
			continue
		}
		n++
		prefix := strings.TrimSuffix(name, last)
		if _, decided := readOnce[name]; !decided && !named[name] && !named[prefix+"*"] {
			t.Errorf("%s (%s): want it in the table of docs/operations.md, or in readOnce", name, meaning)
		}
	}
	if n < 40 {
		t.Errorf("%d settings were found", n)
	}
}
