package providers

import (
	"time"

	"github.com/bursar/bursar/internal/duration"
)

// Pace holds how often the coordinator reads a cluster, and how long a reading is valid.
// PaceSettings describes the settings.
type Pace struct {
	Interval, Timeout, MaxAge, Settle time.Duration
}

// The names of the settings of a Pace.
const (
	settingInterval = "interval"
	settingTimeout  = "timeout"
	settingMaxAge   = "maxAge"
	settingSettle   = "settle"
)

// PaceSettings returns the settings that every kind has.
func PaceSettings() []Setting {
	return []Setting{
		{settingInterval, Duration, "The time between two readings, plus or minus a fifth. With a shorter time the coordinator sees sooner what others take and give back, and the cluster has more work. " +
			"While a reading takes more than a quarter of it, the time grows, up to a minute. Default 5s; 2s to 1h: clusters learn what their machines do about once a second."},
		{settingTimeout, Duration, "How long one reading may take. Default 10s; 100ms to 1h."},
		{settingMaxAge, Duration, "How long a reading is used; while readings are slow, it is at least three intervals. After that requests for the cluster wait. With a longer time grants go on through a longer absence of the cluster, " +
			"but the coordinator knows less of what others took in that time. Default 30s, or twice the interval if that is more; twice the interval to 1h."},
		{settingSettle, Duration, "For how long after its confirmation an engine without an application id counts as not yet seen by the cluster. Default 1m; 0s to 1h."},
	}
}

const (
	leastInterval = 2 * time.Second
	mostPace      = time.Hour // no setting may be longer
)

// PaceFrom reads a pace from the settings of a provider. The error is a *SettingError.
func PaceFrom(settings map[string]string) (Pace, error) {
	p := Pace{Interval: 5 * time.Second, Timeout: 10 * time.Second, MaxAge: 30 * time.Second, Settle: time.Minute}
	if err := readDuration(settings, settingInterval, &p.Interval, leastInterval); err != nil {
		return p, err
	}
	if _, given := settings[settingMaxAge]; !given {
		p.MaxAge = max(p.MaxAge, 2*p.Interval)
	}
	if err := readDuration(settings, settingTimeout, &p.Timeout, 100*time.Millisecond); err != nil {
		return p, err
	}
	if err := readDuration(settings, settingMaxAge, &p.MaxAge, 2*p.Interval); err != nil {
		err.Want += "; the least is twice the interval"
		return p, err
	}
	if err := readDuration(settings, settingSettle, &p.Settle, 0); err != nil {
		return p, err
	}
	return p, nil
}

// readDuration reads one setting, if it is present.
func readDuration(settings map[string]string, name string, into *time.Duration, least time.Duration) *SettingError {
	text, given := settings[name]
	if !given {
		return nil
	}
	d, err := duration.Parse(text)
	if err != nil || d < least || d > mostPace {
		return &SettingError{name, text, "a duration such as 5s, from " + least.String() + " to " + mostPace.String()}
	}
	*into = d
	return nil
}
