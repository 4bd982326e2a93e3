#!/usr/bin/env bash
# case: a group of a directory (LDAP) denies nobody: only groups of /etc/group are compared
# limit: 90
. "$CASES/lib.sh"
# The directory: bob is in ops, a group that no file has; carol is an account of it.
real=$WORK/real
mkdir "$real"
cp /usr/bin/getent /usr/bin/id "$real/"
cat >"$WORK/getent" <<G
#!/bin/sh
case "\$1 \$2" in
'group ops') echo 'ops:*:62001:bob' ;;
'passwd carol') echo 'carol:*:62002:62001::/:/bin/sh' ;;
'passwd 62002') echo 'carol:*:62002:62001::/:/bin/sh' ;;
'group down') exit 3 ;;
*) exec $real/getent "\$@" ;;
esac
G
cat >"$WORK/id" <<G
#!/bin/sh
case "\$*" in
'-G -- bob') echo 61003 62001 ;;
'-Gn -- bob') echo bob ops ;;
'-G -- carol') echo 62001 ;;
'-Gn -- carol') echo ops ;;
*) exec $real/id "\$@" ;;
esac
G
chmod 755 "$WORK/getent" "$WORK/id"
mount --bind "$WORK/getent" /usr/bin/getent
mount --bind "$WORK/id" /usr/bin/id

remote() { echo "engines: {cgroups: none, logDir: $WORK/logs, remote: {accounts: [alice, bob, carol], deniedGroups: [$1]}}"; }
attacked "$(remote 'sudo, ops')"
sed -i 's/^  - name: alice$/&\n    mayLaunch: [alice, bob, carol]/' "$WORK/identities.yaml"
kill -HUP "$COORDINATOR"
cat >"$WORK/start.py" <<'P'
import sys, api
status, answer = api.call('EngineService/Start', {'request': {'requestId': sys.argv[2], 'labels': {'user': 'alice'}, 'resource': {'memoryBytes': '8388608'}, 'host': {'id': 'h1'}},
    'launch': {'account': sys.argv[1], 'command': ['/bin/true']}}, token=api.tok('alice'))
print(status, answer)
P
begin() { python3 "$WORK/start.py" "$1" "$2" >"$WORK/said" 2>&1 || true; }
allowed() { begin "$1" "$2"; grep -q '^200' "$WORK/said" || fault "$1 is refused: $(cat "$WORK/said")"; }
refused() { begin "$1" "$2"; grep -q "$3" "$WORK/said" && ! grep -q '^200' "$WORK/said" || fault "$1: $(cat "$WORK/said"); want $3"; }
within 10 bash -c "! python3 '$WORK/start.py' alice try | grep -q permission_denied"

say 'a member of a group of the directory is refused, others are not'
allowed alice one
refused bob two 'in the group \\*"ops'
refused carol three 'in the group \\*"ops'

say 'an unknown denied group, and one that cannot be looked up, refuse'
again() { agentyaml h1 "tokenFile: $TOK/agent1"$'\n'"$(remote "$1")"; kill -HUP "$AGENT"; }
again 'sudo, opps'
sleep 1
refused alice five 'does not know the group \\*"opps'
again 'sudo, down'
sleep 1
refused alice six 'look up group \\*"down'
again 'sudo, opps'
"$BURSAR" agent --config "$WORK/agent.yaml" --check >"$WORK/said" 2>&1 || true
grep -q 'deniedGroups\[1\].*opps.*no such group' "$WORK/said" || fault "--check: $(cat "$WORK/said")"

say 'the records name account and program, and no argument'
grep -q 'audit=true.*order=launch.*account=bob.*code=refused' "$WORK/agent.log" || fault "no audit record: $(grep audit "$WORK/agent.log" | head -n 3)"
