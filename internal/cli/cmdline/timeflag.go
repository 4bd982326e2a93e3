package cmdline

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/duration"
)

// TimeFlag is a time: a day or a time in this machine's zone, a time with its zone, or how long ago
// it was.
type TimeFlag struct {
	Text string // as it was typed; empty: no time was
	Time time.Time
}

func (f *TimeFlag) String() string { return f.Text }

// Type names the form in help texts.
func (f *TimeFlag) Type() string { return "time" }

// Set reads a time.
func (f *TimeFlag) Set(text string) error {
	read, err := parseTime(text, time.Now())
	if err != nil {
		return err
	}
	f.Text, f.Time = text, read
	return nil
}

// parseTime reads a time as TimeFlag has it.
func parseTime(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, render.Local(now).Location()); err == nil {
			return t, nil
		}
	}
	if ago, err := duration.Parse(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, errors.New("want a day such as 2027-01-31, a time such as '2027-01-31 08:00:00' or 2027-01-31T08:00:00Z, or how long ago it was, such as 2h")
}

// Message is the time of a request; nil if none was typed.
func (f *TimeFlag) Message() *timestamppb.Timestamp {
	if f.Text == "" {
		return nil
	}
	return timestamppb.New(f.Time)
}
