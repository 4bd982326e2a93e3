package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/internal/yamlfile"
)

func TestPoliciesFromYAML(t *testing.T) {
	text := `
engines:
  policies:
    - match: {engineType: spark, user: "*"}
      onOverUse: kill
      tolerance: 2.5%
      grace: 1m
      stopGrace: 20s
    - {match: {engineType: python}, onOverUse: limit, tolerance: "0%"}
    - {match: {engineType: shell}, onOverUse: observe, cgroup: true, onLeaderEnd: stop}
    - {match: {engineType: hive}}
    - {match: {engineType: 3.10}, onOverUse: observe}
`
	var c Config
	doc, err := yamlfile.Parse("agent.yaml", []byte(text))
	if err == nil {
		err = doc.Decode(&c)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.resolve()
	if err != nil {
		t.Fatal(err)
	}
	for engineType, want := range map[string]policy.Policy{
		"spark":  {Action: policy.Kill, Tolerance: 25, Grace: time.Minute, StopGrace: 20 * time.Second},
		"python": {Action: policy.Limit, Tolerance: 0, Grace: 30 * time.Second, StopGrace: 10 * time.Second, Cgroup: policy.CgroupAlways},
		"shell":  {Action: policy.Observe, Tolerance: 100, Grace: 30 * time.Second, StopGrace: 10 * time.Second, Cgroup: policy.CgroupAlways, OnLeaderEnd: policy.StopAtLeaderEnd},
		"hive":   policy.Default(),
		"flink":  policy.Default(),
		"3.1":    policy.Default(),
		"3.10":   {Action: policy.Observe, Tolerance: 100, Grace: 30 * time.Second, StopGrace: 10 * time.Second},
	} {
		got := s.policies.For(map[string]string{"engineType": engineType})
		if got.Action != want.Action || got.Tolerance != want.Tolerance || got.Grace != want.Grace || got.StopGrace != want.StopGrace || got.Cgroup != want.Cgroup || got.OnLeaderEnd != want.OnLeaderEnd {
			t.Errorf("%s: %+v, want %+v", engineType, got, want)
		}
	}
}

func TestToleranceIsAPercentage(t *testing.T) {
	for text, want := range map[string]int64{"0%": 0, "10%": 100, "2.5%": 25, "0.1%": 1, "1000%": 10_000} {
		if got, ok := parseTolerance(text); !ok || got != want {
			t.Errorf("%s: %d, %t", text, got, ok)
		}
	}
	for _, wrong := range []string{"10", "%", "-1%", "+1%", "1.%", ".5%", "1.55%", "1000.1%", "1e2%", "10 %", "0x1%", "99999999999999999999%", "1.-%", "١%"} {
		if got, ok := parseTolerance(wrong); ok {
			t.Errorf("%q is %d", wrong, got)
		}
	}
}

func TestWrongPolicyNamesItsField(t *testing.T) {
	for field, wrong := range map[string]PolicyConfig{
		"match":     {Match: map[string]string{"engine type": "spark"}},
		"onOverUse": {OnOverUse: "Kill"},
		"tolerance": {Tolerance: "10"},
		"grace":     {Grace: time.Millisecond},
		"stopGrace": {StopGrace: 2 * time.Hour},

		"onLeaderEnd": {OnLeaderEnd: "Stop"},
	} {
		c := Config{Engines: EnginesConfig{Policies: []PolicyConfig{{}, wrong}}}
		var refused *ConfigError
		if err := c.Validate(); !errors.As(err, &refused) || refused.Field != "engines.policies[1]."+field || refused.Want == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, wrong := range []PolicyConfig{{Grace: -time.Second}, {Grace: 25 * time.Hour}, {StopGrace: -1}} {
		c := Config{Engines: EnginesConfig{Policies: []PolicyConfig{wrong}}}
		if err := c.Validate(); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

func TestMisspeltLabelsOfPoliciesAreTold(t *testing.T) {
	config := Config{HostID: "h1", Coordinators: []string{"http://127.0.0.1:7070"}, StateDir: t.TempDir()}
	config.Engines.Policies = []PolicyConfig{
		{Match: map[string]string{"enginetype": "spark"}, OnOverUse: "limit"}, {Match: map[string]string{"engineType": "spark", "team": "a"}, OnOverUse: "limit"},
	}
	notes := strings.Join(config.Notes(), "\n")
	if !strings.Contains(notes, "engines.policies[0].match: label enginetype: did you mean engineType?") || strings.Contains(notes, "policies[1]") {
		t.Errorf("%q", notes)
	}
}
