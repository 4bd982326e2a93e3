"""A caller elsewhere tries to have listed programs execute something else."""
import base64, os, time
from api import call, fault, must, tok

WORK = os.environ['WORK']
ALICE = tok('alice')
n = 0


def start(*command, secrets=None, **launch):
    global n
    n += 1
    return call('EngineService/Start', {
        'request': {'requestId': f'r{n}', 'labels': {'user': 'alice'}, 'wait': '20s', 'host': {'id': 'h1'},
                    'resource': {'memoryBytes': str(16 << 20), 'cpuMillis': '10'}},
        'launch': {'account': 'alice', 'command': list(command), **launch}, 'secrets': secrets or {}}, token=ALICE, timeout=60)


end = time.time() + 20
while start('/bin/true')[0] == 403 and time.time() < end:
    time.sleep(0.1)

job = WORK + '/opt/job'
names = ['BASH_ENV', 'ENV', 'LD_PRELOAD', 'LD_LIBRARY_PATH', 'PATH', 'IFS', 'HOME', 'BASH_FUNC_echo%%', 'PYTHONSTARTUP', 'PYTHONPATH',
         'JAVA_TOOL_OPTIONS', 'NODE_OPTIONS', 'PERL5OPT', 'GIT_EXEC_PATH', 'LANGUAGE', 'SPARK_HOME', 'BURSAR_HELD']
for name in names:
    for where in ('environment', 'secrets'):
        status, answer = start(job, **{where: {name: WORK + '/evil'}})
        if status == 200 or f'environment {name}: this host does not let a launch set it: want only LANG, LC_*, TZ' not in str(answer).replace('\\\\', '\\'):
            fault(f'{where} {name}: {status} {answer}')
for command, words in (
        (WORK + '/tmp/mine', 'cannot change'), (WORK + '/opt/link', 'cannot change'), (WORK + '/opt/anywhere', 'cannot change'),
        (WORK + '/opt/sub/../job', 'engines.remote.programs'), ('job', 'engines.remote.programs'), ('/bin/sh', 'engines.remote.programs')):
    status, answer = start(command, workingDirectory='/')
    if status == 200 or words not in str(answer):
        fault(f'{command}: {status} {answer}')
status, answer = start(script=base64.b64encode(b'#!/bin/bash\ntouch ' + WORK.encode() + b'/tmp/evil\n').decode())
if status == 200:
    fault(f'a script: {answer}')
status, answer = start('/bin/true', ready={'command': {'command': ['/bin/sh', '-c', 'touch ' + WORK + '/tmp/evil']}})
if status == 200:
    fault(f'a check of another program: {answer}')
for evil in ('evil', 'anywhere'):
    if os.path.exists(f'{WORK}/tmp/{evil}'):
        fault(f'{evil} was executed')

# The host's own variables are there, also for what a launch requires.
status, answer = start(job, environment={'LANG': 'C.UTF-8'}, requiredVariables=['SPARK_HOME'])
if status != 200:
    fault(f'{status} {answer}')
a = must('EngineService/Wait', {'id': answer['allocation']['id']}, token=ALICE)['allocation']
said = open(a['launch']['logDirectory'] + '/stdout').read()
if said != f'{job} home=/opt/spark lang=C.UTF-8\n':
    fault(said)
