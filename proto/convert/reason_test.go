package convert

import "testing"

func TestWhatAgentsOfAnOlderVersionPutBehindTheirWordsIsTakenFromAReason(t *testing.T) {
	for reason, want := range map[string][2]string{
		"":                                {"", ""},
		"process ended":                   {"process ended", ""},
		"stopped: exit code 1: x":         {"stopped: exit code 1: x", ""},
		"released by alice: bob":          {"released by alice: bob", ""},
		"exit code 1":                     {"exit code 1", ""},
		"exit code 1: a: b | c":           {"exit code 1", "a: b | c"},
		"killed by SIGSEGV: x":            {"killed by SIGSEGV", "x"},
		"killed by signal 40: x":          {"killed by signal 40", "x"},
		"killed for lack of memory":       {"killed for lack of memory", ""},
		"killed for lack of memory: x: y": {"killed for lack of memory", "x: y"},
		"killed for lack of memory: its cgroup's limit of 4GiB":    {"killed for lack of memory: its cgroup's limit of 4GiB", ""},
		"killed for lack of memory: its cgroup's limit of 4GiB: x": {"killed for lack of memory: its cgroup's limit of 4GiB", "x"},
		"killed for lack of memory: the limit of cgroup /a: x":     {"killed for lack of memory: the limit of cgroup /a", "x"},
		"killed for lack of memory: the machine's: x":              {"killed for lack of memory: the machine's", "x"},
		// The form of this version.
		"exit code 1, after the kernel had killed 1 of its processes for lack of memory: its cgroup's limit of 4GiB": {
			"exit code 1, after the kernel had killed 1 of its processes for lack of memory: its cgroup's limit of 4GiB", "",
		},
	} {
		if how, output := SeparateReason(reason); how != want[0] || output != want[1] {
			t.Errorf("%q: %q and %q, want %q", reason, how, output, want)
		}
	}
}

func TestWhatAnEngineWroteIsInItsFieldOrInTheReasonOfItsExit(t *testing.T) {
	for _, c := range []struct {
		reason, output string
		exited         bool
		how, wrote     string
	}{
		{"exit code 1: a", "", true, "exit code 1", "a"},
		{"exit code 1: a", "", false, "exit code 1: a", ""},
		{"exit code 1: a", "b", true, "exit code 1: a", "b"},
		{"exit code 1", "b", false, "exit code 1", "b"},
		{"stopped", "", true, "stopped", ""},
	} {
		if how, wrote := ErrorOutput(c.reason, c.output, c.exited); how != c.how || wrote != c.wrote {
			t.Errorf("%+v: %q and %q", c, how, wrote)
		}
	}
}
