"""A small ResourceManager has queues with odd names next to plain ones. None hides another; each is
listed; the ones that a request can name are granted from, over the API and the command line."""
import http.server, json, os, re, shlex, subprocess, sys, threading, time
from api import call, must

PORT = int(os.environ['PORT']) + 20
MIB = 1 << 20
plain = ['plain', 'batch']
# The ones that a request can name.
odd = ['a@x', 'a@', 'a:b', 'yarn:prod:root', 'a,b', 'a,b=c', 'a=b', '*', 'a*', ' a', 'a ', 'a', '  ', '"a"', "a'b", 'a\\b', '\\\\x', '$HOME', '-rf', 'a&b', '名前',
       'e\u0301', '\u00e9', '%2F', '#', 'user@EXAMPLE']
# The ones that none can name: they are listed with the reason.
hidden = ['', 'x.y', 'plain.z', 'a\u202eb', 'a\u2066', 'a\u00a0', '\u3000a', 'a\u200b\u0000', 'a\nb', 'z' * 65536, '\ufffd', 'batch', 'a\u2028']


def queue(name):
    size = {'memory': 1024, 'vCores': 8}
    return {'type': 'capacitySchedulerLeafQueueInfo', 'queueName': name, 'state': 'RUNNING', 'absoluteCapacity': 1.0, 'absoluteMaxCapacity': 50.0, 'numApplications': 0,
            'resourcesUsed': {'memory': 0, 'vCores': 0}, 'userLimitFactor': 100.0, 'userLimit': 100,
            'capacities': {'queueCapacitiesByPartition': [{'partitionName': '', 'absoluteCapacity': 1.0, 'absoluteMaxCapacity': 50.0, 'maxAMLimitPercentage': 100.0,
                                                            'effectiveMinResource': size, 'effectiveMaxResource': size}]}}


def scheduler():
    total = {'memory': 102400, 'vCores': 100}
    return {'scheduler': {'schedulerInfo': {'type': 'capacityScheduler', 'queueName': 'root', 'capacity': 100.0, 'usedCapacity': 0.0, 'maxCapacity': 100.0,
            'capacities': {'queueCapacitiesByPartition': [{'partitionName': '', 'absoluteCapacity': 100.0, 'absoluteMaxCapacity': 100.0, 'effectiveMinResource': total, 'effectiveMaxResource': total}]},
            'queues': {'queue': [queue(n) for n in plain + odd + hidden]}}}}


class RM(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = self.path.split('?')[0].removeprefix('/ws/v1/cluster')
        body = {'/info': {'clusterInfo': {'id': 1, 'startedOn': 1, 'state': 'STARTED', 'haState': 'ACTIVE', 'resourceManagerVersion': '3.3.6', 'hadoopVersion': '3.3.6'}},
                '/metrics': {'clusterMetrics': {'totalMB': 102400, 'totalVirtualCores': 100, 'activeNodes': 4, 'totalNodes': 4, 'allocatedMB': 0, 'availableMB': 102400}},
                '/nodes': {'nodes': {'node': []}}, '/apps': {'apps': None}}.get(path)
        data = json.dumps(scheduler() if path == '/scheduler' else body).encode()
        if body is None and path == '/scheduler':  # one more, which is no UTF-8
            data = data.replace(b'"queueName": "batch"', b'"queueName": "bad\xff"', 1).replace(b'"queueName": "batch"', b'"queueName": "batch"', 1)
        self.send_response(200 if body is not None or path == '/scheduler' else 404)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)


threading.Thread(target=http.server.ThreadingHTTPServer(('127.0.0.1', PORT), RM).serve_forever, daemon=True).start()
faults = 0


def check(right, what, seen=''):
    global faults
    if not right:
        faults += 1
        print('FAULT:', what, seen, flush=True)


def cli(*args):
    return subprocess.run([os.environ['BURSAR'], *args], capture_output=True, text=True)


def allocation(run):
    got = json.loads(run.stdout)
    return got.get('allocation', got)


