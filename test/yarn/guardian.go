package yarn

import (
	"fmt"
	"path/filepath"

	"github.com/bursar/bursar/test/proc"
)

// guardScript clears away what is left of a cluster: all processes that stand in its folder, its
// containers among them, and the folder. Without the one who started it nobody else would: a
// container is its own session.
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

// guard clears away after the processes of a cluster, even if this process was killed.
func guard(dir string) (*proc.Guardian, error) {
	place, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("guardian: %w", err)
	}
	return proc.Guard(guardScript, place, dir)
}
