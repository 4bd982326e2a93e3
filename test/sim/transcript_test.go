package sim

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var transcripts = flag.String("sim.transcripts", "",
	"check: compare each world with testdata/transcripts.txt; write: rewrite it with the worlds that are played")

const transcriptsFile = "testdata/transcripts.txt"

const transcriptsHead = `# What the worlds of the simulator do, one a line: its seed, a hash of all that was done, and a hash of all that was
# said as well. A change that moves or renames code leaves both as they are; one of words changes the second alone.
# make transcripts rewrites this file. See test/sim/transcript.go.
`

// readTranscripts reads the file, by seed.
func readTranscripts(t *testing.T) map[uint64]string {
	t.Helper()
	file, err := os.Open(transcriptsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	known := make(map[uint64]string)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var seed uint64
		var deeds, words string
		if _, err := fmt.Sscan(lines.Text(), &seed, &deeds, &words); err != nil {
			t.Fatalf("%s: %q: %v", transcriptsFile, lines.Text(), err)
		}
		known[seed] = deeds + " " + words
	}
	return known
}

// checkTranscripts compares what was played with the file, or rewrites it. The worlds use floating
// point for clocks, which may differ in its last bit between architectures: the file is of amd64.
func checkTranscripts(t *testing.T, played map[uint64]string) {
	t.Helper()
	switch {
	case *transcripts == "" || t.Failed():
	case *transcripts == "write":
		var text strings.Builder
		text.WriteString(transcriptsHead)
		for _, seed := range slices.Sorted(maps.Keys(played)) {
			fmt.Fprintln(&text, seed, played[seed])
		}
		if err := os.WriteFile(transcriptsFile, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	case *transcripts != "check":
		t.Fatalf("-sim.transcripts=%s: want check or write", *transcripts)
	case runtime.GOARCH == "amd64":
		compareTranscripts(t, readTranscripts(t), played)
	}
}

func compareTranscripts(t *testing.T, known, played map[uint64]string) {
	t.Helper()
	var deeds, words []uint64
	for _, seed := range slices.Sorted(maps.Keys(played)) {
		before, after := strings.Fields(known[seed]), strings.Fields(played[seed])
		switch {
		case len(before) == 0:
		case before[0] != after[0]:
			deeds = append(deeds, seed)
		case before[1] != after[1]:
			words = append(words, seed)
		}
	}
	if len(deeds) > 0 {
		t.Errorf("%d of %d worlds do something else than %s says, seed %d first: if that is meant, make transcripts",
			len(deeds), len(played), transcriptsFile, deeds[0])
	}
	if len(words) > 0 {
		t.Errorf("%d of %d worlds do the same in other words than %s says, seed %d first: if that is meant, make transcripts",
			len(words), len(played), transcriptsFile, words[0])
	}
}
