package check

import (
	"fmt"
	"strings"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// ECM is an EngineConnManager as Linkis's tables have it.
type ECM struct {
	Instance    string // host:port
	MemoryBytes int64
	Cores       int64
	Instances   int64
}

// Sizes compares ECMs with the hosts of Bursar. Without hosts, nil, it tells Linkis's sizes only.
func Sizes(p Properties, ecms []ECM, hosts []*bursarv1.Host) []Finding {
	mapped := map[string]string{}
	for pair := range strings.SplitSeq(p[bursarPrefix+"host.map"], ",") {
		if from, to, ok := strings.Cut(pair, "="); ok {
			mapped[strings.TrimSpace(from)] = strings.TrimSpace(to)
		}
	}
	byID := map[string]*bursarv1.Host{}
	for _, h := range hosts {
		byID[h.GetId()] = h
	}
	millis := millisPerCore(p)
	var findings []Finding
	for _, ecm := range ecms {
		f := Finding{Area: "ecm", Subject: ecm.Instance, Now: fmt.Sprintf("%s, %d cores, %d engines", sizeText(ecm.MemoryBytes), ecm.Cores, ecm.Instances)}
		name := ecm.Instance[:max(0, strings.LastIndexByte(ecm.Instance, ':'))]
		id := name
		for _, key := range []string{name, ecm.Instance} {
			if to, has := mapped[key]; has {
				id = to
			}
		}
		host := byID[id]
		switch {
		case hosts == nil:
			f.Bursar = "what the agent of host " + id + " measures (name a coordinator with --addr to compare)"
		case host == nil:
			f.Bursar, f.Attention = "there is no host "+id+": start an agent there, or name its host in linkis.bursar.host.map", true
		default:
			limit := host.GetAccount().GetLimit()
			f.Bursar = fmt.Sprintf("host %s has %s, %s cores", id, sizeText(limit.GetMemoryBytes()), coresText(limit.GetCpuMillis()))
			if millis != 1000 {
				f.Bursar += fmt.Sprintf(", which are %d of Linkis", limit.GetCpuMillis()/millis)
			}
			if ecm.MemoryBytes > limit.GetMemoryBytes() || ecm.Cores > limit.GetCpuMillis()/millis {
				f.Bursar += ": less than Linkis gives away"
				f.Attention = true
			}
		}
		findings = append(findings, f)
	}
	return findings
}

func coresText(millis int64) string { return fmt.Sprintf("%.4g", float64(millis)/1000) }

func sizeText(bytes int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.size {
			return fmt.Sprintf("%.4g %s", float64(bytes)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}
