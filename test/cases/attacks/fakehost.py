# argv: engines or capacity. A host that is nothing but an HTTP client with a host's token.
import random, sys, threading, time
from api import call, fault, must, tok

token, host = tok('agent2'), 'h2'
incarnation = str(int(time.time() * 1000))
capacity = {'memoryBytes': str(1 << 50), 'cpuMillis': '9000000000', 'custom': {'gpu': '1000'}}
now = lambda: time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())
def register():
    return must('HostService/Register', {'hostId': host, 'address': 'evil.example', 'capacity': capacity, 'bootId': 'b', 'incarnation': incarnation, 'labels': {'zone': 'a', 'tier': 'gold'}}, token=token)['epoch']


epoch = register()
sequence = 0


def sync(engines=()):
    global sequence
    sequence += 1
    sample = {'sampleTime': now(), 'memoryTotalBytes': capacity['memoryBytes'], 'memoryAvailableBytes': capacity['memoryBytes'], 'cpuTotalMillis': capacity['cpuMillis'], 'processes': 5}
    status, answer = call('HostService/Sync', {'hostId': host, 'incarnation': incarnation, 'bootId': 'b', 'sequence': str(sequence), 'epoch': epoch, 'full': True, 'sample': sample, 'capacity': capacity, 'engines': list(engines)}, token=token, timeout=8)
    print('sync', status, str(answer)[:200])


if sys.argv[1] == 'capacity':
    end = time.time() + 20  # until the coordinator has read the bounds
    while True:
        shown = must('HostService/Get', {'id': host}, token=tok('admin'))['host']
        if shown.get('cut'):
            break
        if time.time() > end:
            fault(f'nothing is cut of a host of 1 PiB: {shown["account"]["limit"]}')
        time.sleep(0.5)
        register()
    print('cut:', shown['cut'])
    if 'tier' in shown.get('labels', {}) or 'custom' in shown['account']['limit'] or int(shown['account']['limit']['memoryBytes']) != 64 << 20:
        fault(f'it goes beyond its identity: {shown["labels"]} {shown["account"]["limit"]}')

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
    booked = must('AllocationService/Get', {'id': i}, token=tok('admin'))['allocation']
    print('the engine counts for', booked['labels'], booked['entitled'], 'and claims', booked.get('claimed'))
    if booked['labels'].get('user') == 'alice' or 'claimed' not in booked:
        fault('an engine that a host made up counts for alice')
    if status != 200:
        fault('alice is refused for an engine that a host made up: ' + answer.get('message', ''))
