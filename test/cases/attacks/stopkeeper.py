# argv: how many launches. Every keeper is stopped as soon as it is there.
import collections, os, signal, sys, threading, time
from api import ME, call, fault

count, stop, hit = int(sys.argv[1]), False, set()


def keeper(pid):
    try:
        with open(f'/proc/{pid}/cmdline') as f:
            return 'bursar-keeper' in f.read()
    except OSError:
        return False


def parent(pid):
    try:
        with open(f'/proc/{pid}/stat') as f:
            return int(f.read().rsplit(')', 1)[1].split()[1])
    except OSError:
        return 0


def watch():
    while not stop:
        for p in os.listdir('/proc'):
            if p.isdigit() and int(p) not in hit and keeper(p):
                try:
                    os.kill(int(p), signal.SIGSTOP)
                    hit.add(int(p))
                except OSError:
                    pass


threading.Thread(target=watch, daemon=True).start()
results = collections.Counter()


def launch():
    status, answer = call('AllocationService/Allocate', {'labels': {'user': ME}, 'resource': {'memoryBytes': '1048576'}})
    if status == 200:
        status, answer = call('EngineService/Launch', {'id': answer['allocation']['id'], 'command': ['sleep', '1'], 'workingDirectory': '/tmp'}, timeout=90)
    results[status, answer.get('code')] += 1


threads = [threading.Thread(target=launch) for _ in range(count)]
for t in threads: t.start()
for t in threads: t.join()
stop = True
print(results, 'keepers stopped:', len(hit))
# What never started is killed; what may run is booked.
end = time.time() + 60
while True:
    left = [p for p in hit if keeper(p)]
    booked = {int(a.get('process', {}).get('pid', 0)) for a in call('AllocationService/List', {'labels': {'user': ME}})[1].get('allocations', []) if a['state'] == 'ALLOCATION_STATE_ACTIVE'}
    booked |= {parent(p) for p in booked}  # the keeper of what may begin
    lost = [p for p in left if p not in booked]
    if not lost:
        break
    if time.time() > end:
        fault(f'{len(lost)} of {len(hit)} stopped keepers are still there, outside of the books')
    time.sleep(0.5)
