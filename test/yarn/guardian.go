package yarn

import (
	"fmt"
	"path/filepath"

	"github.com/bursar/bursar/test/proc"
)

// guardScript removes the remains of a cluster: all processes whose working directory is in its
// folder, including its containers, and the folder. After the death of the starter nothing else
// would: a container is its own session.
const guardScript = `round=0
while [ $round -lt 100 ]; do
	round=$((round + 1)); found=
	for process in /proc/[0-9]*; do
		case $(readlink "$process/cwd")/ in "$1"/*) found=1; kill -KILL "${process#/proc/}" 2>/dev/null ;; esac
	done
	[ -n "$found" ] || break
	sleep 0.05
done
[ -z "$2" ] || rm -rf "$2"`

// guard cleans up after the processes of a cluster, even if this process is killed.
func guard(dir string) (*proc.Guardian, error) {
	place, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("guardian: %w", err)
	}
	return proc.Guard(guardScript, place, dir)
}
