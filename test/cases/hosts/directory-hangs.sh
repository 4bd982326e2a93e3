#!/usr/bin/env bash
# case: a directory of users that does not answer stops the engines of local users
. "$CASES/lib.sh"
coordinator
printf '#!/bin/sh\nexec sleep 300\n' >"$WORK/hang"
chmod 755 "$WORK/hang"
for program in /usr/bin/getent /usr/bin/id; do mount --bind "$WORK/hang" "$program"; done
agent h1 "engines: {cgroups: none, logDir: $WORK/logs}
trustedUsers: [trusted, user-of-the-directory]"

# A local user, in the foreground and in the background, alone and next to thirty others whose
# look-ups hang.
quick() { # quick SECONDS WHAT COMMAND...
  local began=$SECONDS out
  out=$("${@:3}" 2>&1) || fault "$2: refused after $((SECONDS - began)) s: $out"
  ((SECONDS - began <= $1)) || fault "$2: after $((SECONDS - began)) s"
}
quick 4 'run' as alice timeout 20 "$BURSAR" run --memory 1MiB -l user=alice -- true
quick 4 'run --detach' as alice timeout 20 "$BURSAR" run --detach --memory 1MiB -l user=alice -- true
for i in $(seq 30); do
  setpriv --reuid $((61600 + i)) --regid $((61600 + i)) --clear-groups \
    "$BURSAR" run --memory 1MiB -l user=x -- true >/dev/null 2>&1 &
done
sleep 0.3
quick 4 'run next to others' as bob timeout 20 "$BURSAR" run --memory 1MiB -l user=bob -- true
quick 4 'run --detach next to others' as bob timeout 20 "$BURSAR" run --detach --memory 1MiB -l user=bob -- true
quick 4 'run --detach as another account' as trusted timeout 20 "$BURSAR" run --detach --user bob --memory 1MiB -l user=bob -- true
