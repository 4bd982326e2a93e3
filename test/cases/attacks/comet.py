# argv: the program comet, and stop or kill. Its root process and two chains of processes that fork
# and exit run for a minute; with kill they hold 300 MiB of a grant of 64.
import sys, time
from api import ME, call, fault, must

program, how = sys.argv[1:]
i = must('AllocationService/Allocate', {'labels': {'user': ME, 'p': how}, 'resource': {'memoryBytes': str(64 << 20), 'cpuMillis': '10'}})['allocation']['id']
must('EngineService/Launch', {'id': i, 'command': [program, '60', '2', '300' if how == 'kill' else '1', '0'], 'workingDirectory': '/tmp'})
began = time.time()
if how == 'stop':
    time.sleep(2)
    must('AllocationService/Stop', {'id': i, 'grace': '1s'})
while time.time() < began + 25:
    a = must('AllocationService/Get', {'id': i})['allocation']
    if a['state'] == 'ALLOCATION_STATE_RELEASED':
        print(f'released after {time.time() - began:.1f} s:', a.get('reason'))
        break
    time.sleep(0.5)
else:
    fault(f'{how}: after 25 s it is {a["state"]}, measured {a.get("measured")}, stopError {a.get("stopError")!r}')
time.sleep(1)
import os
left = 0
for p in os.listdir('/proc'):
    if p.isdigit():
        try:
            with open(f'/proc/{p}/cmdline', 'rb') as f:
                left += f.read().startswith(program.encode())
        except OSError:
            pass
if left:
    fault(f'{how}: {left} of its processes run after its release')
