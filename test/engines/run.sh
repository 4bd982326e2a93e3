#!/usr/bin/env bash
# run.sh [smoke]: runs the real engines that tools/engines/provide.sh has installed under Bursar,
# and compares Bursar's figures with the kernel's: see README.md. As root it runs in namespaces of
# its own, with two more accounts, and with cgroups if the machine has them for memory. As an
# ordinary user it tries what an agent of that user can do.
#
# BURSAR is the program under test, with bursar-keeper next to it (default bin/bursar); ENGINES is a
# regular expression of AGENT/SCENE/WAY, such as 'user/flink.*/run'. Figures go to ENGINES_OUT
# (default bin/engines).
set -euo pipefail
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$tree"
exec </dev/null

kind=all
[[ ${1:-} != smoke ]] || kind=smoke
place=$tree/$(tools/engines/provide.sh --where "$kind")
program=$(readlink -f "${BURSAR:-bin/bursar}")
out=${ENGINES_OUT:-bin/engines}
[[ -x $place/bin/python ]] || { echo "engines: there is no $place: run tools/engines/provide.sh $kind" >&2; exit 2; }
[[ -x $program ]] || { echo "engines: there is no $program: run make build" >&2; exit 2; }
mkdir -p "$out"

# Ordinary users run programs and scripts from here: the checkout may be closed to them.
base=$(mktemp -d /tmp/bursar-engines.XXXXXX)
group=bursar-engines-$$
finish() {
  local folder
  for folder in /sys/fs/cgroup/*/"$group" /sys/fs/cgroup/"$group"; do
    [[ -d $folder ]] || continue
    find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
  rm -rf "$base"
}
trap finish EXIT
chmod 755 "$base"
mkdir "$base/bin"
mkdir -m 1777 "$base/tmp"
cp "$program" "$(dirname "$program")/bursar-keeper" "$base/bin/"
cp -r "$tree/test/engines" "$base/test"
chmod -R a+rX "$base/bin" "$base/test"

java=
for link in .cache/tools/yarn-java .cache/tools/linkis-jdk/bin/java; do
  [[ ! -x $link ]] || java=$(dirname "$(dirname "$(readlink -f "$link")")")
done
[[ -n $java || $kind == smoke ]] || { echo 'engines: there is no Java: run tools/yarn/provide.sh' >&2; exit 2; }

words=(env -i PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" HOME="$HOME" LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
  TMPDIR="$base/tmp" BURSAR="$base/bin/bursar" ENGINES="${ENGINES:-.}" ENGINES_OUT="$(readlink -f "$out")"
  ENGINES_HERE="$base/test" ENGINES_FOLDER="$base/run" ENGINES_JAVA="$java"
  ENGINES_SMOKE="$([[ $kind == all ]] || echo 1)" ENGINES_JOBS="$([[ $kind == all ]] && echo 1 || echo 6)")
cgroup=
if [[ $(id -u) == 0 ]]; then
  # A memory hierarchy in which a cgroup can be made.
  for top in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    [[ -n $cgroup || ! -e $top/cgroup.procs ]] || ! mkdir "$top/$group" 2>/dev/null || [[ ! -e $top/$group/memory.stat ]] || cgroup=/$group
  done
  mkdir -p "$base/engines"
  nice -n 10 "${words[@]}" ENGINES_PLACE="$base/engines" PLACE="$place" ENGINES_CGROUP="$cgroup" ENGINES_USER=ada \
    unshare --mount --pid --net --ipc --uts --fork --kill-child setsid bash "$base/test/inside.sh"
else
  mkdir "$base/run"
  nice -n 10 "${words[@]}" ENGINES_PLACE="$place" ENGINES_SITE="$("$place/bin/python" -c 'import site; print(site.getsitepackages()[0])')" \
    /usr/bin/python3 "$base/test/engines.py"
fi
