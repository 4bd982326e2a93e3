package postgres

import "github.com/bursar/bursar/test/proc"

// guardScript removes what is left of a server: its directory, and all processes that work in its
// data, stopped ones too. The kernel would signal only the first process of the server, and none
// that are stopped. They get five seconds to end in order, because only then does the kernel get
// back the memory that they share.
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

// guard clears away after this process, even if it was killed.
func guard(dir string) (*proc.Guardian, error) { return proc.Guard(guardScript, dir) }
