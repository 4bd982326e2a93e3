package cgroupfs

import (
	"os"
	"path/filepath"
)

// Namespace returns the kind and number of a process's namespace, such as "pid:[4026531836]". The
// number is unique within a boot. The errors are those of os.Readlink.
func Namespace(process, kind string) (string, error) {
	return os.Readlink(filepath.Join(process, "ns", kind)) //nolint:wrapcheck // it names the file
}

// OtherNamespace reports whether a process is in another namespace of a kind ("pid", "cgroup",
// "time", "user") than this process. own and process are their folders in a process table. If this
// process has no such namespace, the kernel has none, and the result is false. The error says why
// the other process cannot be read.
func OtherNamespace(own, process, kind string) (bool, error) {
	mine, err := Namespace(own, kind)
	if err != nil {
		return false, nil //nolint:nilerr // the kernel has no such namespaces
	}
	its, err := Namespace(process, kind)
	if err != nil {
		return false, err
	}
	return mine != its, nil
}
