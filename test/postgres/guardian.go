package postgres

import "github.com/bursar/bursar/test/proc"

// guardScript removes the remains of a server: its directory, and all processes, including stopped
// ones, whose working directory is its data directory. The kernel would signal only the first
// process of the server, and no stopped ones. The processes get five seconds for an orderly end,
// because only then does the kernel get back their shared memory.
const guardScript = `data=$(readlink -f "$1/data")
signal() {
	found=1
	for process in /proc/[0-9]*; do
		[ "$(readlink "$process/cwd")" != "$data" ] || { found=0; kill "-$1" "${process#/proc/}"; }
	done
	return $found
}
round=0
if signal QUIT; then
	while signal CONT && [ $round -lt 50 ]; do round=$((round + 1)); sleep 0.1; done
	signal KILL
fi
rm -rf "$1"`

// guard cleans up after this process, even if it is killed.
func guard(dir string) (*proc.Guardian, error) { return proc.Guard(guardScript, dir) }
