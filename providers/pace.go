package providers

import (
	"time"
)

// Pace is how often a cluster is read, and how long what was read is good. Its settings are common to all kinds.
type Pace struct {
	// Interval is the time between two readings. Shorter sees sooner what others take and give back, and costs the cluster more. It is stretched,
	// up to a minute, while a reading takes more than a quarter of it. Default 5 s, at least 2 s: clusters learn what their machines do about
	// once a second.
	Interval time.Duration
	// Timeout bounds one reading. Default 10 s.
	Timeout time.Duration
	// MaxAge is how long what was read is good: then requests wait. Longer gets over a longer absence of the cluster, and knows less of what others
	// took meanwhile. Default 30 s, at least twice the interval.
	MaxAge time.Duration
	// Settle is how long after its confirmation an engine without an application id is taken for not seen yet by the cluster. Default 1 min.
	Settle time.Duration
}

// The names of Pace's settings.
const (
	settingInterval = "interval"
	settingTimeout  = "timeout"
	settingMaxAge   = "maxAge"
	settingSettle   = "settle"
)

// PaceSettings are the names of the settings that every kind has.
func PaceSettings() []string {
	return []string{settingInterval, settingTimeout, settingMaxAge, settingSettle}
}

const (
	leastInterval = 2 * time.Second
	mostPace      = time.Hour // no setting is longer
)

// PaceFrom reads a pace from the settings of a provider. The error is a *SettingError.
func PaceFrom(settings map[string]string) (Pace, error) {
	p := Pace{Interval: 5 * time.Second, Timeout: 10 * time.Second, MaxAge: 30 * time.Second, Settle: time.Minute}
	if err := duration(settings, settingInterval, &p.Interval, leastInterval); err != nil {
		return p, err
	}
	if _, given := settings[settingMaxAge]; !given {
		p.MaxAge = max(p.MaxAge, 2*p.Interval)
	}
	for _, s := range []struct {
		name  string
		value *time.Duration
		least time.Duration
	}{
		{settingTimeout, &p.Timeout, 100 * time.Millisecond}, {settingMaxAge, &p.MaxAge, 2 * p.Interval}, {settingSettle, &p.Settle, 0},
	} {
		if err := duration(settings, s.name, s.value, s.least); err != nil {
			return p, err
		}
	}
	return p, nil
}

// duration reads one setting, where it is given.
func duration(settings map[string]string, name string, into *time.Duration, least time.Duration) error {
	text, given := settings[name]
	if !given {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > mostPace {
		return &SettingError{name, text, "a duration such as 5s, from " + least.String() + " to " + mostPace.String()}
	}
	*into = d
	return nil
}
