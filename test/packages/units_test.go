package packages

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const unitDir = root + "/deploy/systemd/"

// A unit states its exposure, and that is right. No line may go that keeps it there.
func TestExposureIsAsStated(t *testing.T) {
	stated := regexp.MustCompile(`(?m)^# systemd-analyze security .*: exposure (\d+)\.(\d)`)
	for unit, most := range map[string]string{"bursar-agent.service": "3.5", "bursar-coordinator.service": "1.3"} {
		found := stated.FindStringSubmatch(string(read(t, unitDir+unit)))
		if found == nil || found[1]+"."+found[2] != most {
			t.Errorf("%s states %q, want %s", unit, found, most)
			continue
		}
		tenths, err := strconv.Atoi(found[1] + found[2])
		if err != nil {
			t.Fatal(err)
		}
		if out, err := security(t, unit, tenths); err != nil {
			t.Errorf("%s: %v, at a threshold of %d\n%s", unit, err, tenths, out)
		}
		if out, err := security(t, unit, tenths-1); err == nil {
			t.Errorf("%s is better than it states:\n%s", unit, out)
		}
	}
}

// security measures the exposure in tenths, as systemd-analyze takes a threshold.
func security(t *testing.T, unit string, threshold int) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--no-pager", "--offline=true", fmt.Sprintf("--threshold=%d", threshold), unitDir+unit).CombinedOutput()
	return string(out), err
}

// What the issue asks of the units: a change here is a decision.
func TestUnitsSayWhatMustNotChangeByAccident(t *testing.T) {
	for unit, lines := range map[string][]string{
		"bursar-agent.service": {
			"Type=notify", "NotifyAccess=main", "WatchdogSec=30s", "Restart=on-failure", "RestartPreventExitStatus=64 78", "StartLimitIntervalSec=0",
			"KillMode=process", "Sockets=bursar-agent.socket", "Also=bursar-agent.socket", "RuntimeDirectoryPreserve=yes", "StateDirectory=bursar/agent",
		},
		"bursar-agent.socket":  {"ListenStream=/run/bursar/agent.sock", "SocketMode=0666"},
		"bursar-engines.slice": {"MemoryAccounting=yes", "CPUAccounting=yes"},
		"bursar-coordinator.service": {
			"Type=notify", "NotifyAccess=main", "WatchdogSec=30s", "Restart=on-failure", "RestartPreventExitStatus=64 78", "StartLimitIntervalSec=0",
			"User=bursar", "StateDirectory=bursar/coordinator", "CapabilityBoundingSet=",
		},
	} {
		text := "\n" + string(read(t, unitDir+unit))
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("%s does not say %s", unit, line)
			}
		}
		for _, never := range []string{"Requires=consul", "KillMode=control-group", "BindsTo="} {
			if strings.Contains(text, never) {
				t.Errorf("%s says %s", unit, never)
			}
		}
	}
}

// Every directive of the sandbox, and every one that is left out, stands below a reason.
func TestHardeningIsExplained(t *testing.T) {
	for _, unit := range []string{"bursar-agent.service", "bursar-coordinator.service"} {
		_, hardening, found := strings.Cut(string(read(t, unitDir+unit)), "# --- Hardening")
		if !found || !strings.Contains(hardening, "# Not set, and why:") {
			t.Errorf("%s has no part on hardening", unit)
		}
		for _, capability := range regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`).FindStringSubmatch(hardening)[1:] {
			for name := range strings.FieldsSeq(capability) {
				if !regexp.MustCompile(`(?m)^#   ` + name + ` +\S`).MatchString(hardening) {
					t.Errorf("%s: nothing says what %s is for", unit, name)
				}
			}
		}
	}
}

// Each example says where it goes; make lint makes systemd read them there.
func TestExamplesSayWhereTheyGo(t *testing.T) {
	files, err := filepath.Glob(unitDir + "examples/*.conf")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	place := regexp.MustCompile(`^# /etc/systemd/system/(bursar-[a-z]+\.(service|socket|slice))\.d/[a-z-]+\.conf\n#`)
	for _, file := range files {
		found := place.FindSubmatch(read(t, file))
		if found == nil {
			t.Errorf("%s does not begin with the path of a drop-in", file)
			continue
		}
		read(t, unitDir+string(found[1]))
	}
}
