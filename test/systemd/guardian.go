package systemd

import "github.com/bursar/bursar/test/proc"

// guardScript ends all processes in a machine's cgroups, and removes the cgroups and its folder.
// Its mounts are in a namespace that ends with its processes. After the end of the process that
// started the machine, nothing else would clean up.
const guardScript = `folder=$1; shift
left=0
round=0
while [ $round -lt 300 ]; do
	round=$((round + 1)); found=
	for cgroup in "$@"; do
		processes=$(find "$cgroup" -name cgroup.procs -exec cat {} + 2>/dev/null)
		[ -z "$processes" ] || { found=1; kill -KILL $processes 2>/dev/null; }
	done
	[ -n "$found" ] || break
	sleep 0.05
done
for cgroup in "$@"; do
	round=0
	while [ -d "$cgroup" ] && [ $round -lt 100 ]; do
		round=$((round + 1))
		find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
		[ ! -d "$cgroup" ] || sleep 0.05
	done
	[ ! -d "$cgroup" ] || { left=1; echo "$cgroup is still there" >&2; }
done
rm -rf "$folder" && exit $left`

// guard cleans up after a machine, even if this process is killed.
func guard(folder string, cgroups []string) (*proc.Guardian, error) {
	return proc.Guard(guardScript, append([]string{folder}, cgroups...)...)
}
