"""Readiness of engines that a caller elsewhere starts: a port, a file, a line, a command; what is
not ready in time; an agent that is killed meanwhile."""
import os, signal, socket, subprocess, threading, time
from api import call, fault, must, tok

WORK = os.environ['WORK']
PORT = int(os.environ['OTHERS'])
ALICE = tok('alice')


def request(name, script, ready, within='30s', **more):
    return {'request': {'requestId': name, 'name': name, 'labels': {'user': 'alice'}, 'wait': '20s',
                        'resource': {'memoryBytes': str(16 << 20), 'cpuMillis': '10'}},
            'launch': {'account': 'alice', 'command': ['/bin/sh', '-c', script], 'workingDirectory': WORK + '/tmp',
                       'ready': {**ready, 'within': within}}, **more}


class Start(threading.Thread):
    """Start, whose answer comes later."""

    def __init__(self, *what, **how):
        super().__init__()
        self.body, self.answer = request(*what, **how), None
        self.start()

    def run(self):
        self.answer = call('EngineService/Start', self.body, token=ALICE, timeout=80)
        self.at = time.time()

    def ready(self):
        self.join()
        status, answer = self.answer
        if status != 200 or answer['allocation'].get('phase') != 'PHASE_READY':
            fault(f'Start of {self.body["request"]["name"]} answers {status} {answer}')
        return answer['allocation']


def listed(phase):
    found = must('AllocationService/List', {'phases': ['PHASE_' + phase]}, token=tok('admin'))
    return {a['name']: a for a in found.get('allocations', [])}


def until(what, done, patience=20):
    end = time.time() + patience
    while not done():
        if time.time() > end:
            fault('not in time: ' + what)
        time.sleep(0.05)


# The identities are read again within a moment.
until('alice may launch', lambda: call('EngineService/Start', request('first', 'exit 0', {'file': '/'}), token=ALICE)[0] != 403)

# Another user's program has the port. The engine takes it when that is gone.
other = socket.socket()
other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
other.bind(('127.0.0.1', PORT))
other.listen()
serve = f"until [ -e go ]; do sleep 0.05; done; exec python3 -c 'import http.server as h; h.HTTPServer((\"127.0.0.1\", {PORT}), h.SimpleHTTPRequestHandler).serve_forever()'"
port = Start('port', serve, {'port': PORT})
until('it starts', lambda: 'port' in listed('STARTING'))
time.sleep(1)
if port.answer:
    fault(f'Start answers while another program listens: {port.answer}')
other.close()
open(WORK + '/tmp/go', 'w').close()
a = port.ready()
if not a.get('launch', {}).get('logDirectory') or not a.get('process', {}).get('pid'):
    fault(f'the answer lacks its folder or its process: {a}')
if socket.create_connection(('127.0.0.1', PORT), 5) is None:
    fault('nothing listens')

# A file, a line, a command; a FIFO is something that is there.
for name, script, ready in (
        ('file', 'sleep 0.5; mkfifo fifo; exec sleep 1000', {'file': 'fifo'}),
        ('line', 'sleep 0.5; echo up >&2; exec sleep 1000', {'line': {'pattern': '^up$', 'stream': 'OUTPUT_STREAM_STDERR'}}),
        ('command', 'sleep 0.5; touch done; exec sleep 1000', {'command': {'command': ['test', '-e', 'done']}})):
    Start(name, script, ready).ready()

# The agent is killed while one starts. The next one goes on.
late = Start('late', 'until [ -e late ]; do sleep 0.05; done; touch was; exec sleep 1000', {'file': 'was'})
until('it starts', lambda: 'late' in listed('STARTING'))
os.kill(int(os.environ['AGENT']), signal.SIGKILL)
open(WORK + '/tmp/late', 'w').close()
with open(WORK + '/agent2.log', 'w') as log:
    subprocess.Popen([os.environ['BURSAR'], 'agent', '--config', WORK + '/agent.yaml'], stdout=log, stderr=log)
late.ready()

# A command that hangs, and with a retry one that ends at once: each try is told.
for name, script, ready, retries in (
        ('hangs', 'echo words >&2; exec sleep 1000', {'command': {'command': ['sh', '-c', 'trap "" TERM; while :; do sleep 9; done']}}, 0),
        ('dies', 'echo words >&2; exit 5', {'port': 1}, 1)):
    status, answer = call('EngineService/Start', request(name, script, ready, '2s', retries=retries), token=ALICE, timeout=80)
    if status != 400 or answer.get('code') != 'failed_precondition':
        fault(f'Start of {name} answers {status} {answer}')
    ended = must('AllocationService/List', {'name': name, 'ended': True}, token=ALICE)['allocations']
    last = max(ended, key=lambda a: len(a['launch'].get('tries', [])))['launch'].get('tries', [])
    if len(last) != retries + 1 or any(t.get('errorOutput') != 'words' or t['hostId'] != 'h1' or not t.get('executed') for t in last):
        fault(f'the tries of {name}: {last}')
if [p for p in os.listdir('/proc') if p.isdigit() and b'sleep\x009\x00' in open(f'/proc/{p}/cmdline', 'rb').read()]:
    fault('a command that looked is still there')
print('all are ready, or not')
