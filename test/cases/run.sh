#!/usr/bin/env bash
# Runs the cases below this folder, one after the other, as root: see README.md. The argument is a
# regular expression of names (kind/name); without one all run. Each case runs in namespaces of its
# own (mounts, processes, network, IPC, host name) with a copy of /etc, so that it changes nothing
# on this machine and ends with all that it started. The last lines name the state of each case; the
# exit code is 1 if one failed. What a case printed is in bin/cases/KIND/NAME.log.
#
# BURSAR is the program under test, with bursar-keeper next to it (default bin/bursar); CONSUL is
# Consul's program, PGBIN the folder of PostgreSQL's. FOLDER is where the cases are.
set -euo pipefail
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$tree"
exec </dev/null

wanted=${1:-.}
folder=$(cd "${FOLDER:-test/cases}" && pwd)
program=$(readlink -f "${BURSAR:-bin/bursar}")
consul=$(readlink -f "${CONSUL:-/none}")
logs=$tree/bin/cases

die() { echo "cases: $*" >&2; exit 2; }
[[ $(id -u) == 0 ]] || die 'namespaces and the accounts of the cases need root: run as root'
[[ -x $program ]] || die "there is no $program: run make build"

if [[ -z ${PGBIN:-} ]]; then
  for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin; do
    [[ ! -x $dir/initdb ]] || PGBIN=$dir
  done
fi

# A case is a script of bash with a line "# case: …", which says what must not happen. The line
# "# limit: SECONDS" gives it another time limit than a minute.
header() { sed -nE "1,20s/^# $2: +//p" "$folder/$1.sh" | head -n 1; }
cases=()
while IFS= read -r file; do
  name=${file#"$folder"/} name=${name%.sh}
  [[ $name =~ $wanted && -n $(header "$name" case) ]] && cases+=("$name")
done < <(LC_ALL=C find "$folder" -mindepth 2 -maxdepth 2 -name '*.sh' | LC_ALL=C sort)
((${#cases[@]})) || die "no case matches $wanted"

# Ordinary users run programs and scripts from here: the checkout may be closed to them.
base=$(mktemp -d /tmp/bursar-cases.XXXXXX)
trap 'rm -rf "$base"' EXIT
chmod 755 "$base"
mkdir "$base/bin" "$base/work"
cp "$program" "$(dirname "$program")/bursar-keeper" "$base/bin/"
cp -r "$folder" "$base/cases"
cp "$tree"/test/cases/{inside,lib}.sh "$tree/test/cases/api.py" "$base/cases/"
chmod -R a+rX "$base"
group=bursar-case-$$

# remove ends what is left in the cgroups of a case, and removes them.
remove() {
  local top cgroup pid
  for top in /sys/fs/cgroup/"$group" /sys/fs/cgroup/*/"$group"; do
    [[ -d $top ]] || continue
    while IFS= read -r cgroup; do
      for _ in 1 2 3 4 5 6 7 8 9 10; do
        [[ ! -e $cgroup/freezer.state ]] || echo THAWED >"$cgroup/freezer.state" || true
        while read -r pid; do kill -KILL "$pid" 2>/dev/null || true; done <"$cgroup/cgroup.procs" || true
        ! rmdir "$cgroup" 2>/dev/null || break
        sleep 0.1
      done
    done < <(find "$top" -depth -type d)
  done
}

# run NAME sets state and took.
run() {
  local name=$1 limit began=$EPOCHREALTIME code=0 log=$logs/$1.log
  limit=$(header "$name" limit)
  limit=${limit:-60}
  mkdir -p "$(dirname "$log")" "$base/work"
  env -i PATH="$base/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin" HOME="$HOME" LANG=C.UTF-8 \
    GOFLAGS="${GOFLAGS:-}" GOCACHE="$(go env GOCACHE)" GOMODCACHE="$(go env GOMODCACHE)" \
    GOPATH="$(go env GOPATH)" GOPROXY=off CGO_ENABLED=0 \
    TREE="$tree" CASES="$base/cases" BASE="$base" WORK="$base/work" W="$base/work" PORT=21000 ROUNDS="${ROUNDS:-}" \
    BURSAR="$base/bin/bursar" CONSUL="$consul" PGBIN="${PGBIN:-/none}" CGROUP="/$group" \
    timeout -s KILL "$limit" unshare --mount --pid --net --ipc --uts --fork --kill-child \
    setsid bash "$base/cases/inside.sh" "$name" >"$log" 2>&1 || code=$?
  took=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f s", b - a }')
  case $code in
    0) state=passed ;;
    137) state="FAILED: it was ended after its limit of $limit s" ;;
    *) state="FAILED: $(grep -a '^FAULT: ' "$log" | head -n 1 | cut -c 8-200 || true)" ;;
  esac
  [[ $state != 'FAILED: ' ]] || state="FAILED: it ended with code $code"
  remove
  rm -rf "$base/work"
}

states=() passed=0 failed=0
for name in "${cases[@]}"; do
  run "$name"
  states+=("$(printf '%-34s %8s  %s' "$name" "$took" "$state")")
  printf '%s\n' "${states[-1]}"
  if [[ $state == passed ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf '  case: %s\n' "$(header "$name" case)"
    tail -n 40 "$logs/$name.log" | sed 's/^/    /'
  fi
done
printf '\n== cases\n'
printf '%s\n' "${states[@]}"
printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
