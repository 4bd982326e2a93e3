package agent

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/bursar/bursar/agent/machine"
)

// The bounds of the contract for a sample: 64 work directories, and 32 sources that could not be
// read, of which the host's own measuring has fewer than 16.
const (
	maxWorkDirs   = 64
	maxCountables = 16
)

// The sections about resources of the machine besides memory and cpu.
type (
	// WorkDir is a directory that engines write to.
	WorkDir = machine.WorkDir
	// CountableConfig says how many of a custom countable the host has.
	CountableConfig = machine.CountableConfig
	// HealthCommand is a program that says whether the host is fit for engines.
	HealthCommand = machine.HealthCommand
)

// checkHost looks at the work directories, the countables and the health command.
func (s *settings) checkHost() error {
	if len(s.WorkDirs) > maxWorkDirs {
		return &ConfigError{"workDirs", strconv.Itoa(len(s.WorkDirs)), fmt.Sprintf("at most %d", maxWorkDirs)}
	}
	paths := make(map[string]bool, len(s.WorkDirs))
	for i, d := range s.WorkDirs {
		parsed, wrong := d.Parse()
		if wrong == nil && paths[parsed.Path] {
			wrong = &machine.FieldError{Field: "path", Value: d.Path, Want: "each directory once"}
		}
		if wrong != nil {
			return &ConfigError{fmt.Sprintf("workDirs[%d].%s", i, wrong.Field), wrong.Value, wrong.Want}
		}
		paths[parsed.Path] = true
		s.workDirs = append(s.workDirs, parsed)
	}
	if len(s.Countables) > maxCountables {
		return &ConfigError{"countables", strconv.Itoa(len(s.Countables)), fmt.Sprintf("at most %d", maxCountables)}
	}
	s.countables = make(map[string]machine.CountableSettings, len(s.Countables))
	for _, name := range slices.Sorted(maps.Keys(s.Countables)) {
		parsed, wrong := s.Countables[name].Parse(name)
		if wrong != nil {
			return (*ConfigError)(wrong)
		}
		s.countables[name] = parsed
	}
	health, wrong := s.HealthCommand.Parse()
	if wrong != nil {
		return (*ConfigError)(wrong)
	}
	s.health = health
	return nil
}
