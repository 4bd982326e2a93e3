package resource

import "strings"

// otherWords are names by which other systems know the dimensions.
var otherWords = map[string]string{
	"vcores": CPU, "vcore": CPU, "cores": CPU, "core": CPU, "cpus": CPU,
	"mem": Memory, "memorymb": Memory, "ram": Memory,
	"amcores": AMCPU, "amvcores": AMCPU, "ammem": AMMemory, "ammemorymb": AMMemory,
	"instance": Instances, "application": Applications, "apps": Applications,
}

// Meant returns the dimension that a name of a custom one was probably meant to be, by another
// system's word for it or in other writing: cpu for vcores, am-memory for AM_Memory. Empty: none.
func Meant(custom string) string {
	plain := func(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) }
	name := plain(custom)
	for _, dimension := range []string{Memory, CPU, Instances, AMMemory, AMCPU, Applications} {
		switch {
		case custom == dimension:
			return ""
		case name == plain(dimension):
			return dimension
		}
	}
	return otherWords[name]
}
