package main

import (
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
)

func checkOutput(output string) error {
	switch output {
	case render.OutputTable, render.OutputWide, render.OutputJSON:
		return nil
	}
	return failure.Usagef("--output %q: want table, wide or json", output)
}
