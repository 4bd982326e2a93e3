package serve

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/journal"
	"github.com/bursar/bursar/internal/cli/render"
)

// logFlags say how much a server logs, and in which form.
type logFlags struct {
	level, format string
	said          func() bool // the level, on the command line
	now           slog.LevelVar
}

func addLogFlags(cmd *cobra.Command, level string) *logFlags {
	f := &logFlags{said: func() bool { return cmd.Flags().Changed("log-level") }}
	cmd.Flags().StringVar(&f.level, "log-level", level, "debug, info, warn or error")
	cmd.Flags().StringVar(&f.format, "log-format", "", "text, json or journal (default: text on a terminal, journal where journald reads it, json elsewhere)")
	return f
}

// logger makes the log. configured is the level of the configuration, empty if it has none.
func (f *logFlags) logger(out *os.File, configured string) (*slog.Logger, error) {
	if err := f.set(configured); err != nil {
		return nil, err
	}
	format := f.format
	if format == "" {
		switch {
		case journal.Reads(out):
			format = "journal"
		case term.IsTerminal(int(out.Fd())):
			format = "text"
		default:
			format = "json"
		}
	}
	options := &slog.HandlerOptions{Level: &f.now}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		options.ReplaceAttr = inSeconds
		return slog.New(slog.NewJSONHandler(render.Harmless{To: out, JSON: true}, options)), nil
	case "journal":
		return slog.New(journal.NewHandler(out, &f.now)), nil
	}
	return nil, failure.Usagef("--log-format %q: want text, json or journal", f.format)
}

// inSeconds makes durations seconds, as a number. The library would write nanoseconds, which
// nobody expects. Text has the unit: "took=1.5s".
func inSeconds(_ []string, attr slog.Attr) slog.Attr {
	if attr.Value.Kind() == slog.KindDuration {
		attr.Value = slog.Float64Value(attr.Value.Duration().Seconds())
	}
	return attr
}

// set changes how much is logged: the command line wins over the configuration.
func (f *logFlags) set(configured string) error {
	text := f.level
	if configured != "" && !f.said() {
		text = configured
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return failure.Usagef("--log-level %q: want debug, info, warn or error", text)
	}
	f.now.Set(level)
	return nil
}
