package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const bursarPrefix = "linkis.bursar."

// bursarSettings are the adapter's, without the prefix.
func bursarSettings() []string {
	return []string{
		"agent.socket", "cpu.millis.per.core", "host.map", "labels.extra", "launch", "launch.dir", "mode", "projector.interval", "quota.import", "quota.interval",
		"reservation.ttl", "tls.ca", "token.file", "url", "wait.max",
	}
}

// replaced tells the fate of Linkis's settings with linkis.bursar.mode=enforce, also of some that
// the adapter goes on reading.
func replaced() map[string]string {
	return map[string]string{
		"linkis.ecm.stimate.actual.memory.enable":              "ignored: the agent measures the machine",
		"linkis.master.distributed.lock.request.interval":      "not used for requests: Bursar decides without locks in the database",
		"linkis.support.cluster.rule.ec.types":                 "kept: tasks across clusters of these types are judged by the queue of their property",
		"linkis.yarn.across.cluster.cpu.threshold":             "kept: compared with Bursar's figures of the queue root, for tasks across clusters",
		"linkis.yarn.across.cluster.memory.threshold":          "kept: compared with Bursar's figures of the queue root, for tasks across clusters",
		"wds.linkis.ecm.cores.max":                             "ignored: capacity.cpu of the agent, by default what the machine has",
		"wds.linkis.ecm.engineconn.instances.max":              "ignored: capacity.instances of the agent, by default no limit",
		"wds.linkis.ecm.memory.max":                            "ignored: capacity.memory of the agent, by default what the machine has",
		"wds.linkis.ecm.protected.cores.max":                   "ignored: protected.cpu of the agent",
		"wds.linkis.ecm.protected.engine.instances":            "ignored: protected.instances of the agent",
		"wds.linkis.ecm.protected.memory":                      "ignored: protected.memory of the agent; Linkis never subtracts its own",
		"wds.linkis.ecm.script.kill.engineconn":                "used only for engines that have no allocation; others are stopped by the agent",
		"wds.linkis.manager.rm.external.resource.regresh.time": "replaced: interval of the provider",
		"wds.linkis.manager.rm.lock.release.timeout":           "not used: Bursar decides without locks in the database",
		"wds.linkis.manager.rm.lock.wait":                      "replaced: linkis.bursar.wait.max, which waits for resources, too",
		"wds.linkis.rm.engine.scan.interval":                   "not waited for: an engine that ends is released by its agent within two ticks",
		"wds.linkis.rm.wait.event.time.out":                    "replaced: linkis.bursar.reservation.ttl",
	}
}

// Settings compares properties.
func Settings(p Properties) []Finding {
	var findings []Finding
	for name, what := range replaced() {
		if value, set := p[name]; set {
			findings = append(findings, Finding{Area: "setting", Subject: name, Now: value, Bursar: what})
		}
	}
	if p["wds.linkis.manager.rm.request.enable"] == "false" {
		findings = append(findings, Finding{
			Area: "setting", Subject: "wds.linkis.manager.rm.request.enable", Now: "false: every request is granted",
			Bursar: "ignored: what does not fit waits or is refused", Attention: true,
		})
	}
	if p["wds.linkis.manager.rm.resource.action.record"] == "false" {
		findings = append(findings, Finding{
			Area: "setting", Subject: "wds.linkis.manager.rm.resource.action.record", Now: "false: engines leave no record",
			Bursar: "want true: by its record an allocation is known that Linkis has made and forgotten, and only such a one is given back", Attention: true,
		})
	}
	findings = append(findings, ofPorts(p)...)
	findings = append(findings, ofTimes(p)...)
	return append(findings, ofBursar(p)...)
}

func ofPorts(p Properties) []Finding {
	const name = "wds.linkis.engineconn.port.range"
	value := p[name]
	if value == "" || value == "-" {
		return nil
	}
	f := Finding{Area: "setting", Subject: name, Now: value + ": engines that start at the same time can get the same port"}
	from, to, _ := strings.Cut(value, "-")
	low, errLow := strconv.Atoi(cmpOr(from, "1024"))
	high, errHigh := strconv.Atoi(cmpOr(to, "65535"))
	if errLow != nil || errHigh != nil || low >= high {
		f.Now, f.Bursar, f.Attention = value, "want two ports such as 40000-50000", true
		return []Finding{f}
	}
	f.Bursar = fmt.Sprintf("each gets one of its own; the range has %d, and no ECM more engines at a time", high-low) // Linkis leaves out the last
	most, err := strconv.Atoi(cmpOr(p["wds.linkis.ecm.engineconn.instances.max"], "50"))
	f.Attention = err == nil && high-low < most
	return []Finding{f}
}

