package convert

import "strings"

// SeparateReason takes from the reason of an end what an agent of an older version put behind its
// own words: "exit code 1: LINE | LINE". What a caller has released an engine with in the same
// form, and what follows the name of a cgroup with ": " in it, is taken for an engine's words too,
// and shown to those alone who may see these.
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
