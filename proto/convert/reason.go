package convert

import (
	"cmp"
	"strings"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// ErrorOutput separates the reason of an allocation's state from the output of its engine, if an
// engine has exited. An agent of an older version reports both in the reason. All code that decides
// who may see an engine's output calls it.
func ErrorOutput(reason, output string, exited bool) (how, wrote string) {
	if output != "" || !exited {
		return reason, output
	}
	return SeparateReason(reason)
}

// RightsOf returns the user who may act on an allocation, and see the output of its engine. The
// label user names the user who pays for it.
func RightsOf(a *bursarv1.Allocation) string {
	return cmp.Or(a.GetActingUser(), a.GetLabels()["user"])
}

// SeparateReason splits a reason from an agent of an older version, which appends the engine's
// output to its own words: "exit code 1: LINE | LINE". A caller may have released an engine with a
// reason of the same form, or the name of a cgroup may contain ": ". Then the rest also counts as
// the engine's output, and only users who may see output see it.
func SeparateReason(reason string) (how, output string) {
	how, output, _ = strings.Cut(reason, ": ")
	switch {
	case how == killedForMemory:
	// ", after the kernel had killed 2 of its processes …: WHOSE MEMORY"
	case strings.Contains(how, ","):
		return reason, ""
	case strings.HasPrefix(how, "exit code "), strings.HasPrefix(how, "killed by "):
		return how, output
	default:
		return reason, ""
	}
	for _, whose := range []string{"its cgroup's limit of ", "the limit of cgroup ", "the machine's"} {
		if strings.HasPrefix(output, whose) {
			whose, output, _ = strings.Cut(output, ": ")
			return how + ": " + whose, output
		}
	}
	return how, output
}

const killedForMemory = "killed for lack of memory"