func cmpOr(text, otherwise string) string {
	if text = strings.TrimSpace(text); text == "" {
		return otherwise
	}
	return text
}

// ofTimes compares how long an engine may start with how long its reservation holds.
func ofTimes(p Properties) []Finding {
	const start, ttl = "wds.linkis.manager.am.engine.start.max.time", bursarPrefix + "reservation.ttl"
	longest, okStart := duration(cmpOr(p[start], "11m"))
	holds, okTTL := duration(cmpOr(p[ttl], "12m"))
	if !okStart || !okTTL || longest <= holds {
		return nil
	}
	return []Finding{{
		Area: "setting", Subject: start, Now: longest.String(), Attention: true,
		Bursar: fmt.Sprintf("a reservation returns after %s (%s): want a longer one", holds, ttl),
	}}
}

// duration reads Linkis's times: 120s, 8m, or milliseconds without a unit.
func duration(text string) (time.Duration, bool) {
	text = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), "min", "m")
	if millis, err := strconv.ParseInt(text, 10, 64); err == nil {
		text = strconv.FormatInt(millis, 10) + "ms"
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// NamedMode is the value of linkis.bursar.mode in a file.
type NamedMode struct{ File, Mode string }

// Modes compares the values of linkis.bursar.mode in several files. Each service reads those of its
// own.
func Modes(modes []NamedMode) []Finding {
	var texts []string
	differ := false
	for _, m := range modes {
		texts = append(texts, m.Mode+" in "+m.File)
		differ = differ || m.Mode != modes[0].Mode
	}
	if !differ {
		return nil
	}
	return []Finding{{
		Area: "setting", Subject: bursarPrefix + "mode", Now: strings.Join(texts, ", "), Attention: true,
		Bursar: "each service has the mode of its own files; below is what the last file says",
	}}
}

// ModeOf is the value of linkis.bursar.mode in a file; empty: it has none.
func ModeOf(p Properties) string { return strings.ToLower(strings.TrimSpace(p[bursarPrefix+"mode"])) }

func ofBursar(p Properties) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if own, ours := strings.CutPrefix(name, bursarPrefix); ours && !slices.Contains(bursarSettings(), own) {
			findings = append(findings, Finding{
				Area: "setting", Subject: name, Now: "set", Attention: true,
				Bursar: "there is no such setting, and Linkis will not start: want one of " + strings.Join(bursarSettings(), ", "),
			})
		}
	}
	findings = append(findings, ofValues(p)...)
	mode := Finding{Area: "setting", Subject: bursarPrefix + "mode", Now: cmpOr(p[bursarPrefix+"mode"], "off")}
	decided := cmpOr(ModeOf(p), "off")
	switch decided {
	case "off":
		mode.Bursar = "Linkis decides alone; shadow compares without deciding, enforce lets Bursar decide"
	case "shadow":
		mode.Bursar = "Linkis decides, and the manager logs where Bursar would not have agreed"
	case "enforce":
		mode.Bursar = "Bursar decides"
	default:
		mode.Bursar, mode.Attention = "want off, shadow or enforce", true
	}
	if decided != "off" && p[bursarPrefix+"url"] == "" {
		findings = append(findings, Finding{Area: "setting", Subject: bursarPrefix + "url", Now: "not set", Bursar: "LinkisManager does not start without it", Attention: true})
	}
	if decided != "off" && p[bursarPrefix+"token.file"] == "" {
		findings = append(findings, Finding{
			Area: "setting", Subject: bursarPrefix + "token.file", Now: "not set", Attention: true,
			Bursar: "a coordinator that knows LinkisManager by its account alone refuses what it asks for other users: want a token of role admin or operator that may act as all of them",
		})
	}
	return append(findings, mode)
}
