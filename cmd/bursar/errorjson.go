package main

import (
	"github.com/bursar/bursar/internal/cli/render"
)

// saysJSON reports whether a command line asks for JSON, even if it cannot be understood as a
// whole.
func saysJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "-ojson", "-o=json", "--output=json":
			return true
		case "-o", "--output":
			return i+1 < len(args) && args[i+1] == render.OutputJSON
		}
	}
	return false
}
