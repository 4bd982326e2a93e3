# argv: the user id that it runs as, in the agent's namespace.
import subprocess, sys
from api import call

user = sys.argv[1]
status, answer = call('AllocationService/Allocate', {'labels': {'user': user}, 'resource': {'memoryBytes': str(100 << 20), 'cpuMillis': '100'}})
if status == 200:
    process = subprocess.Popen(['sleep', '600'], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    status, answer = call('AllocationService/Confirm', {'id': answer['allocation']['id'], 'process': {'pid': process.pid}})
print('granted' if status == 200 else 'refused', user, answer.get('message', '')[:160])
