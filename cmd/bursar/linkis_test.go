package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/linkischeck"
)

// Whoever writes into Linkis's tables writes what linkis check shows.
func TestNothingInLinkissTablesMovesTheCursor(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	const hostile = "forged\x1b[2J\u009b31m\rforged\nforged\u202e"
	c := cmdline.New(cmdline.Streams{Out: out, Err: out}, version)
	if err := printLinkis(c.Printer, linkischeck.NewReport([]linkischeck.Finding{{Area: "ecm", Subject: hostile, Now: hostile, Bursar: hostile}})); err != nil {
		t.Fatal(err)
	}
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if text := string(printed); strings.ContainsAny(text, "\x1b\u009b\r\u202e") || strings.Count(text, "\n") != 3 || !strings.Contains(text, "forged") {
		t.Errorf("%q", text)
	}
}