def api(method, body):
    return call(method, body, tcp=True)


must('QueueService/PutProvider', {'provider': {'kind': 'yarn', 'cluster': 'prod', 'settings': {'addresses': f'http://127.0.0.1:{PORT}', 'interval': '2s', 'maxAge': '10s'}}}, tcp=True)
for _ in range(100):
    listed = must('QueueService/List', {'pageSize': 1000}, tcp=True).get('queues', [])
    if listed:
        break
    time.sleep(0.1)
paths = {q['path'] for q in listed if not q.get('unaddressable')}
shown = [q for q in listed if q.get('unaddressable')]
# The bytes that are no UTF-8 took the place of the first "batch", so that the second is alone.
check(not [n for n in ['plain', 'batch'] + odd if 'root.' + n not in paths], 'queues are not listed:', [n for n in ['plain', 'batch'] + odd if 'root.' + n not in paths])
check(len(shown) == len(hidden), 'queues that no request can name are not listed as such:', [(q['path'][:40], q['unaddressable']) for q in shown])
check(all(q.get('unavailable') and q['path'].isprintable() and len(q['path']) < 250 for q in shown), 'one of them is not escaped:', [q['path'] for q in shown])
text = cli('queues').stdout
check(text.isprintable() or all(c.isprintable() or c == '\n' for c in text), 'the tree has what a terminal acts on')
check(text.count('no request can name it') == len(hidden), 'the tree does not say which queues no request can name:', text[-400:])
for name in ['plain', 'batch'] + odd:
    path = 'root.' + name
    part = {'kind': 'yarn', 'cluster': 'prod', 'path': path, 'memoryBytes': str(MIB), 'cpuMillis': '1000'}
    status, answer = api('AllocationService/Allocate', {'labels': {'user': 'alice'}, 'resource': {'external': [part]}})
    check(status == 200, f'{path!r} is not granted over the API:', answer)
    if status != 200:
        continue
    got = answer['allocation']
    check(got['entitled']['external'][0]['path'] == path, f'{path!r} is granted elsewhere:', got)
    # As it is printed, for the shell.
    printed = cli('allocations', got['id']).stdout
    place = re.search(r'yarn:prod:.*?,memory=1MiB,cpu=1', printed)
    check(bool(place), f'{path!r} is not printed:', printed)
    api('AllocationService/Release', {'id': got['id']})
    if place:
        run = subprocess.run(f'{shlex.quote(os.environ["BURSAR"])} allocate -l user=alice -o json --external {shlex.quote(place.group())}', shell=True, capture_output=True, text=True)
        check(run.returncode == 0 and allocation(run)['entitled']['external'][0]['path'] == path, f'{path!r} is printed {place.group()!r} and not accepted so:', run.stderr or run.stdout)
        if run.returncode == 0:
            api('AllocationService/Release', {'id': allocation(run)['id']})
    # A limit there binds there, and nowhere else.
    status, answer = api('QuotaService/Put', {'quota': {'selector': {'user': 'alice'}, 'limit': {'external': [dict(part, memoryBytes=str(2 * MIB), cpuMillis='100000')]}}})
    check(status == 200, f'{path!r}: a limit there is refused:', answer)
    status, _ = api('AllocationService/Allocate', {'labels': {'user': 'alice'}, 'resource': {'external': [dict(part, memoryBytes=str(3 * MIB))]}})
    check(status != 200, f'{path!r}: a limit there does not bind')
    status, answer = api('AllocationService/Allocate', {'labels': {'user': 'alice'}, 'resource': {'external': [dict(part, path='root.plain' if name != 'plain' else 'root.batch', memoryBytes=str(3 * MIB))]}})
    check(status == 200, f'{path!r}: a limit there binds elsewhere:', answer)
    if status == 200:
        api('AllocationService/Release', {'id': answer['allocation']['id']})
    api('QuotaService/Delete', {'selector': {'user': 'alice'}})
sys.exit(1 if faults else 0)
