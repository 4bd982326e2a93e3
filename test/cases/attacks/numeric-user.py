# argv: names of accounts. Each runs an engine, which must have the account's own user id.
import os, pwd, sys, time
from api import call, fault, must

for name in sys.argv[1:]:
    i = must('AllocationService/Allocate', {'labels': {'user': name}, 'resource': {'memoryBytes': '8388608', 'cpuMillis': '10'}})['allocation']['id']
    into = os.environ['WORK'] + '/tmp/as-' + name
    status, answer = call('EngineService/Launch', {'id': i, 'command': ['sh', '-c', 'id -u >"$1.new" && mv "$1.new" "$1"; exec sleep 1', 'sh', into], 'workingDirectory': '/tmp', 'user': name})
    if status != 200:
        print(name, 'is refused:', answer.get('message'))
        continue
    end = time.time() + 10
    uid = None
    while uid is None and time.time() < end:
        try:
            uid = open(into).read().strip()
        except OSError:
            time.sleep(0.1)
    want = str(pwd.getpwnam(name).pw_uid)
    print(f'{name} ran as {uid}, the account has {want}')
    if uid != want:
        fault(f'the account {name} has user id {want}, and its engine ran as {uid}')
