import subprocess, threading
from api import ME, call, fault, must

doubled = 0
for _ in range(25):
    ids = [must('AllocationService/Allocate', {'labels': {'user': ME}, 'resource': {'memoryBytes': '1048576'}})['allocation']['id'] for _ in range(3)]
    process = subprocess.Popen(['sleep', '30'], start_new_session=True)
    codes, together = {}, threading.Barrier(3)

    def confirm(i):
        together.wait()
        codes[i] = call('AllocationService/Confirm', {'id': i, 'process': {'pid': process.pid}})[0]

    threads = [threading.Thread(target=confirm, args=(i,)) for i in ids]
    for t in threads: t.start()
    for t in threads: t.join()
    confirmed = sum(c == 200 for c in codes.values())
    if confirmed == 0:
        fault(f'nobody could confirm: {codes}')
    doubled += confirmed > 1
    process.kill()
    process.wait()
    for i in ids:
        call('AllocationService/Release', {'id': i})
print('rounds with more than one allocation for one pid:', doubled, 'of 25')
if doubled:
    fault(f'one pid was confirmed for several allocations in {doubled} of 25 rounds')
