package check

import (
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// TestValuesThatRefuseTheStartAreFound: what LinkisManager would refuse is said before it is
// started.
func TestValuesThatRefuseTheStartAreFound(t *testing.T) {
	p := Properties{}
	for name, value := range map[string]string{
		"url": "rm-1:7070", "token.file": "token", "tls.ca": "./ca.pem", "wait.max": "never", "projector.interval": "2", "cpu.millis.per.core": "abc", "quota.import": "yes", "host.map": "ecm-1",
		"quota.interval": "30s", "reservation.ttl": "12m", "launch": "false",
	} {
		p[bursarPrefix+name] = value
	}
	var refused []string
	for _, f := range Settings(p) {
		if f.Attention && strings.Contains(f.Bursar, "does not start: want ") {
			refused = append(refused, strings.TrimPrefix(f.Subject, bursarPrefix))
		}
	}
	for _, want := range []string{"url", "token.file", "tls.ca", "wait.max", "projector.interval", "cpu.millis.per.core", "quota.import", "host.map"} {
		if !strings.Contains(strings.Join(refused, " "), want) {
			t.Errorf("%s is not among %v", want, refused)
		}
	}
	if len(refused) != 8 {
		t.Errorf("%v: want eight of them", refused)
	}
}

// TestATokenIsNotSentInClear: LinkisManager refuses that, too.
func TestATokenIsNotSentInClear(t *testing.T) {
	for value, refused := range map[string]bool{
		"http://rm-1:7070": true, "https://rm-1:7070": false, "http://127.0.0.1:7070": false, "http://[::1]:7070,http://rm-2": true,
		"https://user:secret@rm-2": true, "https://rm-1/path": true,
	} {
		found := ofValues(Properties{bursarPrefix + "url": value, bursarPrefix + "token.file": "/etc/token"})
		if (len(found) == 1) != refused || refused && strings.Contains(found[0].Now, "secret") {
			t.Errorf("%s: %v, want it refused: %t", value, found, refused)
		}
	}
}

// TestOffIsOffHoweverItIsWritten: nothing of Bursar is looked for then.
func TestOffIsOffHoweverItIsWritten(t *testing.T) {
	if found := ofBursar(Properties{bursarPrefix + "mode": "OFF"}); len(found) != 1 || found[0].Attention {
		t.Errorf("%+v", found)
	}
}

// TestModesOfTwoServicesAreBothTold: each service reads its own file, and a move changes one after
// the other.
func TestModesOfTwoServicesAreBothTold(t *testing.T) {
	same := Modes([]NamedMode{{"manager.properties", "enforce"}, {"ecm.properties", "enforce"}})
	if len(same) != 0 {
		t.Errorf("the same: %v", same)
	}
	differ := Modes([]NamedMode{{"manager.properties", "enforce"}, {"ecm.properties", "off"}})
	if len(differ) != 1 || !differ[0].Attention || differ[0].Now != "enforce in manager.properties, off in ecm.properties" {
		t.Errorf("%+v", differ)
	}
}

// TestCoresAreCountedAsTheAdapterCountsThem: with a factor a core of Linkis is less than a core.
func TestCoresAreCountedAsTheAdapterCountsThem(t *testing.T) {
	p := Properties{bursarPrefix + "cpu.millis.per.core": "20"}
	if text, _ := rule("wds.linkis.rm.client.core.max", "10", millisPerCore(p)); text != "quota rule: cpu 0.2" {
		t.Error(text)
	}
	host := &bursarv1.Host{Id: "ecm-1", Account: &bursarv1.Account{Limit: &bursarv1.Resource{MemoryBytes: new(int64(1) << 40), CpuMillis: new(int64(2000))}}}
	ecms := []ECM{{Instance: instanceOf(`{"instance":"ecm-1:17476","serviceName":"linkis-cg-engineconnmanager"}`), MemoryBytes: 1 << 30, Cores: 100}}
	if f := Sizes(p, ecms, []*bursarv1.Host{host}); len(f) != 1 || f[0].Attention || !strings.Contains(f[0].Bursar, "100 of Linkis") {
		t.Errorf("%+v", f)
	}
	p[bursarPrefix+"cpu.millis.per.core"] = "1000"
	if f := Sizes(p, ecms, []*bursarv1.Host{host}); len(f) != 1 || !f[0].Attention || !strings.Contains(f[0].Bursar, "host ecm-1 has 1024 GiB, 2 cores") {
		t.Errorf("%+v", f)
	}
}

// TestAReservationShouldOutlastAStart: by default an engine of Linkis 1.8 may take 11 minutes.
func TestAReservationShouldOutlastAStart(t *testing.T) {
	const ttl = bursarPrefix + "reservation.ttl"
	if found := ofTimes(Properties{ttl: "11m"}); found != nil {
		t.Errorf("11m: %v", found)
	}
	if found := ofTimes(Properties{ttl: "10m"}); len(found) != 1 || !found[0].Attention || found[0].Now != "11m0s" {
		t.Errorf("10m: %v", found)
	}
}
