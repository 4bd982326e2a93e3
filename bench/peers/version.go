package peers

import "runtime/debug"

// checkout is the commit of a peer that was built from a checkout; the linker sets it.
var checkout string //nolint:gochecknoglobals // only a variable can be set by the linker

// VersionOf returns the version of a module in this program.
func VersionOf(module string) string {
	if checkout != "" {
		return checkout
	}
	info, found := debug.ReadBuildInfo()
	if !found {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "unknown"
}
