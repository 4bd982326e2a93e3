package resource

import "strings"

// otherWords maps other systems' words to dimensions.
var otherWords = map[string]string{
	"vcores": CPU, "vcore": CPU, "cores": CPU, "core": CPU, "cpus": CPU,
	"mem": Memory, "memorymb": Memory, "ram": Memory,
	"amcores": AMCPU, "amvcores": AMCPU, "ammem": AMMemory, "ammemorymb": AMMemory,
	"instance": Instances, "application": Applications, "apps": Applications,
}

// Meant returns the dimension that a custom name probably stands for, as another system's word or
// in another spelling: cpu for vcores, am-memory for AM_Memory. Empty: none.
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
