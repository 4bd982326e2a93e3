package providers

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestPaceFrom(t *testing.T) {
	for _, test := range []struct {
		settings map[string]string
		want     Pace
		wrong    string // the setting that PaceFrom refuses
	}{
		{nil, Pace{5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}, ""},
		{map[string]string{"addresses": "http://rm:8088", "settle": "0s"}, Pace{5 * time.Second, 10 * time.Second, 30 * time.Second, 0}, ""},
		{map[string]string{"interval": "20s"}, Pace{20 * time.Second, 10 * time.Second, 40 * time.Second, time.Minute}, ""},
		{map[string]string{"interval": "2s", "timeout": "1s", "maxAge": "4s"}, Pace{2 * time.Second, time.Second, 4 * time.Second, time.Minute}, ""},
		{map[string]string{"interval": "1s"}, Pace{}, "interval"},
		{map[string]string{"interval": "often"}, Pace{}, "interval"},
		{map[string]string{"interval": "20s", "maxAge": "30s"}, Pace{}, "maxAge"},
		{map[string]string{"timeout": "2h"}, Pace{}, "timeout"},
		{map[string]string{"settle": "-1s"}, Pace{}, "settle"},
	} {
		got, err := PaceFrom(test.settings)
		refused, _ := errors.AsType[*SettingError](err)
		switch {
		case test.wrong != "" && (refused == nil || refused.Setting != test.wrong || refused.Value != test.settings[test.wrong]):
			t.Errorf("%v: error %v, want one about %s", test.settings, err, test.wrong)
		case test.wrong == "" && (err != nil || got != test.want):
			t.Errorf("%v: %+v, %v, want %+v", test.settings, got, err, test.want)
		}
	}
}

func TestSettingsOfAPaceSayTheirDefaults(t *testing.T) {
	pace, err := PaceFrom(nil)
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]time.Duration{"interval": pace.Interval, "timeout": pace.Timeout, "maxAge": pace.MaxAge, "settle": pace.Settle}
	for _, s := range PaceSettings() {
		_, after, said := strings.Cut(s.Doc, "Default ")
		text, _, _ := strings.Cut(strings.Map(func(r rune) rune {
			if r == ';' || r == ',' {
				return ' '
			}
			return r
		}, after), " ")
		if got, err := time.ParseDuration(text); !said || err != nil || got != defaults[s.Name] {
			t.Errorf("%s: %q says %s, %v; the default is %s", s.Name, s.Doc, got, err, defaults[s.Name])
		}
	}
}
