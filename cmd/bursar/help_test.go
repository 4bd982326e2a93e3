package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Help is read in terminals of 80 columns. Examples and tables are to be copied, and stay as they are.
func TestHelpFitsIntoEightyColumns(t *testing.T) {
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		text, _, _ := strings.Cut(cmd.UsageString(), "\nExamples:")
		if _, flags, found := strings.Cut(cmd.UsageString(), "\nFlags:"); found {
			text += flags
		}
		for line := range strings.Lines(cmd.Long) {
			if !strings.HasPrefix(line, " ") {
				text += "\n" + line
			}
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(line) > helpWidth && !strings.HasPrefix(line, "  "+cmd.CommandPath()) {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		for _, child := range cmd.Commands() {
			look(child)
		}
	}
	look(new(cli).root())
}
