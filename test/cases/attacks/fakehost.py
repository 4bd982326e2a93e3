# argv: engines or capacity. A host that is nothing but an HTTP client with a host's token.
import random, sys, threading, time
from api import call, fault, must, tok

token, host = tok('agent2'), 'h2'
incarnation = str(int(time.time() * 1000))
capacity = {'memoryBytes': str(1 << 50), 'cpuMillis': '9000000000', 'custom': {'gpu': '1000'}}
now = lambda: time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())
epoch = must('HostService/Register', {'hostId': host, 'address': 'evil.example', 'capacity': capacity, 'bootId': 'b', 'incarnation': incarnation, 'labels': {'zone': 'a', 'tier': 'gold'}}, token=token)['epoch']
sequence = 0


def sync(engines=()):
    global sequence
    sequence += 1
    sample = {'sampleTime': now(), 'memoryTotalBytes': capacity['memoryBytes'], 'memoryAvailableBytes': capacity['memoryBytes'], 'cpuTotalMillis': capacity['cpuMillis'], 'processes': 5}
    status, answer = call('HostService/Sync', {'hostId': host, 'incarnation': incarnation, 'bootId': 'b', 'sequence': str(sequence), 'epoch': epoch, 'full': True, 'sample': sample, 'capacity': capacity, 'engines': list(engines)}, token=token, timeout=8)
    print('sync', status, str(answer)[:200])


if sys.argv[1] == 'capacity':
    def beat():
        while True:
            sync()
            time.sleep(1)
    threading.Thread(target=beat, daemon=True).start()
    time.sleep(4)
    where = {}
    for _ in range(20):
        status, answer = call('AllocationService/Allocate', {'labels': {'user': 'alice'}, 'resource': {'memoryBytes': '1048576', 'cpuMillis': '10'}}, token=tok('alice'))
        at = answer.get('allocation', {}).get('hostId', str(answer)[:200])
        where[at] = where.get(at, 0) + 1
    print('20 allocations of alice by placement:', where)
    if where.get('h2', 0) > 12:
        fault(f'the made-up host takes {where["h2"]} of 20 placements')
else:
    i = '9' + ''.join(random.choice('0123456789abcdefghjkmnpqrstvwxyz') for _ in range(12))
    grant = {'id': i, 'state': 'ALLOCATION_STATE_ACTIVE', 'hostId': host, 'labels': {'user': 'alice'}, 'requested': {'memoryBytes': str(1 << 41), 'instances': '1'}, 'entitled': {'memoryBytes': str(1 << 41), 'instances': '1'}, 'caller': 'alice', 'createTime': now(), 'confirmTime': now(), 'revision': '1', 'process': {'pid': 4242, 'startTime': '5'}}
    for _ in range(3):
        sync([{'allocationId': i, 'measured': {'memoryBytes': '1'}, 'grant': grant}])
        time.sleep(1)
    status, answer = call('AllocationService/Allocate', {'labels': {'user': 'alice'}, 'resource': {'memoryBytes': '1048576'}, 'host': {'id': 'h1'}}, token=tok('alice'))
    print('alice now:', status, answer.get('message', 'granted'))
    if status != 200:
        fault('alice is refused for an engine that a host made up: ' + answer.get('message', ''))
