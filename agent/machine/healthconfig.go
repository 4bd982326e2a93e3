package machine

import (
	"cmp"
	"time"
)

// The defaults of a HealthCommand.
const (
	DefaultHealthInterval = time.Minute
	DefaultHealthTimeout  = 10 * time.Second
)

// HealthCommand is a program that says whether the host is fit for engines, like YARN's node health
// script.
type HealthCommand struct {
	// Command is a program, by its absolute path, and its arguments. It is run without a shell. It
	// runs as the agent, with no input, in /, with PATH and LC_ALL=C as its environment. The host
	// is fit if it ends with code 0 and prints no line that begins with ERROR. Otherwise the host
	// takes no new engines, and shows that line, or how the command ended. Its engines go on.
	// Default: none.
	Command []string `yaml:"command"`
	// Interval is the time between two runs, 1s to 24h. Default 1m.
	Interval time.Duration `yaml:"interval"`
	// Timeout is how long a run may take, 10ms to 1m. Then it is killed with all that it started,
	// and the host is not fit. Default 10s.
	Timeout time.Duration `yaml:"timeout"`
}

// HealthSettings is a HealthCommand that was found good; the zero value: none. It can be compared.
type HealthSettings struct {
	command           string // as in commandText
	interval, timeout time.Duration
}

// Parse reads the section.
func (h HealthCommand) Parse() (HealthSettings, *FieldError) {
	wrong := func(field, value, want string) (HealthSettings, *FieldError) {
		return HealthSettings{}, &FieldError{"healthCommand." + field, value, want}
	}
	if len(h.Command) == 0 && h.Interval == 0 && h.Timeout == 0 {
		return HealthSettings{}, nil
	}
	if field, value, want := checkCommand(h.Command); field != "" {
		return wrong(field, value, want)
	}
	parsed := HealthSettings{
		command:  commandText(h.Command),
		interval: cmp.Or(h.Interval, DefaultHealthInterval), timeout: cmp.Or(h.Timeout, DefaultHealthTimeout),
	}
	if field, value, want := checkPace(parsed.interval, parsed.timeout); field != "" {
		return wrong(field, value, want)
	}
	return parsed, nil
}
