#!/usr/bin/env bash
# case: dev without bursar-keeper does not say which part is missing
. "$CASES/lib.sh"
mkdir -p "$WORK/alone"
cp "$BURSAR" "$WORK/alone/bursar"
export PATH=/usr/bin:/bin
start dev "$WORK/alone/bursar" dev --listen "$ADDR" --data-dir "$WORK/data" --agent-socket "$SOCK"
eventually is_ready "$PORT"
eventually test -S "$SOCK"
[[ -e /usr/libexec/bursar/bursar-keeper ]] && exit 0 # a package has put it there
grep -q "bursar-keeper is missing.*$WORK/alone/bursar-keeper" "$WORK/dev.log" || fault "dev does not say what is missing: $(cat "$WORK/dev.log")"
out=$(b run --detach --memory 1MiB -l user=root -- true 2>&1) && fault 'an engine is started without a keeper'
[[ $out == *bursar-keeper* && $out != *configuration* ]] || fault "run --detach says: $out"
cp "$(dirname "$BURSAR")/bursar-keeper" "$WORK/alone/"
b run --detach --memory 1MiB -l user=root -- true >/dev/null || fault 'the keeper is there now, and not found'
