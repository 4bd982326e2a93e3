"""Scripts that a caller elsewhere has executed, and what has to be on the host before: a file system
that does not answer holds nobody up."""
import base64, ctypes, os, sys, time
from api import call, fault, must, tok

WORK = os.environ['WORK']
ALICE = tok('alice')
out = WORK + '/tmp/out'


def start(name, script=b'', timeout=80, **launch):
    if script:
        launch['script'] = base64.b64encode(script).decode()
    return call('EngineService/Start', {
        'request': {'requestId': name, 'name': name, 'labels': {'user': 'alice'}, 'wait': '20s',
                    'resource': {'memoryBytes': str(16 << 20), 'cpuMillis': '10'}},
        'launch': {'account': 'alice', **launch}}, token=ALICE, timeout=timeout)


def ended(answer):
    return must('EngineService/Wait', {'id': answer['allocation']['id']}, token=ALICE)['allocation']


end = time.time() + 20
while start('first', b'#!/bin/sh\n')[0] == 403 and time.time() < end:
    time.sleep(0.1)

# Every byte arrives, up to the largest script, in each kind of interpreter.
body = bytes(range(256)) * 200
for name, script, want in (
        ('cat', b'#!/bin/cat\n' + body, None),
        ('sh', b'#!/bin/sh -e\necho "$#:$2:$BURSAR_LABEL_user:$(id -un)"\nexit 0\n' + body, b'2:$HOME:alice:alice\n'),
        ('python', b'#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n', b"['one', '$HOME']\n")):
    status, answer = start(name, script, command=['one', '$HOME'])
    if status != 200:
        fault(f'{name}: {status} {answer}')
    a = ended(answer)
    logs = a['launch']['logDirectory']
    said = open(logs + '/stdout', 'rb').read()
    if name == 'cat':  # its arguments are no files
        want = script
    if said != want:
        fault(f'{name} said {len(said)} bytes, {said[:80]}; {open(logs + "/stderr", "rb").read()[:200]}')

# What is no program, and what is missing, is named; nothing is executed.
mount = WORK + '/tmp/hangs'
os.mkdir(mount)
device = os.open('/dev/fuse', os.O_RDWR) if os.path.exists('/dev/fuse') else -1
libc = ctypes.CDLL(None, use_errno=True)
hangs = device >= 0 and libc.mount(b'hangs', mount.encode(), b'fuse', 0, f'fd={device},rootmode=40000,user_id=0,group_id=0,allow_other'.encode()) == 0
if not hangs:
    print('no file system hangs here: FUSE cannot be mounted', file=sys.stderr)
for name, words, launch in (
        ('text', 'exec format error', {'script': b'touch ' + out.encode() + b'\n'}),
        ('bytes', 'exec format error', {'script': bytes(range(256))}),
        ('interpreter', '/no/such/python', {'script': b'#!/no/such/python\n'}),
        ('return', 'carriage return', {'script': b'#!/bin/sh\r\ntrue\r\n'}),
        ('file', 'required_files[1]: \\"/opt/license\\"', {'command': ['/bin/touch', out], 'requiredFiles': ['/bin/sh', '/opt/license']}),
        ('closed', 'permission denied', {'command': ['/bin/touch', out], 'requiredFiles': [WORK + '/c/x']}),
        ('variable', 'LICENSE', {'command': ['/bin/touch', out], 'requiredVariables': ['HOME', 'LICENSE']}),
        ('hanging', 'does not answer', {'command': ['/bin/touch', out], 'requiredFiles': [mount + '/x']})):
    if name == 'hanging' and not hangs:
        continue
    began = time.time()
    status, answer = start(name, **launch)
    if status != 400 or answer.get('code') != 'failed_precondition' or words.replace('\\', '') not in answer.get('message', ''):
        fault(f'{name}: {status} {answer}')
    if time.time() - began > 20:
        fault(f'{name} took {time.time() - began:.0f} s')
if os.path.exists(out):
    fault('something was executed')

# The agent goes on.
status, answer = start('after', b'#!/bin/sh\necho after\n')
if status != 200 or 'code' in ended(answer).get('exitStatus', {'code': 1}) and ended(answer)['exitStatus'].get('code'):
    fault(f'after it: {status} {answer}')
must('AllocationService/List', {})
print('all scripts were as they should be')
