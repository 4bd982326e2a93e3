package queues

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/kinds"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/exec"
	"github.com/bursar/bursar/providers/providerfile"
	"github.com/bursar/bursar/providers/yarn"
)

func TestExampleProvidersAreRight(t *testing.T) {
	const name = "../../../examples/providers.yaml"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	list, err := providerfile.Parse(name, data, kinds.Known())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 4 || defaultText(list[0], list) != "yes" || list[1].GetSettings()["auth"] != "kerberos" || list[3].GetKind() != "exec" {
		t.Errorf("read %v", list)
	}
}

func TestHelpOfProvidersHasEverySetting(t *testing.T) {
	c := cmdline.New(cmdline.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, "test")
	text := providerCommand(c.Connections).Long
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' })
	for _, name := range providers.SettingNames(slices.Concat(yarn.Settings(), exec.Settings(), providers.PaceSettings())) {
		if !slices.Contains(words, name) {
			t.Errorf("bursar provider --help does not say what %s is", name)
		}
	}
}
