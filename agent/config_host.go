package agent

import "time"

// WorkDir is a directory that engines write to.
type WorkDir struct {
	// Path is absolute, and there.
	Path string `yaml:"path"`
	// MinFree is the space below which the host takes no new engines, as 10GiB or 5%. Default 5%.
	MinFree string `yaml:"minFree"`
	// MinFreeInodes is the same for inodes, as a number or a percentage. Default 5%.
	MinFreeInodes string `yaml:"minFreeInodes"`
}

// CountableConfig says how many of a custom countable the host has.
type CountableConfig struct {
	// Command is a program and its arguments; no shell sees them. It runs with no input, as the agent.
	Command []string `yaml:"command"`
	// Count is "number" where it prints one, "lines" where it prints a line for each. Default number.
	Count string `yaml:"count"`
	// Interval is the time between two runs. Default 1m.
	Interval time.Duration `yaml:"interval"`
	// Timeout is how long it may take before it is killed. Default 5s.
	Timeout time.Duration `yaml:"timeout"`
}
